"""Paired differences, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from okralong.lab.sweeps.statistics import cells_of, paired_rows
from tests.evaluation.sweeps.invented_scores import cell

BASE = ("std_rag", "default")


def found(rows: list[dict[str, Any]], metric: str = "f1", **wanted: Any) -> dict[str, Any]:
    scope = {"type": "", **wanted}
    fitting = [r for r in paired_rows(cells_of(rows), [BASE]) if r["metric"] == metric and scope.items() <= r.items()]
    assert len(fitting) == 1, fitting
    return fitting[0]


def marks(*values: float) -> dict[str, tuple[float, str]]:
    """A question and a document of its own for each value."""
    return {f"q{number}": (value, f"d{number}") for number, value in enumerate(values)}


def test_the_same_questions_are_compared() -> None:
    base = cell("std_rag", "a", {**marks(0.0, 0.0, 0.0), "only here": (1.0, "d9")})
    rows = base + cell("okralong", "a", marks(0.1, 0.2, 0.3))
    row = found(rows, set="a")
    assert row["difference"] == pytest.approx(0.2)
    assert (row["n"], row["clusters"]) == (3, 3)
    assert row["p"] == pytest.approx(2 / 8), "of eight flips only all and none are as far from 0"
    assert 0.1 <= row["low"] < 0.2 < row["high"] <= 0.3


def test_questions_of_one_document_are_flipped_together() -> None:
    together = {"q0": (0.1, "d"), "q1": (0.2, "d"), "q2": (0.3, "e")}
    rows = cell("std_rag", "a", {name: (0.0, cluster) for name, (_, cluster) in together.items()})
    row = found(rows + cell("okralong", "a", together), set="a")
    assert row["p"] == pytest.approx(2 / 4), "two documents have four flips; three questions would have eight"


def test_over_the_sets_a_small_set_weighs_as_much_as_a_large_one() -> None:
    rows = cell("std_rag", "a", marks(0, 0)) + cell("okralong", "a", marks(0.5, 0.5))
    rows += cell("std_rag", "b", marks(0, 0, 0, 0)) + cell("okralong", "b", marks(0.1, 0.1, 0.1, 0.1))
    row = found(rows, set="")
    assert row["difference"] == pytest.approx(0.3)
    assert (row["n"], row["p"]) == (6, pytest.approx(2 / 64))


def test_holm_counts_the_tests_of_a_family() -> None:
    rows = cell("std_rag", "a", marks(0, 0, 0, 0))
    rows += cell("okralong", "a", marks(0.1, 0.1, 0.1, 0.1)) + cell("long_context", "a", marks(0.1, -0.1, 0.1, -0.1))
    sure, doubtful = found(rows, set="a", method="okralong"), found(rows, set="a", method="long_context")
    assert (sure["p"], sure["p_holm"]) == (pytest.approx(2 / 16), pytest.approx(4 / 16))
    assert (doubtful["p"], doubtful["p_holm"]) == (1.0, 1.0)


def test_what_one_side_does_not_define_is_not_compared() -> None:
    base = {"q0": (None, "d0"), "q1": (0.5, "d1")}
    row = found(cell("std_rag", "a", base) + cell("okralong", "a", marks(1.0, 1.0)), set="a")
    assert (row["difference"], row["n"], row["p"], row["low"]) == (0.5, 1, None, None)


def test_variants_are_systems_of_their_own_and_sets_must_be_shared() -> None:
    rows = cell("std_rag", "a", marks(0.0)) + cell("std_rag", "a", marks(1.0), variant="wide")
    rows += cell("okralong", "b", marks(1.0))
    assert found(rows, set="a", variant="wide")["difference"] == 1.0
    assert {row["method"] for row in paired_rows(cells_of(rows), [BASE])} == {"std_rag"}
    assert paired_rows(cells_of(rows), [("nobody", "default")]) == []


def test_a_difference_seen_from_both_sides_is_one_test() -> None:
    rows = cell("std_rag", "a", marks(0, 0, 0, 0)) + cell("okralong", "a", marks(0.1, 0.1, 0.1, 0.1))
    both = paired_rows(cells_of(rows), [BASE, ("okralong", "default")])
    one = [(r["difference"], r["p_holm"]) for r in both if r["metric"] == "f1" and r["set"] == "a" and not r["type"]]
    assert one == [(pytest.approx(0.1), pytest.approx(2 / 16)), (pytest.approx(-0.1), pytest.approx(2 / 16))]
