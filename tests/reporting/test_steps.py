"""Journal rows as the page shows them."""

from __future__ import annotations

import json

from okralong.pipelines.answering.prompt_text import framed_prompt
from okralong.pipelines.core.types import Passage
from okralong.pipelines.reporting.steps import MESSAGE_CHARS, PASSAGE_CHARS, shortened, step_of


def test_passages_of_a_real_prompt_are_cut_and_the_question_stays() -> None:
    passages = [
        Passage("alder", 0, 5_000, "first words " + "x" * 5_000, 9, 1.0),
        Passage("b", 0, 9, "all of it", 2, 0.5),
    ]
    text = shortened(framed_prompt("Reply.", "How many?", passages)[1].content)
    assert text.startswith("[passage 1 of alder]\nfirst words x")
    assert f"[{5_012 - PASSAGE_CHARS:,} more characters]" in text
    assert "[passage 2 of b]\nall of it" in text
    assert text.endswith("Question: How many?")


def test_a_prompt_without_passages_is_bounded() -> None:
    assert len(shortened("y" * 1_000_000)) < MESSAGE_CHARS + 60


def test_each_kind_has_its_words() -> None:
    row = ["c9", "alder", 150, 0, 10, 90, 30, None, 2.5]
    wanted = {"query": "How many?", "granularity": 150, "k": 20}
    step = step_of("retrieve", "retrieval", json.dumps({"wanted": wanted, "exact": [row] * 9, "semantic": []}))
    assert step is not None
    assert step[:3] == ["retrieve", "retrieval", "top 20 of 150-token chunks for each retriever"]
    assert [title for title, _ in step[3]] == ["query", "exact: best 3 of 9", "semantic: best 0 of 0"]
    assert step[3][1][1].splitlines()[0].split() == ["2.500", "alder:10-90"]
    chosen = step_of("select", "selection", json.dumps({"wanted": {"pool": ["a", "b", "c"]}, "chosen": ["a", "c"]}))
    assert chosen is not None
    assert chosen[3] == [("ranks", "1, 3")]
    assert step_of("plan", "plan", "{}") is None
