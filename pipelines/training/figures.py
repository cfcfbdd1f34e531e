"""What an analyzer is worth on rows whose documents it never saw: accuracy, macro-F1, calibration, confusion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.core.types import Analysis
from okralong.pipelines.reporting.statistics import Estimate, Floats, estimate, joined_by_documents, resample
from okralong.pipelines.training.calibrate import calibration_error
from okralong.pipelines.training.examples import UNKNOWN, Example

Probabilities = list[npt.NDArray[np.float64]]
"""For each of the three fields an array (questions, labels)."""


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """One field on the ``rows`` whose label is known. ``confusion`` has a row for each true label, a column for each
    one said; ``calibration_error`` is 0 to 1, and None for an analyzer that gives no probabilities.
    """

    key: str
    rows: int
    accuracy: Estimate
    macro_f1: Estimate
    calibration_error: float | None
    confusion: tuple[tuple[int, ...], ...]


def probabilities(analyses: Sequence[Analysis]) -> Probabilities:
    """What analyses say, as arrays in the order of FIELDS."""
    types = [[each.type_probabilities[label] for label in FIELDS[0][1]] for each in analyses]
    patterns = [[each.pattern_probabilities[label] for label in FIELDS[1][1]] for each in analyses]
    evidence = [[each.evidence_probability, 1 - each.evidence_probability] for each in analyses]
    return [np.array(rows, dtype=np.float64) for rows in (types, patterns, evidence)]


def field_figures(
    examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Probabilities, sure: bool = True
) -> list[FieldFigures]:
    """The three fields; intervals draw questions that share a document together. ``sure`` False: no probabilities."""
    return [_field(n, examples, documents, said[n], sure) for n in range(len(FIELDS))]


def _field(
    number: int, examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Floats, sure: bool
) -> FieldFigures:
    known = [index for index, each in enumerate(examples) if each.labels[number] != UNKNOWN]
    key, labels = FIELDS[number]
    true = np.array([examples[index].labels[number] for index in known], dtype=np.intp)
    rows = said[known]
    counts = np.zeros((len(labels), len(labels)))
    np.add.at(counts, (true, rows.argmax(axis=1)), 1)
    draws = _draws(true, rows.argmax(axis=1), len(labels), joined_by_documents([documents[i] for i in known]))
    return FieldFigures(
        key,
        len(known),
        _figure(_accuracy, counts, draws),
        _figure(_macro_f1, counts, draws),
        calibration_error(rows, true.tolist()) if sure and known else None,
        tuple(tuple(int(cell) for cell in line) for line in counts),
    )


def _draws(true: npt.NDArray[np.intp], said: npt.NDArray[np.intp], size: int, clusters: list[str]) -> Floats | None:
    """The confusion matrix in each draw of whole clusters: (draws, labels, labels)."""
    drawn = resample(clusters)
    if drawn is None:
        return None
    by_cluster = np.zeros((drawn.weights.shape[1], size, size))
    np.add.at(by_cluster, (drawn.index, true, said), 1)
    counts: Floats = np.tensordot(drawn.weights, by_cluster, axes=1)
    return counts


def _figure(measure: Callable[[Floats], Floats], counts: Floats, draws: Floats | None) -> Estimate:
    return estimate(float(measure(counts[None])[0]), None if draws is None else measure(draws))


def _accuracy(counts: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        found: Floats = np.trace(counts, axis1=1, axis2=2) / counts.sum(axis=(1, 2))
    return found


def _macro_f1(counts: Floats) -> Floats:
    """Mean F1 over the labels that occur, as truth or as said."""
    hits = np.diagonal(counts, axis1=1, axis2=2)
    both = counts.sum(axis=1) + counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        found: Floats = np.nanmean(np.where(both > 0, 2 * hits / both, np.nan), axis=1)
    return found
