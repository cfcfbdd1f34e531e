"""The numbers behind the charts: points of cost and accuracy with the Pareto frontier, latency by stage, workflow mix,
confusion. The page's script draws them, and ``pictures.py`` draws them as files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.reporting.rows import ACCURACY, COST, Row, in_order, known_measures
from okralong.pipelines.reporting.statistics import Estimate

WORKFLOWS = ("linear", "extend", "split", "step", "documents")
_STAGES = ("analyze", "analysis", "retrieve", "retrieval", "split", "generate", "generation")
"""In the order in which they happen; the names of a run's rows and of a sweep's."""

Groups = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of cost against accuracy: figures by measure for each point. ``compares`` draws the frontier: the
    points are methods over the same questions, and not parts of one run.
    """

    name: str
    points: Mapping[str, Mapping[str, Estimate]]
    compares: bool

    def places(self, accuracy: str, cost: str) -> dict[str, tuple[float, float]]:
        """``(cost, accuracy)`` by name, of the points that have both."""
        both = {name: (f.get(cost), f.get(accuracy)) for name, f in self.points.items()}
        return {
            name: (x.value, y.value)
            for name, (x, y) in both.items()
            if x and y and x.value is not None and y.value is not None
        }

    def frontier(self, accuracy: str, cost: str) -> list[str]:
        """The names on the Pareto frontier, by rising cost; empty where nothing is compared."""
        return pareto_frontier(self.places(accuracy, cost)) if self.compares else []

    def for_page(self) -> dict[str, Any]:
        """Points with ``[value, low, high, n]`` by measure, and the frontier of each pair of measures."""
        points = [
            {"label": name, "figures": {m: [f.value, f.low, f.high, f.n] for m, f in figures.items()}}
            for name, figures in self.points.items()
        ]
        known = [known_measures(self.points.values(), measures) for measures in (ACCURACY, COST)]
        pairs = product(*known) if self.compares else ()
        frontiers = {f"{accuracy} {cost}": self.frontier(accuracy, cost) for accuracy, cost in pairs}
        return {"name": self.name, "points": points, "frontiers": frontiers}


def pareto_frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the ``(cost, accuracy)`` points that no other one beats, by rising cost.

    One point beats another when it costs no more, is no less accurate, and differs in one of the two. Equal points
    are both on the frontier; points that are not numbers are on none.
    """
    usable = {name: point for name, point in points.items() if point[0] == point[0] and point[1] == point[1]}
    ordered = sorted(usable, key=lambda name: (usable[name][0], -usable[name][1], name))
    best = float("-inf")
    frontier: list[str] = []
    for name in ordered:
        accuracy = usable[name][1]
        if accuracy > best or (frontier and usable[frontier[-1]] == usable[name]):
            frontier.append(name)
            best = accuracy
    return frontier


def stages_of(rows: Sequence[Row]) -> list[str]:
    """The stages that the rows know, in their order."""
    return in_order((stage for row in rows for stage in row.stages), _STAGES)


def latency(groups: Groups) -> dict[str, Any]:
    """Mean seconds by stage and in all, by group, over the questions whose time is known; one without a stage spent 0 s
    on it."""
    timed = {name: held for name, rows in groups.items() if (held := [row for row in rows if row.stages])}
    stages = stages_of([row for rows in timed.values() for row in rows])
    bars = []
    for name, rows in timed.items():
        parts = [float(np.mean([row.stages.get(stage, 0.0) for row in rows])) for stage in stages]
        totals = [row.measures["seconds_total"] for row in rows if "seconds_total" in row.measures]
        bars.append(
            {"label": name, "n": len(rows), "parts": parts, "total": float(np.mean(totals)) if totals else None}
        )
    return {"parts": stages, "bars": bars}


def workflow_mix(groups: Groups) -> dict[str, Any]:
    """How many questions of each group went which way."""
    parts = in_order((row.workflow for rows in groups.values() for row in rows if row.workflow), WORKFLOWS)
    bars = []
    for name, rows in groups.items():
        counts = Counter(row.workflow for row in rows if row.workflow)
        if counts:
            bars.append({"label": name, "n": counts.total(), "parts": [counts[part] for part in parts]})
    return {"parts": parts, "bars": bars}


def confusion(name: str, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Gold types against the analyzer's; None where no row has both."""
    counts = Counter((row.type, row.analysed) for row in rows if row.type and row.analysed)
    if not counts:
        return None
    labels = in_order((each for pair in counts for each in pair), TYPES)
    return {
        "name": name,
        "labels": labels,
        "counts": [[counts[(gold, analysed)] for analysed in labels] for gold in labels],
        "right": sum(count for (gold, analysed), count in counts.items() if gold == analysed),
        "n": counts.total(),
    }
