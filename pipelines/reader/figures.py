"""The figures of a reader over its marks, with intervals that draw questions on the same documents together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from okralong.pipelines.reader.marks import Marks
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.reporting.statistics import Estimate, Floats, estimate, joined_by_documents, resample

Ratio = Callable[[ReadingRow, Marks], tuple[float, float]]
"""What a row adds to a figure's numerator and denominator; (0, 0): the figure does not look at it."""


def _mean(of: Callable[[Marks], float], when: Callable[[ReadingRow], bool] = lambda row: True) -> Ratio:
    return lambda row, marks: (of(marks), 1.0) if when(row) else (0.0, 0.0)


def _held_back(row: ReadingRow) -> bool:
    return not row.answerable


def _answerable(row: ReadingRow) -> bool:
    return row.answerable


FIGURES: Final[dict[str, Ratio]] = {
    "F1": _mean(lambda marks: marks.f1),
    "EM": _mean(lambda marks: marks.exact),
    "F1, evidence in view": _mean(lambda marks: marks.f1, _answerable),
    "EM, evidence in view": _mean(lambda marks: marks.exact, _answerable),
    "citation precision": lambda row, marks: (marks.right, marks.cited) if row.answerable and row.evidence else (0, 0),
    "citation recall": lambda row, marks: (marks.found, marks.pieces) if row.answerable else (0, 0),
    "unanswerable precision": lambda row, marks: (_held_back(row) and marks.said_unanswerable, marks.said_unanswerable),
    "unanswerable recall": lambda row, marks: (_held_back(row) and marks.said_unanswerable, _held_back(row)),
}
"""Each a sum over rows divided by another. Citations count where there is evidence to cite: not of answers that should
not be there, and not where the set marks none."""


def figure(ratio: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> Estimate:
    """A figure with its 95 % interval; not defined where no row counts."""
    return _estimate(*_pairs(ratio, rows, marks), rows)


def difference(ratio: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks], others: Sequence[Marks]) -> Estimate:
    """How much larger the figure of ``marks`` is than that of ``others``, on the same rows and paired draws."""
    mine, counts = _pairs(ratio, rows, marks)
    theirs, their_counts = _pairs(ratio, rows, others)
    drawn = resample(joined_by_documents([row.documents for row in rows]))
    value = _divided(mine.sum(), counts.sum()) - _divided(theirs.sum(), their_counts.sum())
    if drawn is None:
        return estimate(float(value), None)
    means = drawn.means(np.stack([mine, counts, theirs, their_counts]))
    return estimate(float(value), _divided(means[:, 0], means[:, 1]) - _divided(means[:, 2], means[:, 3]))


def _pairs(ratio: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> tuple[Floats, Floats]:
    pairs = np.array([ratio(row, each) for row, each in zip(rows, marks, strict=True)], dtype=np.float64)
    return pairs[:, 0], pairs[:, 1]


def _estimate(tops: Floats, bottoms: Floats, rows: Sequence[ReadingRow]) -> Estimate:
    value = float(_divided(tops.sum(), bottoms.sum()))
    drawn = resample(joined_by_documents([row.documents for row in rows]))
    if drawn is None:
        return estimate(value, None)
    means = drawn.means(np.stack([tops, bottoms]))
    return estimate(value, _divided(means[:, 0], means[:, 1]))


def _divided(tops: Floats | np.float64, bottoms: Floats | np.float64) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(np.asarray(bottoms) > 0, np.divide(tops, bottoms), np.nan), dtype=np.float64)
