"""From rows to figures: each method on each set, and each method against the baseline and the strong hybrid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from okralong.pipelines.evaluation.evidence.bench import Row
from okralong.pipelines.evaluation.evidence.config import PlainMethod, Sweep
from okralong.pipelines.evaluation.evidence.curves import (
    Curve,
    Pair,
    Rates,
    Results,
    rate_ratio,
    recall_difference,
    token_ratio,
)
from okralong.pipelines.reporting.statistics import Estimate, Floats, clustered_interval, joined_by_documents

HALF = 0.5
"""The share of the baseline's tokens at which all-evidence rates are compared."""


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """A method on a set as it is (its own count, scale 1), with its curve. Shares are means over questions that have
    them; ``all_evidence`` and ``cells`` are None where the set marks nothing of the kind.
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """A method against another: see ``curves``. ``half`` is the ratio of all-evidence rates at the method's largest
    point of at most half of the other's tokens, with that point's share of tokens; None where there is no such point.
    """

    token_ratio: Estimate
    recall_difference: Estimate
    all_evidence_ratio: Estimate
    half: Estimate
    half_tokens: float | None


@dataclass(frozen=True)
class SetFigures:
    """A set: how much was asked, all methods, and by each method that the sweep names the others against it.

    ``measure`` is "evidence" or "answer"; ``questions`` are those that have it, ``documents`` the sources asked about.
    """

    name: str
    measure: str
    questions: int
    documents: int
    methods: dict[str, MethodFigures]
    against: dict[str, dict[str, Comparison]]


@dataclass(frozen=True)
class _Method:
    """Rows of a method as arrays (points, questions), points in the sweep's order; ``at`` is its own point."""

    results: Results
    all_evidence: Floats | None
    rows: list[Row]
    clusters: list[str]
    at: int


def set_figures(sweep: Sweep, name: str, rows: Sequence[Row]) -> SetFigures:
    """All figures of one set from its rows. Raises ValueError when none of them has a recall."""
    kind, own = measured(name, rows)
    methods = {method: _arrays(sweep, method, own) for method in sweep.methods}
    first = next(iter(methods.values()))
    return SetFigures(
        name=name,
        measure=kind,
        questions=len(first.clusters),
        documents=len({document for row in first.rows for document in row.documents}),
        methods={method: _figures(arrays) for method, arrays in methods.items()},
        against={other: _against([methods], other, sweep.seed) for other in sweep.against},
    )


def measured(name: str, rows: Sequence[Row]) -> tuple[str, list[Row]]:
    """What a set's recall is of ("evidence" or "answer"), and its rows that have it.

    A set that marks evidence is judged by it alone: its questions without any are left out, so that no mean mixes two
    measures. Raises ValueError when no row has either.
    """
    own = [row for row in rows if row.dataset == name]
    if marked := [row for row in own if row.shown.evidence_recall is not None]:
        return "evidence", marked
    if answered := [row for row in own if row.shown.answer_recall is not None]:
        return "answer", answered
    raise ValueError(f"No row of {name} has evidence or parts of an answer to look for.")


def over_sets(sweep: Sweep, rows: Sequence[Row], names: Sequence[str]) -> dict[str, dict[str, Comparison]]:
    """By each method that the sweep names, the others against it: the mean of the comparison over the sets."""
    by_set = []
    for name in names:
        own = measured(name, rows)[1]
        by_set.append({method: _arrays(sweep, method, own) for method in sweep.methods})
    return {other: _against(by_set, other, sweep.seed) for other in sweep.against}


def _against(by_set: Sequence[dict[str, _Method]], other: str, seed: int) -> dict[str, Comparison]:
    methods = [name for name in by_set[0] if name != other]
    return {name: _compare([(methods_of[name], methods_of[other]) for methods_of in by_set], seed) for name in methods}


def _compare(pairs: Sequence[tuple[_Method, _Method]], seed: int) -> Comparison:
    curves = [Pair(method.results, other.results, method.clusters, other.at) for method, other in pairs]
    whole = [
        Rates(mine[method.at], theirs[other.at], method.clusters)
        for method, other in pairs
        if (mine := method.all_evidence) is not None and (theirs := other.all_evidence) is not None
    ]
    half, half_tokens = _at_half(pairs, seed)
    return Comparison(
        token_ratio=token_ratio(*curves, seed=seed),
        recall_difference=recall_difference(*curves, seed=seed),
        all_evidence_ratio=rate_ratio(*whole, seed=seed),
        half=half,
        half_tokens=half_tokens,
    )


def _at_half(pairs: Sequence[tuple[_Method, _Method]], seed: int) -> tuple[Estimate, float | None]:
    rates, shares = [], []
    for method, other in pairs:
        if method.all_evidence is None or other.all_evidence is None:
            continue
        whole = other.results.tokens[other.at].mean()
        means = method.results.tokens.mean(axis=1)
        fitting = [point for point in range(len(means)) if means[point] <= HALF * whole]
        if not fitting:
            return Estimate(None), None
        best = max(fitting, key=lambda point: means[point])
        rates.append(Rates(method.all_evidence[best], other.all_evidence[other.at], method.clusters))
        shares.append(float(means[best] / whole))
    return rate_ratio(*rates, seed=seed), float(np.mean(shares)) if shares else None


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
    return _Method(Results(tokens, recall), pieces if marked else None, own, clusters, points.index(own_point))


def _figures(arrays: _Method) -> MethodFigures:
    recall = arrays.results.recall[arrays.at]
    whole = None if arrays.all_evidence is None else arrays.all_evidence[arrays.at]
    answers = [row.shown.answer_recall for row in arrays.rows if row.shown.answer_recall is not None]
    cells = [row.shown.cell_recall for row in arrays.rows if row.shown.cell_recall is not None]
    workflows: dict[str, int] = {}
    for row in arrays.rows:
        workflows[row.workflow] = workflows.get(row.workflow, 0) + 1
    return MethodFigures(
        tokens=float(arrays.results.tokens[arrays.at].mean()),
        recall=_mean(recall.tolist(), arrays.clusters),
        all_evidence=Estimate(None) if whole is None else _mean(whole.tolist(), arrays.clusters),
        answer_recall=float(np.mean(answers)) if answers else None,
        cells=float(np.mean(cells)) if cells else None,
        queries=float(np.mean([row.queries for row in arrays.rows])),
        prompt_tokens=float(np.mean([row.prompt_tokens for row in arrays.rows])),
        curve=arrays.results.curve,
        workflows=workflows,
    )


def _mean(values: list[float], clusters: list[str]) -> Estimate:
    interval = clustered_interval(values, clusters)
    low, high = interval if interval else (None, None)
    return Estimate(float(np.mean(values)), low, high)
