"""Means with document-clustered 95 % intervals: each cell, as a whole and by type, and each system over the sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from okralong.pipelines.evaluation.sweeps.systems import NAMES, Cell, Questions, drawn_for, means, over_seeds
from okralong.pipelines.reporting.statistics import Floats, estimate


def summary_rows(cells: Sequence[Cell], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``summary``: those of each cell, then the mean over the sets for systems that had several.

    Over sets every set weighs alike, and each set's documents are drawn by themselves. A metric that is defined for no
    question has no row.
    """
    rows: list[dict[str, Any]] = []
    for cell in cells:
        for kind in ("", *sorted({each for each in cell.questions.types if each})):
            scope = {"cell": cell.name, "set": cell.set, "seed": cell.seed, "type": kind}
            rows += _rows(cell.system, scope, [cell.questions.of_type(kind)], seed)
    for system, by_set in over_seeds(cells).items():
        if len(by_set) < 2:
            continue
        for kind in ("", *sorted({each for questions in by_set.values() for each in questions.types if each})):
            several = [own for questions in by_set.values() if (own := questions.of_type(kind)).query_ids]
            rows += _rows(system, {"cell": "", "set": "", "seed": None, "type": kind}, several, seed)
    return rows


def _rows(system: tuple[str, str], scope: dict[str, Any], sets: Sequence[Questions], seed: int) -> list[dict[str, Any]]:
    found = [means(questions.values, drawn_for(questions, seed + at)) for at, questions in enumerate(sets)]
    values, draws = over_sets([mean for mean, _ in found], [drawn for _, drawn in found])
    rows = []
    for number, metric in enumerate(NAMES):
        defined = [questions.only([not np.isnan(value) for value in questions.values[:, number]]) for questions in sets]
        n = sum(len(each.query_ids) for each in defined)
        if not n:
            continue
        known = estimate(float(values[number]), None if draws is None else draws[:, number])
        rows.append(
            {
                "method": system[0],
                "variant": system[1],
                **scope,
                "metric": metric,
                "value": known.value,
                "low": known.low,
                "high": known.high,
                "n": n,
                "clusters": sum(len(set(each.clusters)) for each in defined),
            }
        )
    return rows


def over_sets(found: Sequence[Floats], draws: Sequence[Floats | None]) -> tuple[Floats, Floats | None]:
    """The mean of each metric over the sets that define it, and the same in each draw.

    There are no draws where one of the sets has none: an interval that left it out would be too narrow.
    """
    matrix = np.stack(found)
    held = ~np.isnan(matrix)
    with np.errstate(invalid="ignore"):
        value = np.where(held, matrix, 0.0).sum(axis=0) / held.sum(axis=0)
        known = [drawn for drawn in draws if drawn is not None]
        if len(known) < len(draws):
            return value, None
        # A set without the metric leaves it out in every draw; one that has it makes a draw without it undefined.
        parts = np.stack([np.where(mask, drawn, 0.0) for mask, drawn in zip(held, known, strict=True)])
        return value, parts.sum(axis=0) / held.sum(axis=0)
