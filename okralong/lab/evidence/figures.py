"""Compute figures from rows: for each method on each set, and against the methods in ``against`` of the sweep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from okralong.lab.evidence.bench import Row
from okralong.lab.evidence.config import PlainMethod, Sweep
from okralong.lab.evidence.curves import (
    Curve,
    Pair,
    Rates,
    Results,
    mean_estimate,
    rate_ratios,
    recall_at,
    recall_differences,
    token_ratios,
)
from okralong.pipelines.reporting.statistics import DRAWS, Estimate, Floats, joined_by_documents, resample

HALF: Final = 0.5
"""The share of the baseline's tokens at which methods are compared by how often they show all evidence."""


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """A method's figures on a set at its own point (its count, or scale 1), and its curve.

    Shares are means over the questions for which they are defined; ``all_evidence`` and ``cells`` are None if the set
    marks no evidence or cells. The last two fields are the values of the curves at the sweep's ``at_tokens``, or at
    their last points if the curves end before.
    """

    tokens: float
    recall: Estimate
    all_evidence: Estimate
    answer_recall: float | None
    cells: float | None
    queries: float
    prompt_tokens: float
    curve: Curve
    workflows: dict[str, int]
    recall_within: float | None = None
    answer_recall_within: float | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method compared with another one.

    ``half`` compares how often all evidence of a question is shown: the method's rate, at its largest point with at
    most half of the other's tokens, divided by the other's rate. ``half_tokens`` is that point's share of the other's
    tokens. Both are None if there is no such point. ``left_out`` lists, for each figure, the sets on which it is
    undefined or not reached; means are over the other sets.
    """

    token_ratio: Estimate
    recall_difference: Estimate
    all_evidence_ratio: Estimate
    half: Estimate
    half_tokens: float | None
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SetFigures:
    """The figures of a set: of all methods, and of their comparison with each method in ``against`` of the sweep.

    ``measure`` is "evidence" or "answer". ``questions`` is the number of questions that have this measure,
    ``documents`` that of the sources they are about.
    """

    name: str
    measure: str
    questions: int
    documents: int
    methods: dict[str, MethodFigures]
    against: dict[str, dict[str, Comparison]]


@dataclass(frozen=True)
class _Method:
    """The rows of a method as arrays (points, questions), points in the sweep's order; ``at`` is its own point.

    ``answered`` has the answer recall of the questions that have one, or is None.
    """

    results: Results
    answered: Results | None
    all_evidence: Floats | None
    rows: list[Row]
    clusters: list[str]
    at: int


def set_figures(sweep: Sweep, name: str, rows: Sequence[Row]) -> SetFigures:
    """Return all figures of one set. Raises ValueError if no row has a recall."""
    kind, own = measured(name, rows)
    methods = {method: _arrays(sweep, method, own) for method in sweep.methods}
    first = next(iter(methods.values()))
    return SetFigures(
        name=name,
        measure=kind,
        questions=len(first.clusters),
        documents=len({document for row in first.rows for document in row.documents}),
        methods={method: _figures(arrays, sweep.at_tokens) for method, arrays in methods.items()},
        against={other: _against({name: methods}, other, sweep.seed) for other in sweep.against},
    )


def measured(name: str, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """Return the measure of a set's recall ("evidence" or "answer"), and the rows that have it.

    If a set marks evidence, only evidence recall is used: its questions without evidence are left out, so that no mean
    mixes two measures. Raises ValueError if no row has either.
    """
    own = [row for row in rows if row.dataset == name]
    if marked := [row for row in own if row.shown.evidence_recall is not None]:
        return "evidence", marked
    if answered := [row for row in own if row.shown.answer_recall is not None]:
        return "answer", answered
    raise ValueError(f"No row of {name} has evidence or parts of an answer.")


def over_sets(sweep: Sweep, rows: Sequence[Row], names: Sequence[str]) -> dict[str, dict[str, Comparison]]:
    """Return the comparison of all methods with each method in ``against`` of the sweep, in the mean over the sets.

    A set on which a figure is undefined or not reached is left out of that figure's mean, and named.
    """
    by_set = {}
    for name in names:
        own = measured(name, rows)[1]
        by_set[name] = {method: _arrays(sweep, method, own) for method in sweep.methods}
    return {other: _against(by_set, other, sweep.seed) for other in sweep.against}


def _against(by_set: Mapping[str, Mapping[str, _Method]], other: str, seed: int) -> dict[str, Comparison]:
    methods = [name for name in next(iter(by_set.values())) if name != other]
    return {
        name: _compare({each: (methods_of[name], methods_of[other]) for each, methods_of in by_set.items()}, seed)
        for name in methods
    }


def _compare(pairs: Mapping[str, tuple[_Method, _Method]], seed: int) -> Comparison:
    """Compare two methods, given as a pair for each set."""
    curves = [Pair(method.results, other.results, method.clusters, other.at) for method, other in pairs.values()]
    whole = {
        name: Rates(mine[method.at], theirs[other.at], method.clusters)
        for name, (method, other) in pairs.items()
        if (mine := method.all_evidence) is not None and (theirs := other.all_evidence) is not None
    }
    halves = {name: half for name in whole if (half := _at_half(*pairs[name])) is not None}
    found = {
        "token_ratio": dict(zip(pairs, token_ratios(curves, seed, DRAWS), strict=True)),
        "recall_difference": dict(zip(pairs, recall_differences(curves, seed, DRAWS), strict=True)),
        "all_evidence_ratio": dict(zip(whole, rate_ratios(list(whole.values()), seed, DRAWS), strict=True)),
        "half": dict(zip(halves, rate_ratios([rates for rates, _ in halves.values()], seed, DRAWS), strict=True)),
    }
    read = {figure: [name for name, (value, _) in of.items() if np.isfinite(value)] for figure, of in found.items()}
    asked = {"token_ratio": pairs, "recall_difference": pairs, "all_evidence_ratio": whole, "half": whole}
    lost = {figure: tuple(name for name in asked[figure] if name not in names) for figure, names in read.items()}
    shares = [halves[name][1] for name in read["half"] or halves]
    means = {figure: mean_estimate(list(of.values())) for figure, of in found.items()}
    return Comparison(
        **means,
        half_tokens=float(np.mean(shares)) if shares else None,
        left_out={figure: names for figure, names in lost.items() if names and read[figure]},
    )


def _at_half(method: _Method, other: _Method) -> tuple[Rates, float] | None:
    """Return the rates for ``Comparison.half`` and the point's share of tokens (``half_tokens``), or None."""
    if method.all_evidence is None or other.all_evidence is None:
        return None
    whole = other.results.tokens[other.at].mean()
    means = method.results.tokens.mean(axis=1)
    fitting = [point for point in range(len(means)) if means[point] <= HALF * whole]
    if not fitting:
        return None
    best = max(fitting, key=lambda point: means[point])
    rates = Rates(method.all_evidence[best], other.all_evidence[other.at], method.clusters)
    return rates, float(means[best] / whole)


