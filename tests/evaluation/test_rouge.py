"""ROUGE-L against cases worked by hand from Lin (2004)."""

from __future__ import annotations

import pytest

from okralong.pipelines.reporting.metrics import common_subsequence, rouge_l


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        # Lin's own example, section 3.1: S1 is the reference; "police the gunman" has 3 of 4, "the gunman" 2 of 4.
        ("police kill the gunman", "police killed the gunman", 3 / 4),
        ("the gunman kill police", "police killed the gunman", 2 / 4),
        ("the gunman police killed", "police killed the gunman", 2 / 4),
        # 2 common words of 3 said and 5 wanted: precision 2/3, recall 2/5, harmonic mean 1/2.
        ("a b x", "a c b d e", 0.5),
        ("The Mill, rebuilt.", "the mill rebuilt", 1.0),
        ("north", "south", 0.0),
        ("", "south", 0.0),
        ("...", "-", 1.0),
    ],
)
def test_the_longest_common_subsequence_of_words(prediction: str, gold: str, expected: float) -> None:
    assert rouge_l(prediction, gold) == pytest.approx(expected)
    assert rouge_l(gold, prediction) == pytest.approx(expected), "precision and recall weigh alike"


def test_order_counts_and_gaps_do_not() -> None:
    assert common_subsequence("abcd", "badc") == 2
    assert common_subsequence("axbyc", "abc") == 3
    assert common_subsequence([], ["a"]) == 0
