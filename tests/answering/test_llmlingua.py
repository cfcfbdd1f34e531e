"""LLMLingua's golden trace: the surprising chunks, cut to their surprising tokens without a look at the question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.registry import describe, load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
WORDS = "Alder spent 41 million crowns on research"
ANSWERED = f'Evidence: [1] "{WORDS}"\nAnswer: 41 million'
SMALL = {"llmlingua__granularity": 150, "llmlingua__target_tokens": 200, "llmlingua__segment": 20}


class Scored(ScriptedTools):
    """Notes what is measured. A word that was read before is no surprise, a number always is."""

    asked: list[tuple[str, list[str]]]

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        self.__dict__.setdefault("asked", []).append((prefix, list(texts)))
        seen = set(prefix.split())
        return [[-9.0 if w.isdigit() else -0.5 if w in seen else -2.0 for w in text.split()] for text in texts]


def tools_for(**policy: int | float) -> Scored:
    return Scored([ALDER, BIRCH], {"generate": [ANSWERED]}, policy=paper_policy(**(SMALL | policy)))


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("llmlingua")(Question("q1", QUESTION), tools)


async def test_chunks_are_cut_to_the_target_by_what_stands_before_them() -> None:
    tools = tools_for()
    answer = await ask(tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "retrieve"),
        ("remember", "compress"),
        ("complete", "generate"),
    ]
    assert tools.of("retrieve")[0].details == {"query": QUESTION, "granularity": 150, "k": 30}
    (no_prefix, chunks), *stretches = tools.asked
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=150, k=30)).semantic
    assert (no_prefix, chunks) == ("", [hit.chunk.text for hit in found])
    assert not any(QUESTION in prefix for prefix, _ in tools.asked), "the question is not looked at"
    assert all(len(text.split()) <= 20 for _, (text,) in stretches)
    prefixes = [prefix for prefix, _ in stretches]
    assert prefixes[0] == ""
    assert all(later.startswith(earlier) for earlier, later in pairwise(prefixes))
    tokens = sum(passage.n_tokens for passage in answer.context)
    assert 120 < tokens < 320
    # What repeats goes first; the numbers, which nothing foretells, stay.
    read = {passage.chunk_ids[0] for passage in answer.context}
    whole = " ".join(hit.chunk.text for hit in found if hit.chunk.chunk_id in read).split()
    kept = " ".join(passage.text for passage in answer.context).split()
    assert sum(word.isdigit() for word in kept) > 0.9 * sum(word.isdigit() for word in whole)
    assert len(kept) < 0.7 * len(whole)


async def test_what_is_shown_are_stretches_of_the_documents_in_the_order_of_retrieval() -> None:
    answer = await ask(tools_for())
    documents = {document.doc_id: document.text for document in (ALDER, BIRCH)}
    assert len(answer.context) > 5
    for passage in answer.context:
        assert passage.text == documents[passage.doc_id][passage.start_char : passage.end_char]
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=150, k=30)).semantic
    rank = {hit.chunk.chunk_id: number for number, hit in enumerate(found)}
    order = [rank[passage.chunk_ids[0]] for passage in answer.context]
    assert order == sorted(order)


async def test_what_is_short_enough_stays_whole() -> None:
    tools = tools_for(llmlingua__target_tokens=100_000)
    answer = await ask(tools)
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=150, k=30)).semantic
    assert [passage.text.strip() for passage in answer.context] == [hit.chunk.text.strip() for hit in found]
    (citation,) = (await ask(tools_for(llmlingua__target_tokens=100_000))).citations
    assert citation.quote == WORDS


def test_a_run_must_have_a_scorer_and_vectors() -> None:
    spec = describe("llmlingua", paper_policy())
    assert (spec.needs.scorer, spec.needs.vectors, spec.needs.unforeseen) == (True, True, None)
