"""Choosing values of a policy on one side of the split, to be reported on another: never on the same."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.measured_by import METRICS
from okralong.pipelines.evaluation.split.keys import SIDES, Side
from okralong.pipelines.evaluation.split.manifest import MANIFEST as SPLIT_MANIFEST
from okralong.pipelines.evaluation.sweeps.config import Sweep, SweepMethod, SweepSet, Variant
from okralong.pipelines.models.weights import EMBEDDED

BASE = "base"
CHOSEN = "chosen"
"""The variants of the report: the policy as it was, and with the chosen values."""

MOST_VARIANTS = 200
"""Of one grid. Ours: more is a typing error, or more questions than a tune side has answers to tell them apart."""


class Tune(Settings):
    """Every combination of the ``grid``'s values (dotted keys of ``policy``) under ``method`` on the side ``search``.

    The one with the best mean of ``metric`` over the sets is reported on the side ``report``, beside the policy itself.
    ``most`` bounds the means of other metrics ({weighted_tokens: 1500}); of equals the one with fewer tokens is taken.
    All other keys are those of a sweep; ``budget_usd`` caps both sides together.
    """

    title: str
    method: str = "okralong"
    policy: str = "policy/default.yaml"
    grid: dict[str, list[Any]] = Field(min_length=1)
    metric: str = "f1"
    most: dict[str, float] = Field(default_factory=dict)
    search: Side = "tune"
    report: Side = "test"
    seed: int = 7
    seeds: list[int] = Field(default=[7], min_length=1)
    answer: str = "answer.yaml"
    overrides: dict[str, Any] = Field(default_factory=dict)
    sets: list[SweepSet] = Field(min_length=1)
    every: bool = False
    embedding: str = Field(default=EMBEDDED, min_length=1)
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    parallel: Annotated[int, Field(ge=1, le=64)] = 2
    catalog: str = "datasets.yaml"
    split: str = SPLIT_MANIFEST

    @model_validator(mode="after")
    def _honest(self) -> Self:
        if self.search == self.report:
            raise ValueError(f"search and report are both {self.search}: what was chosen there cannot be judged there")
        if SIDES.index(self.report) < SIDES.index(self.search):
            raise ValueError(
                f"search is {self.search} and report {self.report}: values are chosen on the freer side, since figures "
                f"of {self.search} would be of questions that chose something from then on"
            )
        for name in (self.metric, *self.most):
            if name not in METRICS:
                raise ValueError(f"{name!r} is none of the metrics ({', '.join(METRICS)})")
        empty = [key for key, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"grid.{empty[0]} has no value")
        count = len(self.points())
        if count > MOST_VARIANTS:
            raise ValueError(f"the grid has {count} combinations, more than {MOST_VARIANTS}; take fewer values")
        return self

    def points(self) -> dict[str, dict[str, Any]]:
        """The combinations by the name of their variant, in the grid's order."""
        combined = itertools.product(*self.grid.values())
        return {f"point{at:03d}": dict(zip(self.grid, values, strict=True)) for at, values in enumerate(combined)}

    def searching(self) -> Sweep:
        """The sweep that finds the values."""
        variants = {
            name: Variant(policy=self.policy, policy_overrides=values) for name, values in self.points().items()
        }
        return self._sweep(f"{self.title}: search", self.search, variants, self.budget_usd, [])

    def reporting(self, values: Mapping[str, Any], budget_usd: float | None) -> Sweep:
        """The sweep that reports the chosen values, and the policy as it was, on questions that chose nothing."""
        variants = {
            BASE: Variant(policy=self.policy),
            CHOSEN: Variant(policy=self.policy, policy_overrides=dict(values)),
        }
        return self._sweep(f"{self.title}: report", self.report, variants, budget_usd, [f"{self.method}/{BASE}"])

    def _sweep(
        self, title: str, side: Side, variants: dict[str, Variant], budget: float | None, against: list[str]
    ) -> Sweep:
        same = {
            name: getattr(self, name)
            for name in (
                *("seed", "seeds", "answer", "overrides", "sets", "every"),
                *("embedding", "parallel", "catalog", "split"),
            )
        }
        methods = {self.method: SweepMethod()}
        return Sweep(
            title=title, side=side, methods=methods, variants=variants, budget_usd=budget, against=against, **same
        )


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of the grid with its means over the sets. ``fits`` says whether it keeps to the bounds."""

    name: str
    values: Mapping[str, Any]
    means: Mapping[str, float]
    fits: bool


def points_of(tune: Tune, summary: Sequence[Mapping[str, Any]]) -> list[Point]:
    """The combinations with what the rows of ``summary`` say of each: the mean over sets and seeds."""
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
    """The best point that keeps to the bounds; of equals the one with fewer tokens, then the earlier one.

    Raises InputError when none does, or none has the metric.
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
