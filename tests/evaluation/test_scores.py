"""F1 and exact match where numbers count by value."""

from __future__ import annotations

from okralong.lab.training.reader_marks import scores


def test_a_right_number_is_right_however_it_is_rounded() -> None:
    assert scores("14.62%", ("14.6%", "0.146")) == (1.0, 1.0, True)
    assert scores("12.58", ("12.6",)) == (1.0, 1.0, True)
    assert scores("13.6", ("12.6",)) == (0.0, 0.0, False)


def test_a_sentence_around_it_and_an_answer_in_words_are_scored_by_words() -> None:
    f1, exact, numeric = scores("Alder had sales of 12.5 million.", ("12.5 million",))
    assert 0 < f1 < 1
    assert (exact, numeric) == (0.0, True)
    assert scores("the Old Mill", ("Old Mill",)) == (1.0, 1.0, None)
