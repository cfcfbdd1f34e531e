"""Paired differences: the same questions under two systems, with interval, p-value and Holm's correction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from okralong.pipelines.evaluation.sweeps.summary import over_sets
from okralong.pipelines.evaluation.sweeps.systems import (
    NAMES,
    Cell,
    Questions,
    System,
    by_cluster,
    means,
    over_seeds,
    shared,
)
from okralong.pipelines.reporting.statistics import Floats, estimate, holm, resample, sign_flip_p


def paired_rows(cells: Sequence[Cell], against: Sequence[System], seed: int = 7) -> list[dict[str, Any]]:
    """Rows of the table ``paired``: every other system less each one of ``against``.

    On each set, and as the mean over the sets as a whole and by type. Systems are compared on the questions that both
    have. Holm's families: all rows of one metric on single sets, all over the sets, all by type.
    """
    systems = over_seeds(cells)
    rows: list[dict[str, Any]] = []
    for other in against:
        for system, by_set in systems.items():
            if system != other and other in systems:
                rows += _compared(system, other, by_set, systems[other], seed)
    _corrected(rows)
    return rows


def _compared(
    system: System, other: System, mine: Mapping[str, Questions], theirs: Mapping[str, Questions], seed: int
) -> list[dict[str, Any]]:
    pairs = {name: shared(mine[name], theirs[name]) for name in mine if name in theirs}
    differences = {
        name: Questions(one.query_ids, one.clusters, one.types, one.values - two.values)
        for name, (one, two) in pairs.items()
        if one.query_ids
    }
    named = {"method": system[0], "variant": system[1], "against_method": other[0], "against_variant": other[1]}
    rows: list[dict[str, Any]] = []
    for name, questions in differences.items():
        rows += _rows({**named, "set": name, "type": ""}, [questions], seed)
    kinds = sorted({kind for questions in differences.values() for kind in questions.types if kind})
    for kind in ("", *kinds) if differences else ():
        several = [own for questions in differences.values() if (own := questions.of_type(kind)).query_ids]
        rows += _rows({**named, "set": "", "type": kind}, several, seed)
    return rows


def _rows(scope: dict[str, Any], sets: Sequence[Questions], seed: int) -> list[dict[str, Any]]:
    drawn = [resample(questions.clusters, seed + at) for at, questions in enumerate(sets)]
    found = [means(questions.values, draws) for questions, draws in zip(sets, drawn, strict=True)]
    values, draws = over_sets([mean for mean, _ in found], [each for _, each in found])
    defined = np.stack([~np.isnan(mean) for mean, _ in found])
    p_values = sign_flip_p(np.concatenate([_contributions(q, defined.sum(axis=0)) for q in sets]), seed)
    rows = []
    for number, metric in enumerate(NAMES):
        n = sum(int((~np.isnan(questions.values[:, number])).sum()) for questions in sets)
        if not n:
            continue
        known = estimate(float(values[number]), None if draws is None else draws[:, number])
        clusters = {c for q in sets for c, v in zip(q.clusters, q.values[:, number], strict=True) if not np.isnan(v)}
        p = float(p_values[number])
        rows.append(
            {
                **scope,
                "metric": metric,
                "difference": known.value,
                "low": known.low,
                "high": known.high,
                "p": None if np.isnan(p) or len(clusters) < 2 else p,
                "n": n,
                "clusters": len(clusters),
            }
        )
    return rows


def _contributions(questions: Questions, sets: Floats) -> Floats:
    """What each cluster of a set adds to the mean over ``sets`` sets (by metric): (clusters, metrics)."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(questions.clusters))}
    index = np.array([numbers[name] for name in questions.clusters], dtype=np.intp)
    defined = ~np.isnan(questions.values)
    sums = by_cluster(np.where(defined, questions.values, 0.0), index)
    return np.asarray(sums / np.maximum(defined.sum(axis=0), 1) / np.maximum(sets, 1))


def _corrected(rows: list[dict[str, Any]]) -> None:
    """Write ``p_holm`` into the rows, family by family. A less B and B less A are one test."""
    families: dict[tuple[str, bool, bool], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["metric"], bool(row["set"]), bool(row["type"])].append(row)
    for family in families.values():
        tests = {_test(row): np.nan if row["p"] is None else float(row["p"]) for row in family}
        raised = dict(zip(tests, holm(list(tests.values())), strict=True))
        for row in family:
            p = raised[_test(row)]
            row["p_holm"] = None if np.isnan(p) else p


def _test(row: Mapping[str, Any]) -> tuple[frozenset[System], str, str]:
    systems = frozenset({(row["method"], row["variant"]), (row["against_method"], row["against_variant"])})
    return systems, row["set"], row["type"]
