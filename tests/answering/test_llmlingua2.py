"""LLMLingua-2, its golden trace: the chunks worth most, cut to their most probable words, whatever is asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.core.types import Answer, Question, WordKept
from okralong.pipelines.methods.llmlingua2 import Section, kept_words
from okralong.pipelines.methods.longllmlingua import cut
from okralong.pipelines.methods.registry import describe, load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
WORDS = "Alder spent 41 million crowns on research"
ANSWERED = f'Evidence: [1] "{WORDS}"\nAnswer: 41 million'
SMALL = {"llmlingua2__granularity": 150, "llmlingua2__target_tokens": 200}


class Judged(ScriptedTools):
    """Notes what is judged."""

    asked: list[list[str]]

    async def keep(self, texts: Sequence[str]) -> list[list[WordKept]]:
        self.__dict__.setdefault("asked", []).append(list(texts))
        return await super().keep(texts)


def tools_for(**policy: int | float) -> Judged:
    return Judged([ALDER, BIRCH], {"generate": [ANSWERED]}, policy=paper_policy(**(SMALL | policy)))


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("llmlingua2")(Question("q1", QUESTION), tools)


async def test_chunks_are_cut_to_the_target_by_their_words_alone() -> None:
    tools = tools_for()
    answer = await ask(tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "retrieve"),
        ("remember", "compress"),
        ("complete", "generate"),
    ]
    assert tools.of("retrieve")[0].details == {"query": QUESTION, "granularity": 150, "k": 30}
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=150, k=30)).semantic
    assert tools.asked == [[hit.chunk.text for hit in found]], "all chunks in one go, and no question"
    assert 120 < sum(passage.n_tokens for passage in answer.context) < 320
    read = {passage.chunk_ids[0] for passage in answer.context}
    assert sum(hit.chunk.n_tokens for hit in found if hit.chunk.chunk_id in read) < 2 * 200 + 150, "the coarse part"
    whole = " ".join(hit.chunk.text for hit in found if hit.chunk.chunk_id in read).split()
    kept = " ".join(passage.text for passage in answer.context).split()
    assert sum(map(len, kept)) / len(kept) > 1.3 * sum(map(len, whole)) / len(whole), "short words go first"


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


async def test_what_is_short_enough_stays_whole_and_is_cited() -> None:
    answer = await ask(tools_for(llmlingua2__target_tokens=100_000))
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", QUESTION, granularity=150, k=30)).semantic
    assert [passage.text for passage in answer.context] == [hit.chunk.text for hit in found]
    assert [citation.quote for citation in answer.citations] == [WORDS]


TEXT = "Sales of pears fell by 7 in the spring.\n\nIn May it rained. Who knew?\n"
PROBABLE = {"Sales": 0.9, "pears": 0.8, "fell": 0.7, "spring": 0.6, "May": 0.5, "rained": 0.4}


def kept(share: float, **policy: object) -> str:
    spans = []
    for word in TEXT.replace(".", " . ").replace("?", " ? ").split():
        start = TEXT.index(word, spans[-1].end if spans else 0)
        spans.append(WordKept(start, start + len(word), PROBABLE.get(word, 0.1)))
    return cut(TEXT, kept_words(TEXT, spans, share, Section.model_validate(policy)))


@pytest.mark.parametrize(
    ("share", "policy", "left"),
    [
        (0.5, {}, "Sales of pears fell spring.\n May rained."),
        (0.5, {"always": ""}, "Sales of pears fell by spring May rained"),
        (0.5, {"always": "", "keep_digits": True}, "Sales of pears fell 7 spring May rained"),
        (0.01, {"always": ""}, "Sales"),
        (1.0, {}, TEXT),
    ],
)
def test_words_stay_whole_and_signs_stay_where_they_part_something(
    share: float, policy: dict[str, object], left: str
) -> None:
    assert kept(share, **policy) == left


def test_a_run_must_have_a_token_classifier_and_vectors() -> None:
    spec = describe("llmlingua2", paper_policy())
    assert (spec.needs.token_classifier, spec.needs.scorer) == (True, False)
    assert (spec.needs.vectors, spec.needs.unforeseen) == (True, None)
