"""The table ``scores`` as arrays: each method under a variant on each set, question by question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from okralong.pipelines.evaluation.measured_by import METRICS
from okralong.pipelines.reporting.statistics import Floats, Resample, resample

NAMES: Final = tuple(METRICS)
"""The order of the metrics in arrays."""

System = tuple[str, str]
"""A method and its variant."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions of one set under one system: ``values`` (questions, metrics) is nan where a metric is not defined.

    Of a question that the budget did not reach no metric is: its 0 tokens are none that the method got by with.
    """

    query_ids: tuple[str, ...]
    clusters: tuple[str, ...]
    types: tuple[str, ...]
    values: Floats

    def only(self, kept: Sequence[bool]) -> Questions:
        """Those questions that ``kept`` says."""
        at = [number for number, keep in enumerate(kept) if keep]
        query_ids, clusters, types = (
            tuple(each[number] for number in at) for each in (self.query_ids, self.clusters, self.types)
        )
        return Questions(query_ids, clusters, types, self.values[at])

    def of_type(self, wanted: str) -> Questions:
        """Those of a type; "" is all."""
        return self if not wanted else self.only([each == wanted for each in self.types])


@dataclass(frozen=True)
class Cell:
    """A cell of a sweep with its questions."""

    name: str
    system: System
    set: str
    seed: int
    questions: Questions


def cells_of(rows: Iterable[Mapping[str, Any]]) -> list[Cell]:
    """The cells of rows of ``scores``, in the order in which they come."""
    by_cell: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_cell[row["cell"]].append(row)
    return [
        Cell(name, (own[0]["method"], own[0]["variant"]), own[0]["set"], own[0]["seed"], _questions(own))
        for name, own in by_cell.items()
    ]


def over_seeds(cells: Iterable[Cell]) -> dict[System, dict[str, Questions]]:
    """By system and set: each question with the mean of its values over the seeds."""
    grouped: dict[System, dict[str, list[Questions]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        grouped[cell.system][cell.set].append(cell.questions)
    return {
        system: {name: _averaged(several) for name, several in by_set.items()} for system, by_set in grouped.items()
    }


def shared(one: Questions, other: Questions) -> tuple[Questions, Questions]:
    """The questions that both have, in one order."""
    at = {query_id: number for number, query_id in enumerate(other.query_ids)}
    first = one.only([query_id in at for query_id in one.query_ids])
    order = [at[query_id] for query_id in first.query_ids]
    return first, Questions(first.query_ids, first.clusters, first.types, other.values[order])


def means(values: Floats, drawn: Resample | None) -> tuple[Floats, Floats | None]:
    """The mean of each column over the questions where it is defined, and the same in each draw of clusters.

    (questions, metrics) becomes (metrics,) and (draws, metrics); nan where no question has a value. Without ``drawn``
    there are no draws.
    """
    defined = ~np.isnan(values)
    known = np.where(defined, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = known.sum(axis=0) / defined.sum(axis=0)
        if drawn is None:
            return mean, None
        sums, counts = by_cluster(known, drawn.index), by_cluster(defined.astype(np.float64), drawn.index)
        return mean, (drawn.weights @ sums) / (drawn.weights @ counts)


def by_cluster(values: Floats, index: np.ndarray[Any, np.dtype[np.intp]]) -> Floats:
    """Sums over the questions of each cluster: (questions, metrics) becomes (clusters, metrics)."""
    sums = np.zeros((int(index.max()) + 1 if len(index) else 0, values.shape[1]))
    np.add.at(sums, index, values)
    return sums


def drawn_for(questions: Questions, seed: int) -> Resample | None:
    """Draws of the questions' clusters. The same clusters and seed give the same draws, so that figures are paired."""
    return resample(questions.clusters, seed)


def _questions(rows: Sequence[Mapping[str, Any]]) -> Questions:
    values = [[np.nan if row[name] is None or _unasked(row) else float(row[name]) for name in NAMES] for row in rows]
    query_ids, clusters, types = (tuple(str(row[name]) for row in rows) for name in ("query_id", "cluster", "type"))
    matrix = np.array(values, dtype=np.float64).reshape(len(rows), len(NAMES))
    return Questions(query_ids, clusters, types, matrix)


def _unasked(row: Mapping[str, Any]) -> bool:
    return bool(row["status"] == "over_budget")


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
    return Questions(tuple(first), clusters, types, np.array([means(np.array(v), None)[0] for v in values.values()]))
