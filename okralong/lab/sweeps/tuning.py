"""Choose the values of a policy from the results of a tune's search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from okralong.lab.sweeps.config import Tune
from okralong.lab.sweeps.metrics import METRICS
from okralong.pipelines.core.types import InputError


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of the grid, with its means over the sets. ``fits`` is True if they are within the bounds."""

    name: str
    values: Mapping[str, Any]
    means: Mapping[str, float]
    fits: bool


def points_of(tune: Tune, summary: Sequence[Mapping[str, Any]]) -> list[Point]:
    """Return the combinations, with their means over sets and seeds from the rows of ``summary``."""
    found = []
    for name, values in tune.points().items():
        own = [row for row in summary if row["variant"] == name and not row["type"]]
        over = [row for row in own if not row["cell"]] or own
        sums: dict[str, list[float]] = {}
        for row in over:
            if row["value"] is not None:
                sums.setdefault(row["metric"], []).append(row["value"])
        means = {metric: sum(each) / len(each) for metric, each in sums.items()}
        fits = all(means.get(metric, float("inf")) <= bound for metric, bound in tune.most.items())
        found.append(Point(name, values, means, fits))
    return found


def choose(tune: Tune, points: Sequence[Point]) -> Point:
    """Return the best point within the bounds; ties go to fewer tokens, then to the earlier one.

    Raises InputError if no point is within the bounds, or none has the metric.
    """
    able = [point for point in points if point.fits and tune.metric in point.means]
    if not able:
        bounds = ", ".join(f"{name} <= {bound:g}" for name, bound in tune.most.items()) or "no bound"
        raise InputError(
            f"None of the {len(points)} combinations has {tune.metric} within {bounds}. Raise the bounds under most, "
            "or choose another metric."
        )
    sign = 1.0 if METRICS[tune.metric] == "less" else -1.0
    return min(able, key=lambda point: (sign * point.means[tune.metric], point.means.get("weighted_tokens", 0.0)))
