"""Calibrate and measure an analyzer's probabilities: temperatures, calibration error, accuracy, macro-F1, confusion.

The logits of a field are divided by its temperature, so that labels with probability 0.8 are right in 8 of 10 cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np
import numpy.typing as npt

from okralong.lab.evidence.report_files import estimate_words
from okralong.lab.training.recipe import UNKNOWN, Example
from okralong.pipelines.answering.analyzers.analysis import FIELDS, Analyzer, Temperatures, write_temperatures
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.core.types import Analysis
from okralong.pipelines.reporting.statistics import Estimate, Floats, estimate, joined_by_documents, resample
from okralong.pipelines.reporting.tables import NONE, markdown_table

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import TrainingRow

_GRID: Final = np.geomspace(0.25, 8.0, 161)  # project default
"""The temperatures that are tried, in steps of 2 %."""

BINS: Final = 10
"""Number of bins, of equal width, for the expected calibration error (Guo et al. 2017, section 3)."""


Probabilities = list[npt.NDArray[np.float64]]
"""The probabilities of the three fields: an array of shape (questions, labels) for each."""


def calibrate(
    config: AnalyzerConfig, folder: Path, validation: Sequence[Example], precision: str = "float32"
) -> Temperatures:
    """Measure the temperature of each field on ``validation``, and write them next to the weights in ``folder``.

    ``config`` is that of the analyzer in the folder.
    """
    write_temperatures(folder, (1.0, 1.0, 1.0))
    said = probabilities(load_analyzer(config, precision).analyze([each.asked for each in validation]))
    found = []
    for number in range(len(FIELDS)):
        known = known_rows(validation, number)
        found.append(best_temperature(said[number][known], [validation[index].labels[number] for index in known]))
    temperatures = cast(Temperatures, tuple(found))
    write_temperatures(folder, temperatures)
    return temperatures


def known_rows(examples: Sequence[Example], number: int) -> list[int]:
    """Return the indexes of the examples that have a label in field ``number``."""
    return [index for index, each in enumerate(examples) if each.labels[number] != UNKNOWN]


def best_temperature(probabilities: Floats, labels: Sequence[int]) -> float:
    """Return the temperature with the least loss on ``labels``, given probabilities (n, k) at temperature 1."""
    if not len(labels):
        return 1.0
    logits = np.log(np.clip(probabilities, 1e-12, None))
    rows = np.arange(len(labels))

    def loss(temperature: float) -> float:
        return float(-np.log(np.clip(_softmax(logits / temperature)[rows, list(labels)], 1e-12, None)).mean())

    return float(min(_GRID, key=loss))


def at_temperature(probabilities: Floats, temperature: float) -> Floats:
    """Return the same probabilities at another temperature."""
    return _softmax(np.log(np.clip(probabilities, 1e-12, None)) / temperature)


def calibration_error(probabilities: Floats, labels: Sequence[int]) -> float:
    """Return the expected calibration error of the most probable label, 0 to 1.

    It is the mean gap between confidence and accuracy over bins.
    """
    confidence = probabilities.max(axis=1)
    hit = probabilities.argmax(axis=1) == np.array(labels)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [(bins == b).mean() * abs(hit[bins == b].mean() - confidence[bins == b].mean()) for b in np.unique(bins)]
    return float(sum(gaps))


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    normal: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return normal


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """The figures of a field over the ``rows`` rows whose label is known.

    ``confusion`` has a row per true label and a column per predicted label. ``calibration_error`` is 0 to 1, or None
    for an analyzer without probabilities.
    """

    key: str
    rows: int
    accuracy: Estimate
    macro_f1: Estimate
    calibration_error: float | None
    confusion: tuple[tuple[int, ...], ...]


def probabilities(analyses: Sequence[Analysis]) -> Probabilities:
    """Return the probabilities of analyses as arrays, in the order of ``FIELDS``."""
    types = [[each.type_probabilities[label] for label in FIELDS[0][1]] for each in analyses]
    patterns = [[each.pattern_probabilities[label] for label in FIELDS[1][1]] for each in analyses]
    held = [each.evidence_probability or 0.0 for each in analyses]
    evidence = [[each, 1 - each] for each in held]
    return [np.array(rows, dtype=np.float64) for rows in (types, patterns, evidence)]


def field_figures(
    examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Probabilities, sure: bool = True
) -> list[FieldFigures]:
    """Return the figures of the three fields. For intervals, questions that share a document are drawn together.

    If ``sure`` is false, there are no probabilities.
    """
    return [_field(n, examples, documents, said[n], sure) for n in range(len(FIELDS))]


def _field(
    number: int, examples: Sequence[Example], documents: Sequence[tuple[str, ...]], said: Floats, sure: bool
) -> FieldFigures:
    known = known_rows(examples, number)
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
    """Return the confusion matrix in each draw of whole clusters, shape (draws, labels, labels)."""
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
    """Return the mean F1 over the labels that occur, as true or as predicted labels."""
    hits = np.diagonal(counts, axis1=1, axis2=2)
    both = counts.sum(axis=1) + counts.sum(axis=2)
    with np.errstate(invalid="ignore"):
        found: Floats = np.nanmean(np.where(both > 0, 2 * hits / both, np.nan), axis=1)
    return found


def figures_of(analyzer: Analyzer, rows: Sequence[TrainingRow]) -> list[FieldFigures]:
    """Return the figures of an analyzer on rows."""
    examples = [row.example for row in rows]
    said = probabilities(analyzer.analyze([each.asked for each in examples]))
    return field_figures(examples, [row.documents or (row.query_id,) for row in rows], said)


def figure_table(figures: Mapping[str, Sequence[FieldFigures]]) -> str:
    """Return a table with a line per analyzer and field. Intervals are 95 %, from draws of documents."""
    lines = []
    for name, fields in figures.items():
        for each in fields:
            error = NONE if each.calibration_error is None else f"{each.calibration_error:.3f}"
            numbers = [estimate_words(each.accuracy), estimate_words(each.macro_f1), error]
            lines.append([name, each.key, f"{each.rows:,}", *numbers])
    return markdown_table(["analyzer", "field", "rows", "accuracy", "macro-F1", "calibration error"], lines)


def confusion_table(figures: FieldFigures, labels: Sequence[str]) -> str:
    """Return a table with a row per true label and a column per predicted label."""
    lines = ([label, *map(str, row)] for label, row in zip(labels, figures.confusion, strict=True))
    return markdown_table(["true \\ said", *labels], lines)
