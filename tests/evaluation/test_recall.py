"""Answer recall: what is found in the context shown, and where the question does not arise."""

from __future__ import annotations

import pytest

from okralong.lab.datasets.gold import answer_recall, findable, words


@pytest.mark.parametrize(
    ("answer", "shown", "expected"),
    [
        ("1,544", "Software costs, net\n1544\n", 1.0),
        ("1544", "costs of $1,544 (in thousands)", 1.0),
        ("$ 93,662", "net sales   $   93,662   $  103,350", 1.0),
        ("93,662", "of 193,662 in all", 0.0),  # whole numbers, not pieces of them
        ("54", "1,544", 0.0),
        ("(461)", "deferred (461 ) 533", 1.0),
        ("8.40", "a high of 8.4", 1.0),
        ("8.4", "8.45", 0.0),
        (".5", "0.50 per share", 1.0),
        ("11%", "cheese 11 percent", 1.0),
        ("11%", "eleven rows: 11 of them", 0.0),  # a share is not a count
        ("11", "about 11% of it", 1.0),
        ("March 29, 1988", "Trading began on\nMarch 29,\u00a01988.", 1.0),
        ("LWAY", "under the symbol \u201cLWAY\u201d", 1.0),
        ("2018,2019", "2018 2019", 1.0),  # four digits after the comma: no thousands
    ],
)
def test_one_answer_in_one_text(answer: str, shown: str, expected: float) -> None:
    assert answer_recall(((answer,),), [shown]) == expected


def test_every_part_counts_and_any_wording_of_it() -> None:
    shown = ["the price was 5.99 and", "later 2.66; Europarl was used"]
    assert answer_recall((("$ 5.99",), ("$ 4.79",), ("$ 2.66",), ("1.88",)), shown) == 0.5
    assert answer_recall((("MultiUN", "europarl"),), shown) == 1.0


def test_words_do_not_join_across_passages() -> None:
    assert answer_recall((("Ida Moss",),), ["the chair is Ida", "Moss grows"]) == 0.0


def test_nothing_shown_is_nothing_found_and_no_parts_is_no_mark() -> None:
    assert answer_recall((("1",),), []) == 0.0
    assert answer_recall((), ["anything"]) is None


def test_yes_no_and_long_answers_are_not_looked_for() -> None:
    assert findable(["Yes", "no.", "unanswerable", "one " * 13, "one " * 12, "Ida Moss"]) == ("one " * 12, "Ida Moss")


def test_words_are_plain() -> None:
    assert words("$ (1,544.50) Percent of ﬁrms") == ["1544.5", "%", "of", "firms"]
    assert words("0.0 .0 10 100.00") == ["0", "0", "10", "100"]
