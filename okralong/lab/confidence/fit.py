"""Fit a model of confidence: a logistic regression over signals for answers, and one for refusals.

A signal may only speak for or against an answer as its meaning says, so that a small set of answers cannot teach the
opposite, and signals of the question alone are left out, since they would tell the data set. The penalty is chosen on
left out questions. The log-odds are then drawn towards their mean, as far as this fits the answers of data sets that
were left out of the fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from okralong.lab.confidence.answers import Judged, digest_of
from okralong.pipelines.answering.confidence_model import (
    FARTHEST,
    GENERATED,
    JUDGES,
    ConfidenceModel,
    Head,
    entered,
)
from okralong.pipelines.answering.signal_names import SIGNALS
from okralong.pipelines.core.types import InputError

Floats = npt.NDArray[np.float64]

FEWEST: Final = 25  # project default
"""A way with fewer answers gets no confidence."""
BY_CODE: Final = ("cell", "row", "stated", "calculation")
"""Ways of code that reads tables and sentences. Their answers are counted together, since the same rules find them.
Each way still has a bias of its own."""
_RARE: Final = 0.02
"""A signal that a smaller share of the answers has is left out. project default"""
_PENALTIES: Final = (1.0, 3.0, 10.0, 30.0, 100.0)
"""Penalties that are tried. project default"""
_OF_WAY: Final = 1.0
"""The penalty of a way's own bias. project default"""
FOLDS: Final = 5
READ: Final = frozenset(
    {
        *("answerable", "answerable_second", "answerable_mean", "answerable_cited", "relevance", "relevance_gap"),
        *("span", "agreement", "support", "span_probability", "look_up_product"),
    }
)
"""Signals that need a cross-encoder."""
OF_QUESTION: Final = frozenset(
    {
        *(name for name in SIGNALS if name.startswith(("type_", "asks_"))),
        *("question_words", "question_years", "tokens", "passages", "documents"),
    }
)
"""Signals that no model uses: of the question and the archive alone."""
FOR: Final = frozenset(
    {
        *("answerable", "answerable_cited", "support", "agreement", "span_probability", "look_up_product", "evidence"),
        *("relevance", "relevance_gap", "bm25", "bm25_gap", "cosine", "cosine_gap", "value_in_span"),
        *("held_cited", "held_shown", "topic_cited", "topic_shown", "years_cited", "years_shown", "names_shown"),
        *("named", "named_cited", "kind_fits", "citations"),
        *("cell_label", "cell_table", "cell_item", "cell_alike", "cell_scale", "cell_currency", "cell_time"),
    }
)
"""Signals that may only raise the confidence of an answer."""
AGAINST: Final = frozenset(
    {"cell_doubt", "cell_rivals", "cell_substitute", "cell_owner", "cell_near", "operands", "open"}
)
"""Signals that may only lower it."""
FOUND: Final = frozenset(
    {
        *("answerable", "answerable_second", "answerable_mean", "span", "evidence", "relevance", "topic_shown"),
        *("names_shown", "years_shown", "named", "bm25", "cosine"),
    }
)
"""Signals that may only lower the confidence of a refusal."""


def fit_model(answers: Sequence[Judged], fewest: int = FEWEST) -> ConfidenceModel:
    """Fit a model on answers. Raises InputError if no way has ``fewest`` of them, some right and some wrong."""
    counts = Counter(_place(each) for each in answers)
    alike = Counter(_alike(each) for each in answers)
    enough = {_place(each) for each in answers if alike[_alike(each)] >= fewest and each.way}
    fitted = {place: n for place, n in sorted(counts.items()) if place in enough}
    used = [each for each in answers if _place(each) in fitted]
    if not 0 < sum(each.right for each in used) < len(used):
        raise InputError(
            f"{len(answers)} answers with gold are not enough: a way needs {fewest}, and some must be right and some "
            "wrong. Give more runs."
        )
    heads: dict[str, Head] = {}
    for status in ("answered", "unanswerable"):
        own = [each for each in used if each.status == status]
        read = [each for each in own if JUDGES in each.signals]
        for name, rows, without in ((status, read, frozenset[str]()), (f"{status}/unread", own, READ)):
            if 0 < sum(each.right for each in rows) < len(rows):
                heads[name] = fit_head(rows, without)
    return ConfidenceModel(
        heads=heads,
        fitted=fitted,
        generators=tuple(sorted({_name(each.replied_by) for each in used if each.way in GENERATED} - {""})),
        answers=digest_of(used),
        sources=dict(sorted(Counter(each.source for each in used).items())),
    )


