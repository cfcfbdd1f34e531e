"""The data of the charts: accuracy against cost with the Pareto frontier, latency by stage, workflows, confusion.

The page's script draws the charts in the browser, ``pictures.py`` as files.
"""

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
"""Stages in chronological order, by their names in runs and in sweeps."""

Groups = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart of cost and accuracy.

    Attributes:
        points: The figures of each point, by measure.
        compares: Whether the points are methods over the same questions, so that a Pareto frontier makes sense.
    """

    name: str
    points: Mapping[str, Mapping[str, Estimate]]
    compares: bool

    def places(self, accuracy: str, cost: str) -> dict[str, tuple[float, float]]:
        """Return ``(cost, accuracy)`` by point, for the points that have both."""
        both = {name: (f.get(cost), f.get(accuracy)) for name, f in self.points.items()}
        return {
            name: (x.value, y.value)
            for name, (x, y) in both.items()
            if x and y and x.value is not None and y.value is not None
        }

    def frontier(self, accuracy: str, cost: str) -> list[str]:
        """Return the points on the Pareto frontier by increasing cost; none if the points cannot be compared."""
        return pareto_frontier(self.places(accuracy, cost)) if self.compares else []

    def for_page(self) -> dict[str, Any]:
        """Return the points (``[value, low, high, n]`` by measure) and frontiers as JSON for the page."""
        points = [
            {"label": name, "figures": {m: [f.value, f.low, f.high, f.n] for m, f in figures.items()}}
            for name, figures in self.points.items()
        ]
        known = [known_measures(self.points.values(), measures) for measures in (ACCURACY, COST)]
        pairs = product(*known) if self.compares else ()
        frontiers = {f"{accuracy} {cost}": self.frontier(accuracy, cost) for accuracy, cost in pairs}
        return {"name": self.name, "points": points, "frontiers": frontiers}


def pareto_frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the names of the ``(cost, accuracy)`` points that no other point dominates, by increasing cost.

    A point dominates another if it costs no more, is no less accurate, and is not equal. Of equal points all are
    returned; points with nan are ignored.
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
    """Return the stages of the rows in chronological order."""
    return in_order((stage for row in rows for stage in row.stages), _STAGES)


def latency(groups: Groups) -> dict[str, Any]:
    """Return the mean seconds per group, by stage and in total. A question without a stage counts as 0 s."""
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
    """Count the questions of each group by workflow."""
    parts = in_order((row.workflow for rows in groups.values() for row in rows if row.workflow), WORKFLOWS)
    bars = []
    for name, rows in groups.items():
        counts = Counter(row.workflow for row in rows if row.workflow)
        if counts:
            bars.append({"label": name, "n": counts.total(), "parts": [counts[part] for part in parts]})
    return {"parts": parts, "bars": bars}


def confusion(name: str, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Return the confusion matrix of the gold types and the analyzer's, or None if no row has both."""
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
