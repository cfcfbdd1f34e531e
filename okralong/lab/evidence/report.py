"""The evidence bench's report: each method on each set, how methods compare, and the page, data and picture of it.

A method's curve is its recall against its tokens over its budgets, read off the upper envelope: what fewer tokens have
shown, more tokens can show as well. Between points, and between nothing (0 tokens, recall 0) and the first point, it is
linear; beyond the last point it is not defined. Two methods are compared at equal recall or at equal tokens, and
paired: each bootstrap draw takes whole documents, the same for both methods, and reads both curves anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Final, TypeAlias

import numpy as np

from okralong.lab.evidence.bench import Row
from okralong.lab.evidence.config import PlainMethod, PolicyMethod, Sweep
from okralong.lab.evidence.pictures import RecallLine, RecallPanel, draw_recall
from okralong.pipelines.reporting.statistics import (
    DRAWS,
    Drawn,
    Estimate,
    Floats,
    clustered_mean,
    estimate,
    joined_by_documents,
    mean_over_sets,
    resample,
)
from okralong.pipelines.reporting.tables import NONE, estimate_words, markdown_table

HALF: Final = 0.5
"""The share of the baseline's tokens at which all-evidence rates are compared."""


def write_report(
    folder: Path,
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> list[Path]:
    """A page (.md), its data (.json) and, where the sweep names methods to picture, the picture (.svg) in ``folder``.

    They have the name of the sweep's file, ``source``, and where this is of the ``other_side`` than the file says, the
    side's. Returns their paths. ``overall`` is, by the name of the other method, each method against it over all sets.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{Path(source).stem}_{sweep.side}" if other_side else Path(source).stem
    page, data = folder / f"{name}.md", folder / f"{name}.json"
    page.write_text(markdown(source, sweep, sets, overall, other_side), encoding="utf-8")
    content = {
        "sweep": _dumped(sweep),
        "sets": [asdict(figures) for figures in sets],
        "overall": {other: {m: asdict(c) for m, c in by.items()} for other, by in overall.items()},
    }
    data.write_text(json.dumps(_rounded(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not sweep.pictured:
        return [page, data]
    panels = []
    for figures in sets:
        curves = {method: figures.methods[method].curve for method in sweep.pictured}
        lines = [RecallLine(method, curve.tokens, curve.recall) for method, curve in curves.items()]
        measured = f"{figures.measure} recall"
        panels.append(RecallPanel(figures.name, figures.questions, figures.documents, lines, measured))
    picture = folder / f"{name}.svg"
    draw_recall(picture, panels)
    return [page, data, picture]


def markdown(
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> str:
    """The whole page."""
    side = f" --side {sweep.side}" if other_side else ""
    parts = [
        f"# {sweep.title}",
        f"`okralong evidence {public_name(source)}{side} --data DATA --out benchmarks/results/evidence`",
        sweep.words.strip(),
        f"Side of the split: {sweep.side}. Intervals: 95 %, bootstrap over source documents, paired. Tokens are o200k. "
        "The sets are subsets of the published ones: scores are not comparable with any paper's. A dash: not "
        "reached, or not defined; a mean without a set: not on that set.",
        "Methods:\n\n" + "\n".join(f"- `{m}`: {_words(choice)}" for m, choice in sweep.methods.items()),
    ]
    held = {figures.name for figures in sets}
    if lost := [name for choice in sweep.sets if (name := f"{choice.name} {choice.part}") not in held]:
        parts.append(f"Left out, since it could not be read: {', '.join(lost)}.")
    if len(sets) > 1:
        parts += [f"## Mean over {len(sets)} sets, each counted alike", _mean_table(sweep, sets)]
    for other, by_method in overall.items():
        parts += [f"## Against {other}, mean over {len(sets)} sets", _comparison_table(by_method)]
    drawn = {f"{choice.name} {choice.part}": choice.limit for choice in sweep.sets if choice.limit is not None}
    for figures in sets:
        limit = f" (at most {drawn[figures.name]}, drawn with seed {sweep.seed})" if figures.name in drawn else ""
        parts += [
            f"## {figures.name}",
            f"{figures.questions} questions{limit} on {figures.documents} source documents; recall is "
            f"{figures.measure} recall.",
            _method_table(figures.methods, sweep.at_tokens),
        ]
        for versus, compared in figures.against.items():
            parts += [f"Against {versus}:", _comparison_table(compared)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _words(choice: PlainMethod | PolicyMethod) -> str:
    prefixed = f", queries embedded after {choice.query_prefix!r}" if choice.query_prefix else ""
    cut = "" if choice.boundaries == "sentences" else f", chunks cut at {choice.boundaries}"
    if isinstance(choice, PlainMethod):
        counts = ", ".join(map(str, choice.counts))
        points = f"(curve: {counts}){prefixed}{cut}"
        return f"{choice.count} chunks of {choice.granularity} tokens by {choice.retriever} {points}"
    changed = "".join(f", {key} = {value}" for key, value in choice.overrides.items())
    scales = ", ".join(f"{scale:g}" for scale in choice.scales)
    policy = f"{public_name(choice.policy)}{changed}"
    return f"{policy}; analyzer {choice.analyzer}, queries by {choice.writer} (scales: {scales}){prefixed}{cut}"


def public_name(source: str) -> str:
    """A config or model as a report may name it: of a path on this machine only the last part."""
    path = Path(source).expanduser()
    return path.name if path.is_absolute() else source


def _dumped(sweep: Sweep) -> dict[str, Any]:
    """The sweep as it was run."""
    content = sweep.model_dump()
    for key in ("catalog", "split", "scorer"):
        content[key] = public_name(content[key])
    for analyzer in content["analyzers"].values():
        for key in ("model", "adapter"):
            analyzer[key] = analyzer[key] and public_name(analyzer[key])
    for method in content["methods"].values():
        if "policy" in method:
            method["policy"] = public_name(method["policy"])
    return content


def _method_table(methods: Mapping[str, MethodFigures], at_tokens: int | None) -> str:
    head = ["method", "tokens", "recall", "all evidence", "answer recall", "cells with heads"]
    if at_tokens is not None:
        head += [f"recall within {at_tokens:,}", f"answer recall within {at_tokens:,}"]
    head += ["queries", "all prompts", "workflows"]
    rows = [
        [
            name,
            f"{each.tokens:,.0f}",
            estimate_words(each.recall),
            estimate_words(each.all_evidence),
            _plain(each.answer_recall),
            _plain(each.cells),
            *([] if at_tokens is None else [_plain(each.recall_within), _plain(each.answer_recall_within)]),
            f"{each.queries:.1f}",
            f"{each.prompt_tokens:,.0f}",
            ", ".join(f"{count} {workflow}" for workflow, count in sorted(each.workflows.items())),
        ]
        for name, each in methods.items()
    ]
    return markdown_table(head, rows)


def _mean_table(sweep: Sweep, sets: Sequence[SetFigures]) -> str:
    rows = []
    for name in sweep.methods:
        each = [figures.methods[name] for figures in sets]
        tokens, recall = fmean(one.tokens for one in each), [one.recall.value for one in each]
        known = [value for value in recall if value is not None]
        rows.append([name, f"{tokens:,.0f}", _plain(fmean(known) if len(known) == len(each) else None)])
    return markdown_table(["method", "tokens", "recall"], rows)


def _comparison_table(compared: Mapping[str, Comparison]) -> str:
    head = [
        "method",
        "tokens at its recall, ratio",
        "recall at its tokens, difference",
        "all evidence, ratio",
        "all evidence at ≤ half its tokens, ratio (tokens)",
    ]
    rows = []
    for name, each in compared.items():
        half = estimate_words(each.half) + ("" if each.half_tokens is None else f" ({each.half_tokens:.2f})")
        cells = {
            "token_ratio": estimate_words(each.token_ratio),
            "recall_difference": estimate_words(each.recall_difference, "+.3f"),
            "all_evidence_ratio": estimate_words(each.all_evidence_ratio),
            "half": half,
        }
        without = {figure: f" without {', '.join(names)}" for figure, names in each.left_out.items()}
        rows.append([name, *(words + without.get(figure, "") for figure, words in cells.items())])
    return markdown_table(head, rows)


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _rounded(value: object) -> object:
    """Floats to six digits: a result file that changes only where a figure did. Of an Estimate only value and ends."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items() if key != "n"}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value


# --------
# From rows to figures: each method on each set, and each method against the baseline and the strong hybrid.


@dataclass(frozen=True, slots=True)
class MethodFigures:
    """A method on a set as it is (its own count, scale 1), with its curve. Shares are means over questions that have
    them; ``all_evidence`` and ``cells`` are None where the set marks nothing of the kind. The last two are read off the
    curves at the sweep's ``at_tokens``, or at their last points where those have fewer tokens.
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
    """A method against another. ``half`` is the ratio of all-evidence rates at the method's largest
    point of at most half of the other's tokens, with that point's share of tokens; None where there is no such point.
    ``left_out`` has, by figure, the sets on which it is not reached or not defined: a mean is over the others.
    """

    token_ratio: Estimate
    recall_difference: Estimate
    all_evidence_ratio: Estimate
    half: Estimate
    half_tokens: float | None
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    """Rows of a method as arrays (points, questions), points in the sweep's order; ``at`` is its own point.

    ``answered`` has answer recall, of the questions that have one; None where none has.
    """

    results: Results
    answered: Results | None
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
        methods={method: _figures(arrays, sweep.at_tokens) for method, arrays in methods.items()},
        against={other: _against({name: methods}, other, sweep.seed) for other in sweep.against},
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
    """By each method that the sweep names, the others against it: the mean of the comparison over the sets.

    A set on which a figure is not reached or not defined is left out of that figure's mean, and named.
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
    """A method and another, by set."""
    curves = [Pair(method.results, other.results, method.clusters, other.at) for method, other in pairs.values()]
    whole = {
        name: Rates(mine[method.at], theirs[other.at], method.clusters)
        for name, (method, other) in pairs.items()
        if (mine := method.all_evidence) is not None and (theirs := other.all_evidence) is not None
    }
    halves = {name: half for name in whole if (half := _at_half(*pairs[name])) is not None}
    found = {
        "token_ratio": dict(zip(pairs, _token_ratios(curves, seed, DRAWS), strict=True)),
        "recall_difference": dict(zip(pairs, _recall_differences(curves, seed, DRAWS), strict=True)),
        "all_evidence_ratio": dict(zip(whole, _rate_ratios(list(whole.values()), seed, DRAWS), strict=True)),
        "half": dict(zip(halves, _rate_ratios([rates for rates, _ in halves.values()], seed, DRAWS), strict=True)),
    }
    read = {figure: [name for name, (value, _) in of.items() if np.isfinite(value)] for figure, of in found.items()}
    asked = {"token_ratio": pairs, "recall_difference": pairs, "all_evidence_ratio": whole, "half": whole}
    lost = {figure: tuple(name for name in asked[figure] if name not in names) for figure, names in read.items()}
    shares = [halves[name][1] for name in read["half"] or halves]
    means = {figure: _over_sets(list(of.values())) for figure, of in found.items()}
    return Comparison(
        **means,
        half_tokens=float(np.mean(shares)) if shares else None,
        left_out={figure: names for figure, names in lost.items() if names and read[figure]},
    )


def _at_half(method: _Method, other: _Method) -> tuple[Rates, float] | None:
    """All-evidence rates at the method's largest point within half of the other's tokens, and its share of them."""
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


# --------
# Curves, and two methods on the same questions.

_Compare: TypeAlias = Callable[[Floats, Floats, Floats, Floats], Floats]
"""Compares mean tokens and recall of a method (curves, budgets) with those of a baseline at one budget (curves,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """A method on the questions of a set: ``tokens`` shown and ``recall`` reached, each (budgets, questions).

    Raises ValueError when the shapes differ or a value is nan: questions without evidence are to be left out.
    """

    tokens: Floats
    recall: Floats

    def __post_init__(self) -> None:
        if self.tokens.ndim != 2 or self.tokens.shape != self.recall.shape or not self.tokens.size:
            raise ValueError(
                f"Tokens and recall must both be (budgets, questions); they are {self.tokens.shape} and "
                f"{self.recall.shape}."
            )
        if np.isnan(self.tokens).any() or np.isnan(self.recall).any():
            raise ValueError("A question has no tokens or no recall; leave out the questions without evidence.")

    @property
    def curve(self) -> Curve:
        """Mean tokens and mean recall at each budget."""
        return Curve(tuple(self.tokens.mean(axis=1).tolist()), tuple(self.recall.mean(axis=1).tolist()))


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of mean ``tokens`` and mean ``recall``, in the order of the budgets."""

    tokens: tuple[float, ...]
    recall: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two methods on the same questions. ``clusters`` names each question's document; ``at`` is the budget of
    ``baseline`` at which the two are compared. Raises ValueError when the numbers of questions differ.
    """

    method: Results
    baseline: Results
    clusters: Sequence[Hashable]
    at: int = 0

    def __post_init__(self) -> None:
        if not self.method.tokens.shape[1] == self.baseline.tokens.shape[1] == len(self.clusters):
            raise ValueError("Both methods and the clusters of a pair must have the same questions.")


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Marks of two methods on the same questions, each (questions,): 1 where all evidence is shown, else 0."""

    method: Floats
    baseline: Floats
    clusters: Sequence[Hashable]


def recall_difference(*pairs: Pair, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's recall at the baseline's tokens, less the baseline's recall: the mean over the pairs, one a set.

    Pairs on which it is not defined are left out, where it is on another; so are they of the ratios below.
    """
    return _over_sets(_recall_differences(pairs, seed, draws))


def _recall_differences(pairs: Sequence[Pair], seed: int, draws: int) -> list[Drawn]:
    return _compared(pairs, lambda tokens, recall, x, y: recall_at(tokens, recall, x) - y, seed, draws)


def token_ratio(*pairs: Pair, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's tokens at the baseline's recall, by the baseline's tokens: the mean over the pairs, one a set.

    Where the method does not reach that recall the ratio is out of reach: no value, or no upper end.
    """
    return _over_sets(_token_ratios(pairs, seed, draws))


def _token_ratios(pairs: Sequence[Pair], seed: int, draws: int) -> list[Drawn]:
    def compare(tokens: Floats, recall: Floats, other_tokens: Floats, other_recall: Floats) -> Floats:
        reached = tokens_at(tokens, recall, other_recall)
        return _by(np.where(np.isnan(reached), np.inf, reached), other_tokens)

    return _compared(pairs, compare, seed, draws)


def rate_ratio(*rates: Rates, seed: int = 7, draws: int = DRAWS) -> Estimate:
    """The method's rate by the baseline's: the mean over the sets. Out of reach where the baseline's rate is zero."""
    return _over_sets(_rate_ratios(rates, seed, draws))


def _rate_ratios(rates: Sequence[Rates], seed: int, draws: int) -> list[Drawn]:
    found: list[Drawn] = []
    for n, rate in enumerate(rates):
        both = np.stack([rate.method, rate.baseline]).astype(np.float64)
        drawn = resample(rate.clusters, seed + n, draws)
        found.append((_by(*both.mean(axis=1)), _by(*drawn.means(both).T) if drawn else None))
    return found


def _compared(pairs: Sequence[Pair], compare: _Compare, seed: int, draws: int) -> list[Drawn]:
    """For each pair the comparison on the questions as they are, and in each draw."""

    def means(pair: Pair, mean: Callable[[Floats], Floats]) -> Floats:
        method, baseline, at = pair.method, pair.baseline, pair.at
        return compare(*map(mean, (method.tokens, method.recall, baseline.tokens[at], baseline.recall[at])))

    found: list[Drawn] = []
    for n, pair in enumerate(pairs):
        drawn = resample(pair.clusters, seed + n, draws)
        whole = means(pair, lambda values: values.mean(axis=-1)[None])[0]
        found.append((whole, means(pair, drawn.means) if drawn else None))
    return found


def _by(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _over_sets(found: Sequence[Drawn]) -> Estimate:
    """The mean over the sets on which the figure is a number; as on all where it is one on none."""
    read = [each for each in found if np.isfinite(each[0])] or found
    return estimate(*mean_over_sets(read)) if read else Estimate(None)


def recall_at(tokens: Floats, recall: Floats, at: Floats) -> Floats:
    """The recall of each curve (curves, budgets) at so many tokens (curves,); nan beyond its last point."""
    return _read(*_envelope(tokens, recall), at)


def tokens_at(tokens: Floats, recall: Floats, at: Floats) -> Floats:
    """The fewest tokens at which each curve reaches a recall; nan where it never does."""
    x, y = _envelope(tokens, recall)
    return _read(y, x, at)


def _envelope(tokens: Floats, recall: Floats) -> tuple[Floats, Floats]:
    """Points (rows, budgets) in order of tokens, from nothing on, the recall never falling."""
    order = np.lexsort((-recall, tokens), axis=1)
    x = np.take_along_axis(tokens, order, axis=1)
    y = np.maximum.accumulate(np.take_along_axis(recall, order, axis=1), axis=1)
    start = np.zeros((len(x), 1))
    return np.hstack([start, x]), np.hstack([start, y])


def _read(x: Floats, y: Floats, at: Floats) -> Floats:
    """y where x first reaches ``at``, row by row; nan where it never does. Both x and y never fall along a row."""
    after = (x < at[:, None]).sum(axis=1)
    rows, last = np.arange(len(x)), x.shape[1] - 1
    right, left = np.minimum(after, last), np.maximum(np.minimum(after, last) - 1, 0)
    width = x[rows, right] - x[rows, left]
    share = np.divide(at - x[rows, left], width, out=np.ones_like(width), where=(width > 0) & (after > 0))
    read = y[rows, left] + share * (y[rows, right] - y[rows, left])
    return np.where(after > last, np.nan, np.where(after == 0, 0.0, read))
