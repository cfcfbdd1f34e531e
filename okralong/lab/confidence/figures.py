"""Measure confidences: Brier score beside the best constant, risk against coverage, and calibration.

Answers are ordered by confidence. *Coverage* is the share taken from the top, *risk* the share of wrong ones among
them. The area under this curve is divided by that of random order, which is the share of wrong answers: 1 or more means
that confidence is useless. Answers of equal confidence count in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from okralong.lab.confidence.answers import Judged
from okralong.lab.confidence.fit import Held
from okralong.lab.evidence.report_files import estimate_words
from okralong.pipelines.reporting.statistics import Estimate, estimate, resample
from okralong.pipelines.reporting.tables import NONE, markdown_table

Floats = npt.NDArray[np.float64]

SURE: Final = 0.8
"""Answers above this confidence are shown as sure, as in the matrix."""
BINS: Final = 10
"""Bins of equal width in a reliability diagram."""
FEWEST: Final = 20
"""Kinds with fewer answers are not listed separately."""


@dataclass(frozen=True)
class Measured:
    """Answers with a confidence.

    ``confidence`` and ``right`` (0 or 1) have the shape (answers,); answers of a cluster are drawn together, and
    ``without`` is the number of answers without a confidence.
    """

    name: str
    confidence: Floats
    right: Floats
    clusters: Sequence[str]
    without: int = 0

    @classmethod
    def of(cls, name: str, answers: Sequence[Held]) -> Measured:
        """Return the answers that have a confidence."""
        known = [each for each in answers if each.confidence is not None]
        return cls(
            name,
            np.array([each.confidence for each in known], dtype=np.float64),
            np.array([each.answer.right for each in known], dtype=np.float64),
            [each.answer.cluster for each in known],
            len(answers) - len(known),
        )


def risks(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return coverage and risk after each answer in order of confidence, each of shape (answers,).

    ``weights`` counts each answer that often. Answers of equal confidence have their mean risk.
    """
    order = np.argsort(-confidence, kind="stable")
    count = np.ones(len(order)) if weights is None else weights[order]
    _, group = np.unique(-confidence[order], return_inverse=True)
    told = np.bincount(group, count * wrong[order]) / np.maximum(np.bincount(group, count), 1e-12)
    taken = np.maximum(np.cumsum(count), 1e-12)
    return taken / taken[-1], np.cumsum(count * told[group]) / taken