def _arrays(sweep: Sweep, method: str, rows: Sequence[Row]) -> _Method:
    choice = sweep.methods[method]
    if isinstance(choice, PlainMethod):
        points, own_point = [float(count) for count in choice.counts], float(choice.count)
    else:
        points, own_point = list(choice.scales), 1.0
    by_point = {point: [row for row in rows if row.method == method and row.point == point] for point in points}
    own = by_point[own_point]
    tokens = np.array([[float(row.shown.context_tokens) for row in by_point[point]] for point in points])
    recall = np.array([[float(row.recall or 0.0) for row in by_point[point]] for point in points])
    marked = own[0].shown.all_evidence is not None
    pieces = np.array([[float(bool(row.shown.all_evidence)) for row in by_point[point]] for point in points])
    clusters = joined_by_documents([row.documents for row in own])
    known = [number for number, row in enumerate(own) if row.shown.answer_recall is not None]
    shown = np.array([[float(by_point[point][n].shown.answer_recall or 0.0) for n in known] for point in points])
    answered = Results(tokens[:, known], shown) if known else None
    at = points.index(own_point)
    return _Method(Results(tokens, recall), answered, pieces if marked else None, own, clusters, at)


def _figures(arrays: _Method, at_tokens: int | None) -> MethodFigures:
    recall = arrays.results.recall[arrays.at]
    whole = None if arrays.all_evidence is None else arrays.all_evidence[arrays.at]
    return MethodFigures(
        tokens=float(arrays.results.tokens[arrays.at].mean()),
        recall=clustered_mean(recall.tolist(), arrays.clusters),
        all_evidence=Estimate(None) if whole is None else clustered_mean(whole.tolist(), arrays.clusters),
        answer_recall=_known_mean(row.shown.answer_recall for row in arrays.rows),
        cells=_known_mean(row.shown.cell_recall for row in arrays.rows),
        queries=float(np.mean([row.queries for row in arrays.rows])),
        prompt_tokens=float(np.mean([row.prompt_tokens for row in arrays.rows])),
        curve=arrays.results.curve,
        workflows=dict(Counter(row.workflow for row in arrays.rows)),
        recall_within=_within(arrays.results, at_tokens),
        answer_recall_within=_within(arrays.answered, at_tokens),
    )


def _within(results: Results | None, at_tokens: int | None) -> float | None:
    if results is None or at_tokens is None:
        return None
    tokens, recall = results.tokens.mean(axis=1)[None], results.recall.mean(axis=1)[None]
    return float(recall_at(tokens, recall, np.minimum(tokens.max(axis=1), at_tokens))[0])


def _known_mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def clustered_mean(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS
) -> Estimate:
    """Return the mean of ``values`` with its 95 % percentile interval, interpolated between draws.

    ``values[i]`` belongs to ``clusters[i]``. There is no mean without values, and no interval with fewer than two
    clusters.

    Raises:
        ValueError: ``values`` and ``clusters`` differ in length.
    """
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values and {len(clusters)} clusters were given; the numbers must be equal.")
    numbers = np.asarray(values, dtype=np.float64)
    drawn = resample(clusters, seed, draws)
    value = float(np.mean(numbers)) if len(numbers) else None
    if drawn is None:
        return Estimate(value, n=len(numbers))
    low, high = np.quantile(drawn.means(numbers), [0.025, 0.975])
    return Estimate(value, float(low), float(high), len(numbers))
