"""Means and intervals of cells and of systems over sets."""

from __future__ import annotations

from typing import Any

import pytest

from okralong.lab.sweeps.statistics import cells_of, summary_rows
from tests.evaluation.sweeps.invented_scores import cell


def found(rows: list[dict[str, Any]], metric: str = "f1", **wanted: Any) -> dict[str, Any]:
    scope = {"type": "", **wanted}
    fitting = [r for r in summary_rows(cells_of(rows)) if r["metric"] == metric and scope.items() <= r.items()]
    assert len(fitting) == 1, fitting
    return fitting[0]


def test_a_cell_has_its_mean_and_documents_are_drawn() -> None:
    # Two documents whose questions all agree: a draw has both, or one of them twice.
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (1.0, "x"), "q3": (0.0, "y"), "q4": (0.0, "y")})
    row = found(rows, set="a")
    assert (row["value"], row["low"], row["high"], row["n"], row["clusters"]) == (0.5, 0.0, 1.0, 4, 2)
    assert found(rows, "weighted_tokens", set="a")["value"] == 100


def test_what_is_not_defined_is_left_out_of_the_mean() -> None:
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (None, "y"), "q3": (0.5, "z")})
    row = found(rows, set="a")
    assert (row["value"], row["n"], row["clusters"]) == (0.75, 2, 2)
    assert all(row["metric"] != "em" for row in summary_rows(cells_of(rows)))


def test_one_document_gives_no_interval() -> None:
    row = found(cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (0.0, "x")}), set="a")
    assert (row["value"], row["low"], row["high"]) == (0.5, None, None)


def test_types_have_rows_of_their_own() -> None:
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (0.5, "y")})
    rows += cell("std_rag", "a", {"q3": (0.0, "z")}, kind="arithmetic")
    assert found(rows, set="a", type="arithmetic")["value"] == 0.0
    assert found(rows, set="a", type="extractive")["value"] == 0.75


def test_over_the_sets_each_set_weighs_alike_and_seeds_are_averaged() -> None:
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (1.0, "y"), "q3": (1.0, "z")})
    rows += cell("std_rag", "b", {"p1": (0.0, "u"), "p2": (0.0, "v")}, seed=7)
    rows += cell("std_rag", "b", {"p1": (1.0, "u"), "p2": (0.0, "v")}, seed=8)
    row = found(rows, cell="", set="")
    assert row["value"] == pytest.approx((1.0 + 0.25) / 2)
    assert (row["n"], row["clusters"], row["seed"]) == (5, 5, None)
    assert row["low"] < row["value"] < row["high"]
    assert found(rows, set="b", seed=8)["value"] == 0.5


def test_a_set_that_does_not_define_a_metric_is_not_averaged() -> None:
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (0.5, "y")})
    rows += cell("std_rag", "b", {"p1": (None, "u"), "p2": (None, "v")})
    assert found(rows, cell="", set="")["value"] == 0.75
    assert found(rows, "weighted_tokens", cell="", set="")["value"] == 100


def test_a_question_that_the_budget_did_not_reach_makes_no_method_cheaper() -> None:
    rows = cell("std_rag", "a", {"q1": (1.0, "x"), "q2": (0.5, "y")})
    rows += cell("std_rag", "a", {"q3": (None, "z")}, status="over_budget", weighted_tokens=0)
    row = found(rows, "weighted_tokens", set="a")
    assert (row["value"], row["n"], row["clusters"]) == (100, 2, 2)
