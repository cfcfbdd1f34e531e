"""LongLLMLingua's golden trace: chunks ranked by the question behind them, cut to the tokens it makes likely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.longllmlingua import RESTRICTION, contrasts, cut, kept_spans, most_telling, shares
from okralong.pipelines.methods.registry import describe, load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

RESEARCH = "How much did Alder spend on research?"
ANSWERED = 'Evidence: [1] "Alder spent 41 million crowns on research"\nAnswer: 41 million'


class Scored(ScriptedTools):
    """Notes what is measured, and finds words likely that stand in what comes before them."""

    asked: list[tuple[str, list[str]]]

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        self.__dict__.setdefault("asked", []).append((prefix, list(texts)))
        return await super().score(prefix, texts)


def tools_for(**policy: int | float) -> Scored:
    return Scored([ALDER, BIRCH], {"generate": [ANSWERED]}, policy=paper_policy(**policy))


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("longllmlingua")(Question("q1", RESEARCH), tools)


SMALL: dict[str, int | float] = {"longllmlingua__granularity": 150, "longllmlingua__target_tokens": 200}


async def test_chunks_are_ranked_by_the_question_behind_them_and_cut_to_the_target() -> None:
    tools = tools_for(**SMALL)
    answer = await ask(tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "retrieve"),
        ("remember", "compress"),
        ("complete", "generate"),
    ]
    assert tools.of("retrieve")[0].details == {"query": RESEARCH, "granularity": 150, "k": 30}
    *coarse, plain, conditioned = tools.asked
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", RESEARCH, granularity=150, k=30)).semantic
    assert [prefix.strip() for prefix, _ in coarse] == [hit.chunk.text.strip() for hit in found]
    assert {texts[0] for _, texts in coarse} == {f"{RESEARCH} {RESTRICTION}"}
    assert (plain[0], conditioned[0]) == ("", f"{RESEARCH}\n\n")
    assert plain[1] == conditioned[1]
    # Twice the target's tokens, and one chunk more; the one that holds the question's words first.
    assert 3 <= len(plain[1]) <= 5
    assert "Alder spent 41 million crowns on research" in plain[1][0]
    shown = tools.prompt("generate")
    assert "Alder spent" in shown
    tokens = sum(passage.n_tokens for passage in answer.context)
    assert 100 < tokens < 300
    assert tokens < 0.8 * sum(tools.count(text) for text in plain[1])


async def test_what_is_shown_are_stretches_of_the_documents_and_quotations_are_found_in_the_whole() -> None:
    answer = await ask(tools_for(**SMALL))
    documents = {document.doc_id: document.text for document in (ALDER, BIRCH)}
    assert len(answer.context) > 5
    for passage in answer.context:
        assert passage.text == documents[passage.doc_id][passage.start_char : passage.end_char]
    (citation,) = answer.citations
    assert citation.quote == "Alder spent 41 million crowns on research"
    assert documents[citation.doc_id][citation.start_char : citation.end_char] == citation.quote


async def test_what_is_short_enough_stays_whole() -> None:
    answer = await ask(tools_for(longllmlingua__target_tokens=100_000))
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", RESEARCH, granularity=512, k=30)).semantic
    assert {passage.text.strip() for passage in answer.context} == {hit.chunk.text.strip() for hit in found}


async def test_a_resumed_run_shows_what_was_kept_before() -> None:
    class Resumed(Scored):
        async def remember(self, step: str, asked: object, make: object) -> object:
            (first, *_) = (await ScriptedTools([ALDER]).retrieve("x", RESEARCH, granularity=512, k=30)).semantic
            return [[first.chunk.chunk_id, [[0, 6], [12, 22]]]]

    tools = Resumed([ALDER], {"generate": [ANSWERED]})
    answer = await ask(tools)
    assert len(answer.context) == 2
    assert "asked" not in tools.__dict__


def test_a_run_must_have_a_scorer() -> None:
    assert describe("longllmlingua", paper_policy()).needs.scorer
    assert not describe("std_rag", paper_policy()).needs.scorer


def test_shares_fall_in_a_line_about_the_mean() -> None:
    assert shares(3, 0.5, 0.3) == pytest.approx([0.8, 0.5, 0.2])
    assert shares(3, 0.9, 0.3) == pytest.approx([1.0, 0.9, 0.6])
    assert shares(1, 0.4, 0.3) == [0.4]


def test_tokens_that_the_question_makes_likely_stay() -> None:
    text = "The chair of Alder is Ida Moss."
    ends = [3, 9, 12, 18, 21, 25, 31]
    values = contrasts([-2.0, -0.5, -2.0, -0.4, -2.0, -1.0, -1.0], [-2.0, -2.5, -2.0, -1.4, -2.0, -3.5, -2.9])
    assert values == pytest.approx([0, 2.0, 0, 1.0, 0, 2.5, 1.9])
    places = most_telling(values, 4 / 7)
    assert places == [1, 3, 5, 6]
    spans = kept_spans(ends, places)
    assert spans == [(3, 9), (12, 18), (21, 31)]
    assert cut(text, spans) == " chair Alder Ida Moss."
    assert most_telling([1.0, 1.0, 1.0], 0.01) == [0]
    assert kept_spans([4, 4, 8], [1, 2]) == [(4, 8)], "the second half of a character alone is nothing"
