"""The numbers behind the pictures: points of cost and accuracy, latency by stage, workflow mix, confusion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.reporting.rows import ACCURACY, COST, Row, pareto_frontier
from okralong.pipelines.reporting.statistics import Estimate

WORKFLOWS = ("linear", "extend", "split", "step")
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
        held = {measure for figures in self.points.values() for measure in figures}
        return {
            "name": self.name,
            "points": [
                {"label": name, "figures": {m: [f.value, f.low, f.high, f.n] for m, f in figures.items()}}
                for name, figures in self.points.items()
            ],
            "frontiers": {
                f"{a} {c}": list(self.frontier(a, c))
                for a in ACCURACY
                for c in COST
                if self.compares and {a, c} <= held
            },
        }


def stages_of(rows: Sequence[Row]) -> list[str]:
    """The stages that the rows know, in their order."""
    held = {stage for row in rows for stage in row.stages}
    known = [stage for stage in _STAGES if stage in held]
    return known + sorted(held - set(known))


def latency(groups: Groups) -> dict[str, Any]:
    """Mean seconds by stage and in all, by group, over the questions whose time is known; one without a stage spent 0 s
    on it."""
    groups = {name: [row for row in rows if row.stages] for name, rows in groups.items()}
    stages = stages_of([row for rows in groups.values() for row in rows])
    bars = [
        {
            "label": name,
            "n": len(rows),
            "parts": [float(np.mean([row.stages.get(stage, 0.0) for row in rows])) for stage in stages],
            "total": _mean([row.measures["seconds_total"] for row in rows if "seconds_total" in row.measures]),
        }
        for name, rows in groups.items()
        if rows
    ]
    return {"parts": stages, "bars": bars}


def workflow_mix(groups: Groups) -> dict[str, Any]:
    """How many questions of each group went which way."""
    held = {row.workflow for rows in groups.values() for row in rows if row.workflow}
    parts = [name for name in WORKFLOWS if name in held] + sorted(held - set(WORKFLOWS))
    bars = []
    for name, rows in groups.items():
        counts = Counter(row.workflow for row in rows if row.workflow)
        if counts:
            bars.append({"label": name, "n": counts.total(), "parts": [counts[part] for part in parts]})
    return {"parts": list(parts), "bars": bars}


def confusion(name: str, rows: Sequence[Row]) -> dict[str, Any] | None:
    """Gold types against the analyzer's; None where no row has both."""
    both = [(row.type, row.analysed) for row in rows if row.type and row.analysed]
    if not both:
        return None
    counts = Counter(both)
    held = {each for pair in both for each in pair}
    labels = [label for label in TYPES if label in held] + sorted(held - set(TYPES))
    return {
        "name": name,
        "labels": list(labels),
        "counts": [[counts[(gold, said)] for said in labels] for gold in labels],
        "right": sum(count for (gold, said), count in counts.items() if gold == said),
        "n": len(both),
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
