"""Balanced training rows: no type and no source drowns the others, and the draw is the seed's."""

from __future__ import annotations

from collections import Counter

from okralong.lab.training.rows.analyzer_rows import balanced
from okralong.lab.training.rows.tables import TrainingRow
from okralong.pipelines.core.types import QuestionType


def row(number: int, source: str, kind: QuestionType, passages: tuple[str, ...] = ("a chunk",)) -> TrainingRow:
    return TrainingRow(f"{source}-{number}", source, (f"d{number}",), "Who?", passages, (), (), (), kind, None, None)


ROWS = [
    *(row(n, "large", "extractive") for n in range(50)),
    *(row(n, "small", "extractive") for n in range(4)),
    *(row(n, "bare", "extractive", ()) for n in range(30)),
    *(row(100 + n, "large", "multi-bridge") for n in range(3)),
]


def test_types_are_capped_and_sources_take_turns() -> None:
    kept = balanced(ROWS, 24, seed=3)
    assert Counter(each.type for each in kept) == {"extractive": 24, "multi-bridge": 3}
    of = Counter(each.source for each in kept if each.type == "extractive")
    assert of == {"small": 4, "large": 10, "bare": 10}


def test_the_draw_is_the_seeds_and_not_the_orders() -> None:
    assert balanced(ROWS, 24, seed=3) == balanced(ROWS[::-1], 24, seed=3)
    assert balanced(ROWS, 24, seed=3) != balanced(ROWS, 24, seed=4)
    assert len(set(balanced(ROWS, 1000, seed=3))) == len(ROWS)


def test_rows_with_passages_go_first_within_a_source() -> None:
    mixed = [row(n, "one", "extractive", () if n % 2 else ("a chunk",)) for n in range(20)]
    assert all(each.passages for each in balanced(mixed, 10, seed=3))
