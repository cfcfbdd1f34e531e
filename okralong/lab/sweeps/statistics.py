"""Compute means and paired differences, with intervals, from the table ``scores``.

The bootstrap draws documents, not questions; see ``reporting/statistics.py``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from okralong.lab.sweeps.metrics import METRICS
from okralong.lab.sweeps.significance import holm, sign_flip_p
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    cluster_index,
    cluster_sums,
    estimate,
    mean,
    mean_over_sets,
    resample,
)

NAMES: Final = tuple(METRICS)
"""The metrics, in their order in arrays."""

System = tuple[str, str]
"""A method and its variant."""

ResultRow = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Questions:
    """The questions of a set with a system. ``values`` (questions, metrics) is nan where a metric is undefined.

    For a question for which the budget did not suffice, all metrics are undefined: its 0 tokens are no saving.
    """

    query_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    types: tuple[str, ...]
    values: Floats

    def at(self, numbers: Sequence[int]) -> Questions:
        """Return the questions with these indexes, in this order."""
        query_ids, clusters, types = (
            tuple(each[number] for number in numbers) for each in (self.query_ids, self.clusters, self.types)
        )
        return Questions(query_ids, clusters, types, self.values[list(numbers)])

    def of_type(self, wanted: str) -> Questions:
        """Return the questions of a type; "" means all."""
        return self.at([number for number, each in enumerate(self.types) if wanted in ("", each)])


@dataclass(frozen=True)
class Cell:
    """A cell of a sweep with its questions."""

    name: str
    system: System
    set: str
    seed: int
    questions: Questions


def cells_of(rows: Iterable[ResultRow]) -> list[Cell]:
    """Return the cells of rows of ``scores``, in order of appearance."""
    by_cell: dict[str, list[ResultRow]] = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    return [
        Cell(name, (own[0]["method"], own[0]["variant"]), own[0]["set"], own[0]["seed"], _questions(own))
        for name, own in by_cell.items()
    ]


def _questions(rows: Sequence[ResultRow]) -> Questions:
    query_ids, clusters, types = (tuple(str(row[name]) for row in rows) for name in ("query_id", "cluster", "type"))
    values = [[np.nan if row["status"] == "over_budget" else row[name] for name in NAMES] for row in rows]
    return Questions(query_ids, clusters, types, np.array(values, dtype=np.float64).reshape(len(rows), len(NAMES)))


def over_seeds(cells: Iterable[Cell]) -> dict[System, dict[str, Questions]]:
    """Return each question with the mean of its values over the seeds, by system and set."""
    grouped: dict[System, dict[str, list[Questions]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        grouped[cell.system][cell.set].append(cell.questions)
    return {
        system: {name: _averaged(several) for name, several in by_set.items()} for system, by_set in grouped.items()
    }


def _averaged(several: Sequence[Questions]) -> Questions:
    if len(several) == 1:
        return several[0]
    first: dict[str, tuple[str, str]] = {}
    values: dict[str, list[Floats]] = defaultdict(list)
    for questions in several:
        for number, query_id in enumerate(questions.query_ids):
            first.setdefault(query_id, (questions.clusters[number], questions.types[number]))
            values[query_id].append(questions.values[number])
    clusters, types = zip(*first.values(), strict=True)
    return Questions(tuple(first), clusters, types, np.array([mean(np.array(v).T, None)[0] for v in values.values()]))


def _types(sets: Iterable[Questions]) -> tuple[str, ...]:
    """Return "" (for all questions), then each type that a question has."""
    return ("", *sorted({kind for questions in sets for kind in questions.types if kind}))


def _of_type(sets: Iterable[Questions], kind: str) -> list[Questions]:
    return [own for questions in sets if (own := questions.of_type(kind)).query_ids]


def _metrics(sets: Sequence[Questions], seed: int) -> Iterator[tuple[int, Estimate, int]]:
    """Yield, for each defined metric, its index, its mean over the sets, and the number of clusters.

    Sets have equal weights; the bootstrap draws from each separately.
    """
    found = [mean(questions.values.T, resample(questions.clusters, seed + at)) for at, questions in enumerate(sets)]
    values, draws = mean_over_sets(found, skip_undefined=True)
    for number in range(len(NAMES)):
        clusters: set[tuple[int, str]] = set()
        n = 0
        for at, questions in enumerate(sets):
            known = np.flatnonzero(~np.isnan(questions.values[:, number]))
            clusters |= {(at, questions.clusters[each]) for each in known}
            n += len(known)
        if n:
            yield number, estimate(values[number], None if draws is None else draws[:, number], n), len(clusters)


# --------
# Means of each cell, overall and by type, and of each system over the sets.


def summary_rows(cells: Sequence[Cell], seed: int = 7) -> list[dict[str, Any]]:
    """Return the rows of the table ``summary``: those of each cell, then means of systems over several sets.

    A metric that is undefined for all questions has no row.
    """
    rows: list[dict[str, Any]] = []
    for cell in cells:
        scope = {"cell": cell.name, "set": cell.set, "seed": cell.seed}
        rows += _summarized(cell.system, scope, [cell.questions], seed)
    for system, by_set in over_seeds(cells).items():
        if len(by_set) > 1:
            rows += _summarized(system, {"cell": "", "set": "", "seed": None}, list(by_set.values()), seed)
    return rows


def _summarized(
    system: System, scope: Mapping[str, Any], sets: Sequence[Questions], seed: int
) -> Iterator[dict[str, Any]]:
    named = {"method": system[0], "variant": system[1], **scope}
    for kind in _types(sets):
        for number, found, clusters in _metrics(_of_type(sets, kind), seed):
            figures = {"value": found.value, "low": found.low, "high": found.high, "n": found.n, "clusters": clusters}
            yield {**named, "type": kind, "metric": NAMES[number], **figures}


# --------
# Paired differences of two systems on the same questions, with interval, p-value and Holm's correction.


def paired_rows(cells: Sequence[Cell], against: Sequence[System], seed: int = 7) -> list[dict[str, Any]]:
    """Return the rows of the table ``paired``: every other system minus each system in ``against``.

    There are rows for each set, for the mean over the sets, and for that mean by type. Systems are compared on the
    questions that both have. For Holm's correction, the rows of a metric form three families: those on single sets,
    those over the sets, and those by type.
    """
    systems = over_seeds(cells)
    rows: list[dict[str, Any]] = []
    for other in against:
        for system, by_set in systems.items():
            if system != other and other in systems:
                rows += _compared(system, other, by_set, systems[other], seed)
    _correct(rows)
    return rows


def _compared(
    system: System, other: System, mine: Mapping[str, Questions], theirs: Mapping[str, Questions], seed: int
) -> Iterator[dict[str, Any]]:
    named = {"method": system[0], "variant": system[1], "against_method": other[0], "against_variant": other[1]}
    pairs = {name: _difference(mine[name], theirs[name]) for name in mine if name in theirs}
    differences = {name: questions for name, questions in pairs.items() if questions.query_ids}
    for name, questions in differences.items():
        yield from _tested({**named, "set": name, "type": ""}, [questions], seed)
    for kind in _types(differences.values()) if differences else ():
        yield from _tested({**named, "set": "", "type": kind}, _of_type(differences.values(), kind), seed)


def _difference(one: Questions, other: Questions) -> Questions:
    """Return the questions that both have, with the values of ``one`` minus those of ``other``."""
    at = {query_id: number for number, query_id in enumerate(other.query_ids)}
    shared = one.at([number for number, query_id in enumerate(one.query_ids) if query_id in at])
    return replace(shared, values=shared.values - other.values[[at[query_id] for query_id in shared.query_ids]])


def _tested(scope: Mapping[str, Any], sets: Sequence[Questions], seed: int) -> Iterator[dict[str, Any]]:
    defined = np.sum([~np.isnan(mean(questions.values.T, None)[0]) for questions in sets], axis=0)
    p_values = sign_flip_p(np.concatenate([_contributions(questions, defined) for questions in sets]), seed)
    for number, found, clusters in _metrics(sets, seed):
        p = None if clusters < 2 or np.isnan(p_values[number]) else float(p_values[number])
        figures = {"difference": found.value, "low": found.low, "high": found.high, "p": p, "n": found.n}
        yield {**scope, "metric": NAMES[number], **figures, "clusters": clusters}


def _contributions(questions: Questions, sets: Floats) -> Floats:
    """Return the contribution of each cluster of a set to the mean over ``sets`` sets (a number per metric)."""
    known = ~np.isnan(questions.values)
    sums = cluster_sums(np.where(known, questions.values, 0.0).T, cluster_index(questions.clusters))
    return np.asarray(sums / np.maximum(known.sum(axis=0), 1) / np.maximum(sets, 1))


def _correct(rows: Sequence[dict[str, Any]]) -> None:
    """Write ``p_holm`` into the rows, family by family. A minus B and B minus A count as one test."""
    families: dict[tuple[str, bool, bool], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row["metric"], bool(row["set"]), bool(row["type"])].append(row)
    for family in families.values():
        tests = {_test(row): np.nan if row["p"] is None else row["p"] for row in family}
        raised = dict(zip(tests, holm(list(tests.values())), strict=True))
        for row in family:
            row["p_holm"] = None if row["p"] is None else raised[_test(row)]


def _test(row: ResultRow) -> tuple[frozenset[System], str, str]:
    systems = frozenset({(row["method"], row["variant"]), (row["against_method"], row["against_variant"])})
    return systems, row["set"], row["type"]
