"""Marks by set, worked by hand from the definitions of LongBench, UDA and Qasper."""

from __future__ import annotations

import pytest

from okralong.pipelines.reporting.metrics import Marks, Typed, answer_marks


def marks(dataset: str, answer: str, *golds: str, status: str = "answered") -> Marks:
    return answer_marks(dataset, status, answer, golds)


@pytest.mark.parametrize(
    ("dataset", "answer", "gold", "f1", "em", "numeric"),
    [
        # FinQA: within 1 % of the gold number, however it is rounded or written.
        ("finqa", "9.36%", "9.4%", 1.0, 1.0, 1.0),
        ("finqa", "0.0936", "9.4%", 1.0, 1.0, 1.0),
        ("finqa", "9.2%", "9.4%", 0.0, 0.0, 0.0),
        ("finqa", "-9.4%", "9.4%", 0.0, 0.0, 0.0),  # by words the sign is punctuation; by value it is not
        ("finqa", "It rose by 9.36%", "9.4%", 0.0, 1.0, 1.0),  # EM is that of numbers, F1 that of words
        ("own", "12.35 million", "12,400,000", 1.0, 1.0, 1.0),
        ("tatqa", "it was $ 1,544 million", "1,544 million", 2 * (2 / 4) * 1 / (2 / 4 + 1), 0.0, 1.0),
        # LongBench: words alone. 1999 and 2001 lie within 1 %, and are two years.
        ("hotpotqa", "12.40", "12.4", 0.0, 0.0, 1.0),
        ("2wikimultihopqa", "built by Tom Birch", "Tom Birch", 2 * (2 / 4) * 1 / (2 / 4 + 1), 0.0, None),
        # Qasper: an answer that begins with yes is yes.
        ("qasper", "Yes, on three corpora", "Yes", 1.0, 1.0, None),
        ("qasper", "No corpus is named", "Yes", 0.0, 0.0, None),
        ("hotpotqa", "Yes, both", "yes", 2 * 0.5 * 1 / 1.5, 0.0, None),
    ],
)
def test_each_set_is_marked_as_its_benchmark_says(
    dataset: str, answer: str, gold: str, f1: float, em: float, numeric: float | None
) -> None:
    found = marks(dataset, answer, gold)
    assert (found.f1, found.em) == (pytest.approx(f1), em)
    assert found.numeric == numeric


def test_the_best_wording_counts() -> None:
    assert marks("qasper", "Europarl", "MultiUN", "Europarl").f1 == 1.0
    assert marks("qmsum", "the cat sat", "a dog ran", "the cat sat down").rouge_l == pytest.approx(6 / 7)


def test_only_an_answer_earns_a_mark() -> None:
    assert marks("musique", "Tom Birch", "Tom Birch", status="failed") == Marks(0.0, 0.0, 0.0, None)
    assert marks("finqa", "12", "12", status="failed") == Marks(0.0, 0.0, 0.0, 0.0)
    assert marks("musique", "", "unanswerable", status="unanswerable").em == 1.0
    assert marks("musique", "", "Tom Birch", status="unanswerable") == Marks(0.0, 0.0, 0.0, None)


def test_what_was_never_asked_and_what_has_no_gold_has_no_mark() -> None:
    assert marks("finqa", "", "12", status="over_budget") == Marks()
    assert marks("finqa", "12") == Marks()


@pytest.mark.parametrize(
    ("answer_type", "columns", "gold", "right", "numeric"),
    [
        ("money", {"value": "467460000", "number": 467460000.0, "scale": "thousand"}, "$467,460 thousand", 1.0, 1.0),
        ("money", {"value": "467460000", "number": 467460000.0, "scale": "thousand"}, "467,460", 1.0, 1.0),
        ("money", {"value": "467460000", "number": 467460000.0}, "$467 million", 1.0, 1.0),
        ("money", {"value": "467460000", "number": 467460000.0}, "$468 million", 0.0, 0.0),
        ("money", {"value": "5", "number": 5.0, "currency": "EUR"}, "$5", 0.0, 0.0),
        ("percent", {"value": "-3.5", "number": -3.5, "unit": "%"}, "(3.5) %", 1.0, 1.0),
        ("date", {"value": "2023-03-03"}, "3 March 2023", 1.0, None),
        ("period", {"value": "FY2023"}, "fiscal year 2023", 1.0, None),
        ("boolean", {"value": "no"}, "No", 1.0, None),
        ('choices ["up", "down"]', {"value": "up"}, "down", 0.0, None),
        ("money", {}, "$5", 0.0, 0.0),
    ],
)
def test_the_value_of_a_typed_question_is_marked_as_a_value(
    answer_type: str, columns: dict[str, object], gold: str, right: float, numeric: float | None
) -> None:
    empty = dict.fromkeys(("value", "number", "unit", "scale", "currency", "period"))
    typed = Typed.of({"answer_type": answer_type, **empty, **columns})
    status = "answered" if columns else "invalid_output"
    found = answer_marks("hotpotqa", status, "in other words", [gold], typed)
    assert (found.f1, found.em, found.numeric) == (right, right, numeric)


def test_lists_objects_and_words_are_marked_as_words() -> None:
    for answer_type in ("", "list of money", "list of text", '{"type": "object"}'):
        assert Typed.of({"answer_type": answer_type, "value": "x"}) is None
    typed = Typed.of({"answer_type": "money", "value": None})
    assert answer_marks("", "unanswerable", "", ["unanswerable"], typed) == marks(
        "", "", "unanswerable", status="unanswerable"
    )
