"""F1 and exact match against cases worked by hand from the definition."""

from __future__ import annotations

import pytest

from okralong.pipelines.reporting.metrics import best, exact_match, normalise, token_f1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Quick, brown fox.", "quick brown fox"),
        ("A man; an owl; the sea", "man owl sea"),
        ("$ 1,544.50", "154450"),
        ("state-of-the-art", "stateoftheart"),
        ("another theme", "another theme"),
        (" \n", ""),
    ],
)
def test_a_text_is_seen_without_case_punctuation_and_articles(text: str, expected: str) -> None:
    assert normalise(text) == expected


@pytest.mark.parametrize(
    ("prediction", "gold", "f1", "em"),
    [
        ("Ida Moss", "ida moss.", 1.0, 1.0),
        ("the chair is Ida Moss", "Ida Moss", 2 * (2 / 4) * 1 / (2 / 4 + 1), 0.0),  # four words after "the", two shared
        ("Ida", "Ida Moss", 2 * 1 * 0.5 / 1.5, 0.0),
        ("Moss Ida", "Ida Moss", 1.0, 0.0),  # the order of words is nothing to F1 and something to EM
        ("yes yes", "yes", 2 * 0.5 * 1 / 1.5, 0.0),  # a word is shared as often as both have it
        ("x x y", "x x z", 2 / 3, 0.0),
        ("Birch", "Alder", 0.0, 0.0),
        ("", "Alder", 0.0, 0.0),
        ("the", "a", 1.0, 1.0),  # nothing is left of either
        ("17,520 and 17,332", "17,520; 17,332", 2 * (2 / 3) * 1 / (2 / 3 + 1), 0.0),
        ("董事长是王芳。", "王芳", 2 * (2 / 6) * 1 / (2 / 6 + 1), 0.0),  # six characters, two shared
        ("2023年。", "2023年", 1.0, 1.0),  # a number is one word
    ],
)
def test_f1_and_exact_match(prediction: str, gold: str, f1: float, em: float) -> None:
    assert token_f1(prediction, gold) == pytest.approx(f1)
    assert exact_match(prediction, gold) == em


def test_the_best_gold_answer_counts() -> None:
    assert best(token_f1, "Europarl", ["MultiUN", "Europarl and MultiUN", "Europarl"]) == 1.0
    with pytest.raises(ValueError, match="empty"):
        best(token_f1, "Europarl", [])
