"""A small version of ``benchmarks/estimate/coverage.py``: the range holds what three runs cost, or is near it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.estimate.coverage import FIGURES, coverage, one_archive, table
from tests.answering.estimate.conftest import LETTERS, shared_words

pytestmark = pytest.mark.slow

NEAR = 0.1
"""Of the range's ends: how far a run that is not in it may be."""
PILOT = 6


@pytest.mark.parametrize("number", [1, *(pytest.param(each, marks=pytest.mark.soak) for each in (2, 3))])
def test_the_range_holds_the_actual_or_is_near_it(number: int, tmp_path: Path) -> None:
    rows = one_archive(number, [PILOT], LETTERS, tmp_path, strategies=("okralong",), read=shared_words)
    assert {row.strategy for row in rows} == {"okralong", "std_rag", "long_context"}
    assert len(rows) == 3 * 2 * len(FIGURES)
    for row in rows:
        if row.figure == "usd":
            assert row.low * (1 - NEAR) <= row.actual <= row.high * (1 + NEAR), row
    dollars = [row for row in rows if row.figure == "usd"]
    assert coverage(dollars) >= 0.5
    said = table(rows)
    assert "| okralong | none | usd |" in said
    assert f"| std_rag | {PILOT} | prompt tokens | 1.00 |" in said
