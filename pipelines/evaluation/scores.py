"""F1 and exact match of an answer, where a number that is right counts as right however it was rounded."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.reporting.metrics import best, exact_match, gold_quantity, numeric_match, token_f1


def scores(answer: str, golds: Sequence[str]) -> tuple[float, float, bool | None]:
    """``(F1, exact match, numeric match)`` against the best of ``golds``; the last is None where no gold is a number.

    UDA and FinQA score numbers by value: an answer that is nothing but the right number has F1 and exact match 1. A
    sentence around it is scored by its words. Raises ValueError without golds.
    """
    numeric = numeric_match(answer, golds)
    if numeric and gold_quantity(answer) is not None:
        return 1.0, 1.0, True
    return best(token_f1, answer, golds), best(exact_match, answer, golds), numeric
