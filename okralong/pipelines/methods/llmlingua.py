"""LLMLingua (Jiang et al. 2023): a small language model shortens the 30 best chunks without looking at the question, by
leaving out what it could have guessed; the generator answers once, from what is left.

Coarse (section 3.1): the chunks that surprise the small model most stay, twice the target together. Fine (section 3.2,
iterative token-level compression): in stretches of 200 tokens, each read behind what was kept before it, the least
likely tokens stay, 2,000 together. What is shown and cited is made as in LongLLMLingua (``longllmlingua.py``), which
differs in that the question ranks and cuts.

Where this differs from the paper:

- The small model is the run's scorer, SmolLM2-135M unless told otherwise; the paper's is LLaMA-7B or GPT2-Alpaca,
  aligned with the generator by a training of its own, which is left out.
- What the paper shortens are demonstrations; here, as SARA's authors ran it, retrieved chunks.
- Every stretch keeps the same share of its tokens, which is the paper's budget for demonstrations; instruction and
  question, of which it keeps 0.85 and 0.9, are left whole.
- The chunks stay in the order of retrieval, by which they are also read.
- Quotations are looked for in the whole chunks, as for LongLLMLingua.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.select_evidence import SEPARATOR, self_information
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Question
from okralong.pipelines.methods.longllmlingua import (
    Kept,
    Shortening,
    Span,
    answer_shortened,
    cut,
    kept_spans,
    most_telling,
    within_budget,
)
from okralong.pipelines.methods.needs import Needs


class Section(Shortening):
    """LLMLingua: of the ``candidates`` best chunks of ``granularity`` tokens those that surprise a small model most are
    kept, ``coarse_factor`` times ``target_tokens`` together, and then cut to ``target_tokens``, ``segment`` of the
    small model's tokens at a time, each read behind what was kept before it.
    """

    KEY = "llmlingua"
    segment: Annotated[int, Field(ge=8, le=8192)] = 200


def needs(policy: Policy) -> Needs:
    """Return what the method needs of a run."""
    return Needs(granularities=(policy.section(Section).granularity,), vectors=True, scorer=True)


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, ``compress``, ``generate``."""
    policy = tools.policy.section(Section)
    return await answer_shortened(question, tools, "LLMLingua", policy, partial(shortened, tools, policy=policy))


async def shortened(tools: Tools, hits: Sequence[Hit], policy: Section) -> Kept:
    """The most surprising of ``hits``, in their order, each with the stretches of its text that stay."""
    chosen = await _coarse(tools, hits, policy)
    share = min(1.0, policy.target_tokens / max(1, sum(hit.chunk.n_tokens for hit in chosen)))
    kept: Kept = []
    before = ""
    for hit in chosen:
        spans: list[Span] = []
        for start, end in await _segments(tools, hit.chunk.text, policy.segment):
            stretch = hit.chunk.text[start:end]
            (logs,) = await tools.score(before, [stretch])
            (ends,) = await tools.token_ends([stretch])
            found = kept_spans(ends, most_telling([-each for each in logs], share))
            spans += [(start + first, start + last) for first, last in found]
            before += cut(stretch, found)
        if spans:
            kept.append((hit, _joined(spans)))
            before += SEPARATOR
    return kept


async def _coarse(tools: Tools, hits: Sequence[Hit], policy: Section) -> list[Hit]:
    """The chunks of the highest perplexity, as many as the coarse budget holds and one more, in the order of ``hits``
    (the authors' ``prompt_compressor.py`` sorts by falling perplexity where no question is given).
    """
    surprise = [self_information(logs) for logs in await tools.score("", [hit.chunk.text for hit in hits])]
    order = sorted(range(len(hits)), key=lambda number: -surprise[number])  # stable: of equals the better ranked
    kept = {hit.chunk.chunk_id for hit in within_budget([hits[n] for n in order], _budget(policy))}
    return [hit for hit in hits if hit.chunk.chunk_id in kept]


def _budget(policy: Section) -> float:
    return policy.coarse_factor * policy.target_tokens


async def _segments(tools: Tools, text: str, size: int) -> list[Span]:
    """The ranges of a text that hold ``size`` of the small model's tokens each, the last one what is left."""
    (ends,) = await tools.token_ends([text])
    cuts = [0, *(ends[number] for number in range(size - 1, len(ends), size)), len(text)]
    return [(start, end) for start, end in pairwise(cuts) if end > start]


def _joined(spans: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