def _place(answer: Judged) -> str:
    return f"{answer.status}/{answer.way}"


def _alike(answer: Judged) -> str:
    """Return the status and way of an answer; ways in ``BY_CODE`` are one."""
    return f"{answer.status}/{'code' if answer.way in BY_CODE else answer.way}"


def _name(replied_by: str) -> str:
    return replied_by.partition("@")[0]


def fit_head(answers: Sequence[Judged], without: frozenset[str] = frozenset()) -> Head:
    """Fit the regression of one status, ``without`` some signals."""
    names = _names(answers, without)
    values = np.array([[_entered(name, each) for name in names] for each in answers])
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    means = np.where(known, values, 0).sum(axis=0) / counts
    spreads = np.maximum(np.sqrt(np.where(known, (values - means) ** 2, 0).sum(axis=0) / counts), 1e-3)
    columns = np.where(known, np.clip((values - means) / spreads, -FARTHEST, FARTHEST), 0.0)
    ways = sorted({each.way for each in answers})
    of_way = np.array([[each.way == way for way in ways] for each in answers], dtype=np.float64)
    matrix = np.column_stack([np.ones(len(answers)), of_way, columns])
    right = np.array([each.right for each in answers], dtype=np.float64)
    signs = np.concatenate([np.zeros(1 + len(ways)), [_sign(name, answers[0].status) for name in names]])

    def solved(rows: npt.NDArray[np.bool_], penalty: float) -> Floats:
        penalties = np.concatenate([[0.0], np.full(len(ways), _OF_WAY), np.full(len(names), penalty)])
        return _solve(matrix[rows], right[rows], penalties / 2, signs)

    drawn = np.random.default_rng(7).permutation(len(answers)) % FOLDS
    loss = {each: _loss(_left_out(matrix, drawn, lambda rows: solved(rows, each)), right) for each in _PENALTIES}  # noqa: B023
    penalty = min(_PENALTIES, key=lambda each: loss[each])
    sources = [source for source, count in Counter(each.source for each in answers).items() if count >= _LEAST_ANSWERS]
    slope = 1.0
    if len(sources) >= _LEAST_SOURCES:
        of_source = np.array([sources.index(each.source) if each.source in sources else -1 for each in answers])
        slope = _slope(_left_out(matrix, of_source, lambda rows: solved(rows, penalty)), right, of_source)
    weights = solved(np.ones(len(answers), dtype=bool), penalty)
    shift = (1 - slope) * float((matrix @ weights).mean())
    return Head(
        signals=tuple(names),
        mean=_rounded(means),
        scale=_rounded(spreads),
        bias=round(float(weights[0]), 4),
        weights=_rounded(weights[1 + len(ways) :]),
        ways=dict(zip(ways, _rounded(weights[1 : 1 + len(ways)]), strict=True)),
        slope=slope,
        shift=round(shift, 4),
    )


_LEAST_SOURCES, _LEAST_ANSWERS = 3, 30
"""With fewer data sets of as many answers the log-odds are not drawn towards their mean. project default"""


def _names(answers: Sequence[Judged], without: frozenset[str]) -> list[str]:
    counts = Counter(name for each in answers for name, value in each.signals.items())
    values: dict[str, set[float]] = {}
    for each in answers:
        for name, value in each.signals.items():
            values.setdefault(name, set()).add(value)
    least = max(5, _RARE * len(answers))
    return sorted(
        name for name in counts.keys() - without - OF_QUESTION if counts[name] >= least and len(values[name]) > 1
    )


def _entered(name: str, answer: Judged) -> float:
    return entered(name, answer.signals[name]) if name in answer.signals else float("nan")


