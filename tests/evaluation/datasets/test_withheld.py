"""Withheld texts are nowhere in the archive, and the questions that need them are unanswerable."""

from __future__ import annotations

from dataclasses import replace

from okralong.lab.datasets.base import DataSet, Evidence, Item, make_text
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.withheld import typed, withhold
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import pooled_set
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.types import Question

TEXTS = [
    make_text(f"Page {n}", f"Page {n} says that item {n} costs {n}00 dollars. " + f"word{n} " * 60) for n in range(40)
]


def _item(n: int, *pages: int, answers: tuple[str, ...] = ("100",)) -> Item:
    """Asks about the first of the pages; the others are distractors."""
    own = tuple(TEXTS[page].text_id for page in pages)
    question = Question(f"q{n}", "What does it cost?", answers=answers)
    return Item(Gold(question, "made up", parts=(answers,)), (f"Page {pages[0]}",), own, (Evidence(own[0], 0, 20),))


ITEMS = [_item(n, n % 20, (n + 1) % 20, 20 + n % 20) for n in range(60)]


def test_questions_that_need_a_withheld_text_become_unanswerable() -> None:
    items, gone = withhold(ITEMS, 0.3, "7")
    assert 2 <= len(gone) <= 10
    for before, after in zip(ITEMS, items, strict=True):
        lost = before.evidence[0].text_id in gone
        assert (after.gold.question.answers == (UNANSWERABLE,)) == lost
        assert bool(after.evidence) != lost
        assert bool(after.gold.parts) != lost
        assert after.text_ids
        assert gone.isdisjoint(after.text_ids)
    assert withhold(ITEMS, 0.3, "7") == (items, gone)
    assert withhold(list(reversed(ITEMS)), 0.3, "7")[1] == gone
    assert withhold(ITEMS, 0.0, "7") == (ITEMS, frozenset())


def test_a_question_without_a_text_is_asked_of_another_one() -> None:
    alone = [replace(_item(n, n), text_ids=(TEXTS[n].text_id,)) for n in range(40)]
    items, gone = withhold(alone, 0.3, "7")
    assert gone
    kept = {text.text_id for text in TEXTS} - gone
    assert all(set(item.text_ids) <= kept for item in items)


def test_the_archive_lacks_withheld_texts_and_may_be_asked_as_a_whole() -> None:
    dataset = DataSet("made up", "all", {text.text_id: text for text in TEXTS}, tuple(ITEMS))
    choice = SetChoice(name="made up", part="all", pool_tokens=1000, withheld=0.3, scope="archive")
    pooled = pooled_set(choice, dataset, (), 7)
    _, gone = withhold(ITEMS, 0.3, "7:made up")
    assert gone
    assert all(gone.isdisjoint(document.placed) for document in pooled.documents)
    assert {question.doc_ids for question in pooled.questions} == {()}
    assert any(question.item.gold.question.answers == (UNANSWERABLE,) for question in pooled.questions)


def test_answer_types_are_those_of_the_gold_answers() -> None:
    def kind(*answers: str) -> str:
        return typed(_item(0, 0, answers=answers)).gold.question.answer_type

    assert kind("1,234", "1,234 million") == "number"
    assert kind("12.5%") == "percent"
    assert kind("Yes") == "boolean"
    assert kind("the second quarter") == ""
    assert kind("1,234", "no figure") == ""
