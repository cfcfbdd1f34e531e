from __future__ import annotations

from okralong.lab.datasets.base import DataSet, make_text
from okralong.lab.datasets.split import Side, Split, document_hash, leaks, question_hash, text_hash
from okralong.lab.datasets.split_build import build_split
from tests.evaluation.split.invented import TEST_FIRST, data_set, text_of


def by_hand(questions: dict[str, Side], documents: dict[str, Side], texts: dict[str, Side] | None = None) -> Split:
    return Split(
        {question_hash(question): side for question, side in questions.items()},
        {document_hash(name): side for name, side in documents.items()},
        {text_hash(make_text("", text_of(name)).text_id): side for name, side in (texts or {}).items()},
    )


def test_a_document_or_a_gold_text_on_two_sides_is_found() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], []), ("b?", ["Oak"], [])])
    found = leaks([lessons], by_hand({"a?": "train", "b?": "test"}, {}))
    assert len(found) == 2
    assert any("the document 'oak' is on train (lessons/train lessons-train-0), test (" in line for line in found)
    assert any(line.startswith("the text ") for line in found)


def test_a_shown_distractor_of_another_side_is_found() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], ["Elm"])])
    exam = data_set("exam", "all", [("b?", ["Elm"], [])])
    sides: dict[str, Side] = {"a?": "train", "b?": "test"}
    assert len(leaks([lessons, exam], by_hand(sides, {}))) == 2
    assert leaks([lessons, exam], by_hand(sides, {"Elm": "test"})) == []


def test_a_lost_gold_text_is_found() -> None:
    lessons = data_set("lessons", "train", [("a?", ["Oak"], [])])
    moved = data_set("lessons", "train", [("a?", ["Oak"], [])])
    texts = {t: make_text("Elm", text.text) for t, text in moved.texts.items()}
    split = by_hand({"a?": "train"}, {"Oak": "train", "Elm": "test"})
    assert leaks([lessons], split) == []
    found = leaks([DataSet("lessons", "train", texts, moved.items)], split)
    assert len(found) == 1
    assert "lessons-train-0 on train has lost its gold text" in found[0]


def test_what_is_built_does_not_leak() -> None:
    towns = [f"Town {number}" for number in range(40)]
    lessons = data_set(
        "lessons",
        "train",
        [(f"How large is {towns[n]}?", [towns[n]], towns[n + 1 : n + 9]) for n in range(30)]
        + [("What is it about?", [towns[n]], []) for n in range(0, 30, 4)],
    )
    dev = data_set("dev", "dev", [("What is it about?", [town], towns[:12]) for town in towns[25:]], loose=towns)
    split, account = build_split([lessons, dev], TEST_FIRST)
    assert leaks([lessons, dev], split) == []
    assert account.counts["lessons/train"]["train"] >= 25