def area(confidence: Floats, wrong: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Return the area under the curve, which is the mean risk over all coverages, and that of random order."""
    coverage, risk = risks(confidence, wrong, weights)
    return float(np.sum(risk * np.diff(coverage, prepend=0.0))), float(risk[-1])


def area_ratio(found: Measured, weights: Floats | None = None) -> float:
    """Return the area under risk against coverage by that of random order; nan if no answer is wrong."""
    own, random = area(found.confidence, 1 - found.right, weights)
    return own / random if random > 0 else float("nan")


def brier_ratio(found: Measured, weights: Floats | None = None) -> float:
    """Return the Brier score by that of the best constant, the share of right answers; nan if all are alike."""
    count = np.ones(len(found.right)) if weights is None else weights
    share = np.average(found.right, weights=count)
    constant = share * (1 - share)
    return float(np.average((found.confidence - found.right) ** 2, weights=count) / constant) if constant else np.nan


def wrong_above(found: Measured, weights: Floats | None = None) -> float:
    """Return the share of wrong answers among those above ``SURE``; nan if there are none."""
    count = np.ones(len(found.right)) if weights is None else weights
    count = count * (found.confidence > SURE)
    return float(np.average(1 - found.right, weights=count)) if count.sum() else float("nan")


def with_interval(found: Measured, figure: Callable[[Measured, Floats | None], float]) -> Estimate:
    """Return a figure with its 95 % interval, by a bootstrap over documents."""
    drawn = resample(found.clusters, draws=1000)
    draws = None if drawn is None else np.array([figure(found, each[drawn.index]) for each in drawn.weights])
    return estimate(figure(found, None), draws, len(found.right))


def by_kind(answers: Sequence[Held]) -> list[Measured]:
    """Return all answers, the answered and refused ones, and each kind with ``FEWEST`` or more."""
    status: dict[str, Callable[[Judged], bool]] = {
        "all": lambda _: True,
        "answered": lambda each: each.status == "answered",
        "refused": lambda each: each.status == "unanswerable",
    }
    found = [Measured.of(name, [each for each in answers if fits(each.answer)]) for name, fits in status.items()]
    kinds = sorted({each.answer.kind for each in answers})
    found += [Measured.of(kind, [each for each in answers if each.answer.kind == kind]) for kind in kinds]
    return [each for each in found if len(each.right) >= FEWEST or each.without >= FEWEST]


def table(every: Sequence[Measured]) -> str:
    """Return a Markdown table with a line for each group of answers."""
    lines = []
    for each in every:
        if not len(each.right):
            lines.append([each.name, "0", f"{each.without:,}", *[NONE] * 6])
            continue
        above = int((each.confidence > SURE).sum())
        lines.append(
            [
                each.name,
                f"{len(each.right):,}",
                f"{each.without:,}",
                f"{each.right.mean():.2f}",
                f"{each.confidence.mean():.2f}",
                estimate_words(with_interval(each, brier_ratio)),
                estimate_words(with_interval(each, area_ratio)),
                f"{above:,}",
                estimate_words(with_interval(each, wrong_above)) if above else NONE,
            ]
        )
    head = ["answers", "with", "without", "right", "mean confidence", "Brier / constant", "area / random"]
    return markdown_table([*head, f"above {SURE}", "wrong of these"], lines)


def reliability(found: Measured) -> list[tuple[float, float, int]]:
    """Return mean confidence, share of right answers and number of answers of each bin that has any."""
    bins = np.minimum((found.confidence * BINS).astype(int), BINS - 1)
    return [
        (float(found.confidence[bins == b].mean()), float(found.right[bins == b].mean()), int((bins == b).sum()))
        for b in sorted(set(bins.tolist()))
    ]


_SIDE: Final = 170
_COLOURS: Final = "#0072b2"


def diagrams(every: Sequence[Measured]) -> str:
    """Return reliability diagrams as SVG: a point per bin, its area by the number of answers; the diagonal is ideal."""
    shown = [each for each in every if len(each.right)]
    columns = 4
    rows = -(-len(shown) // columns)
    wide, high = columns * (_SIDE + 40) + 20, rows * (_SIDE + 56) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
    ]
    for number, each in enumerate(shown):
        left, top = 30 + number % columns * (_SIDE + 40), 30 + number // columns * (_SIDE + 56)
        parts.append(f'<text x="{left}" y="{top - 8}">{each.name} ({len(each.right):,})</text>')
        parts.append(f'<rect x="{left}" y="{top}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>')
        parts.append(f'<path d="M{left} {top + _SIDE}l{_SIDE} {-_SIDE}" stroke="#bbb" stroke-dasharray="4"/>')
        for sure, right, count in reliability(each):
            size = 2 + 12 * (count / len(each.right)) ** 0.5
            at = f'cx="{left + sure * _SIDE:.1f}" cy="{top + (1 - right) * _SIDE:.1f}" r="{size:.1f}"'
            parts.append(f'<circle {at} fill="{_COLOURS}" fill-opacity="0.6"/>')
        below = top + _SIDE + 12
        parts += [
            f'<text x="{left}" y="{below}" fill="#555">0</text>',
            f'<text x="{left + _SIDE - 6}" y="{below}" fill="#555">1</text>',
            f'<text x="{left + 20}" y="{below}" fill="#555">confidence → share right ↑</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def summary(answers: Mapping[str, Sequence[Held]]) -> str:
    """Return the tables of several groups of answers, each below its heading."""
    return "\n\n".join(f"## {name}\n\n{table(by_kind(rows))}" for name, rows in answers.items())