def _sign(name: str, status: str) -> int:
    """Return 1 for a signal that may only raise the confidence, -1 for one that may only lower it, else 0."""
    if status == "unanswerable":
        return -(name in FOUND)
    return (name in FOR) - (name in AGAINST)


def _left_out(matrix: Floats, parts: npt.NDArray[np.intp], solved: Callable[[npt.NDArray[np.bool_]], Floats]) -> Floats:
    """Return the log-odds of each answer by a fit without its part."""
    found = np.zeros(len(matrix))
    for part in np.unique(parts):
        rows = parts == part
        found[rows] = matrix[rows] @ solved(~rows)
    return found


def folds(answers: Sequence[Judged]) -> npt.NDArray[np.intp]:
    """Return a fold for each answer; answers about the same documents are in one fold, if there are enough of these."""
    many = len({each.cluster for each in answers}) >= 10 * FOLDS
    names = [each.cluster if many else f"{each.source} {each.query_id}" for each in answers]
    clusters = sorted(set(names))
    drawn = np.random.default_rng(7).permutation(len(clusters)) % FOLDS
    fold = dict(zip(clusters, drawn.tolist(), strict=True))
    return np.array([fold[name] for name in names])


def _loss(log_odds: Floats, right: Floats) -> float:
    return float(np.logaddexp(0, np.where(right > 0, -log_odds, log_odds)).mean())


_SLOPES: Final = tuple(number / 20 for number in range(6, 21))
"""Slopes that are tried. project default"""


def _slope(log_odds: Floats, right: Floats, sources: npt.NDArray[np.intp]) -> float:
    """Return the slope, 0.3 to 1, with the least loss on left out data sets, given their shares of right answers."""

    def loss(slope: float) -> float:
        total = 0.0
        for source in np.unique(sources):
            own, true = slope * log_odds[sources == source], right[sources == source]
            total += min(_loss(own - own.mean() + base, true) for base in _BASES) * len(own)
        return total

    return min(_SLOPES, key=loss)


_BASES: Final = tuple(np.linspace(-5, 5, 51).tolist())
"""Means of log-odds that are tried for a left out data set. project default"""


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(round(float(value), 4) for value in values)


def _solve(matrix: Floats, right: Floats, penalties: Floats, signs: Floats) -> Floats:
    """Return the weights of a logistic regression with a quadratic penalty.

    Newton's method; weights with another sign than theirs in ``signs`` (0: any) are set to 0 and left out, one round
    after the other.
    """
    free = np.ones(matrix.shape[1], dtype=bool)
    while True:
        weights = np.zeros(matrix.shape[1])
        kept = matrix[:, free]
        for _ in range(30):
            said = 1 / (1 + np.exp(-np.clip(matrix @ weights, -30, 30)))
            gradient = kept.T @ (said - right) + 2 * (penalties * weights)[free]
            curvature = (kept * (said * (1 - said))[:, None]).T @ kept + np.diag(2 * penalties[free] + 1e-6)
            step = np.linalg.solve(curvature, gradient)
            weights[free] -= step
            if np.abs(step).max() < 1e-6:
                break
        wrong = free & (weights * signs < 0)
        if not wrong.any():
            return weights
        free &= ~wrong


# --------
# Confidences of answers that a model was not fitted on.


@dataclass(frozen=True, slots=True)
class Held:
    """An answer with the confidence by a model that was fitted without its part of the answers."""

    answer: Judged
    confidence: float | None


def held_out(
    answers: Sequence[Judged], part: Callable[[Judged], str] | None = None, fewest: int = FEWEST
) -> list[Held]:
    """Return each answer's confidence by a model fitted without its part: by default, a fifth of the documents."""
    parts = [str(each) for each in folds(answers)] if part is None else [part(each) for each in answers]
    found: list[Held] = []
    for name in sorted(set(parts)):
        model = fit_model([each for each, own in zip(answers, parts, strict=True) if own != name], fewest)
        mine = [each for each, own in zip(answers, parts, strict=True) if own == name]
        found += [Held(each, estimate(model, each)) for each in mine]
    return found


def estimate(model: ConfidenceModel, answer: Judged) -> float | None:
    """Return a model's confidence of an answer."""
    return model.estimate_of(answer.status, answer.way, (answer.replied_by,), answer.signals)
