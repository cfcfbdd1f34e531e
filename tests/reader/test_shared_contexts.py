"""Shared contexts: look-ups become questions of their own, and each question is asked once."""

from __future__ import annotations

from dataclasses import replace

from okralong.lab.datasets.base import Hop, Item
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.pooling import PooledQuestion, Span
from okralong.lab.training.rows.reader_rows import SharedContexts, hop_questions
from okralong.pipelines.core.types import Question

TEXTS = {"d": "Ann Alder was a poet. Her father was Max Alder. Max was a son of Eve Birch, who had 3 sons."}


def piece(words: str) -> Span:
    start = TEXTS["d"].index(words)
    return Span("d", start, start + len(words))


def asked(number: int, *text_ids: str, hops: tuple[Hop, ...] = ()) -> PooledQuestion:
    question = Question(
        f"q{number}", "Who is the grandmother of Ann Alder?", answers=("Eve Birch",), type="multi-bridge"
    )
    item = Item(Gold(question, "town", "inference"), ("Ann Alder",), text_ids, gold_queries=("x",), hops=hops)
    return PooledQuestion(item, ("d",), (piece("Her father was Max Alder."), piece("Max was a son of Eve Birch")), ())


def test_a_look_up_is_asked_with_the_piece_that_names_its_answer() -> None:
    hops = (
        Hop("Ann Alder father", "Max Alder"),
        Hop("Who is the mother of Max Alder?", "Eve Birch"),
        Hop("Is Eve Birch dead?", "no"),
        Hop("Where was Eve Birch born?", "Holt"),
    )
    first, second = hop_questions(asked(1, "t", hops=hops), TEXTS)
    assert [each.item.gold.question.question for each in (first, second)] == [
        "Ann Alder father?",
        "Who is the mother of Max Alder?",
    ]
    assert [each.evidence for each in (first, second)] == [
        (piece("Her father was Max Alder."),),
        (piece("Max was a son of Eve Birch"),),
    ]
    assert first.item.gold.question.query_id == "q1-hop1"
    assert (first.item.gold.question.answers, first.item.gold.question.type) == (("Max Alder",), "extractive")
    assert first.item.gold.parts == (("Max Alder",),)
    assert (first.item.gold_queries, first.item.hops, first.doc_ids, first.item.text_ids) == ((), (), ("d",), ("t",))


def test_questions_on_a_text_share_a_context_and_are_taken_once() -> None:
    alone, one, two, both = asked(1, "c"), asked(2, "a"), asked(3, "b"), asked(4, "b", "a")
    shared = SharedContexts([alone, one, two, both])
    assert shared.others(both) == [two, both, one]
    shared.take(both)
    shared.take(two)
    assert shared.others(both) == [one]
    assert shared.others(alone) == [alone]
    assert not shared.waiting(two)
    assert shared.waiting(replace(one))
    shared.take(two)  # a second time is no error
    assert SharedContexts([]).others(one) == []
