"""Retrieval and reasoning in turns: IRCoT (Trivedi et al. 2023, section 3), the iterative way of Adaptive-RAG.

Each sentence of a chain of thought is the query of the next look-up; the answer is read from all that was gathered.
"""

from __future__ import annotations

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.operators.sentence import write_sentence
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Plan


async def interleave(tools: Tools, question: str, plan: Plan, max_chunks: int) -> Answer:
    """Answer by at most ``plan.max_steps`` sentences over at most ``max_chunks`` chunks, those found first.

    Steps: ``retrieve``, then ``step/1/reason``, ``step/1/retrieve`` onward until a sentence concludes or repeats one,
    and ``generate``. The reader sees the passages and not the chain, as in the paper.
    """
    gathered: dict[str, Hit] = {}

    async def look_up(step: str, query: str) -> list[Hit]:
        found = await tools.retrieve(step, query, granularity=plan.granularity, k=plan.count)
        for hit in found.semantic[: plan.count]:
            if len(gathered) < max_chunks:
                gathered.setdefault(hit.chunk.chunk_id, hit)
        return list(gathered.values())

    hits = await look_up("retrieve", question)
    said: list[str] = []
    for number in range(1, plan.max_steps + 1):
        sentence = await write_sentence(tools, f"step/{number}/reason", question, hits, said)
        if sentence.conclusion is not None or sentence.text in said:
            break
        said.append(sentence.text)
        hits = await look_up(f"step/{number}/retrieve", sentence.text)
    return await generate(tools, "generate", question, [passage_of(hit) for hit in hits], hits)
