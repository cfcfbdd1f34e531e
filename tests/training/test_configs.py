"""Recipes that are held against each other differ in what they are held for, and in nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from okralong.lab.training.recipe import Recipe
from okralong.pipelines.core.config import load_config


def plain(name: str) -> dict[str, Any]:
    return load_config(Recipe, f"training/{name}.yaml").model_dump()


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("heads", "own_heads", {"dropout", "epochs", "batch_size", "evaluations", "validation_rows"}),
    ],
)
def test_only_what_is_compared_differs(one: str, other: str, differ: set[str]) -> None:
    first, second = plain(one), plain(other)
    assert {key for key in first if first[key] != second[key]} == differ
