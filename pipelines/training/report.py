"""The figures of several analyzers on the same test rows, side by side, as a page and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzers.base import Analyzer
from okralong.pipelines.answering.analyzers.calibration import read_temperatures
from okralong.pipelines.answering.analyzers.config import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules
from okralong.pipelines.errors import InputError
from okralong.pipelines.models.embedded import causal_model
from okralong.pipelines.models.precision import available_cores
from okralong.pipelines.training.calibrate import at_temperature, calibration_error
from okralong.pipelines.training.figures import FieldFigures, Probabilities, field_figures, probabilities
from okralong.pipelines.training.recipe import UNKNOWN, Example
from okralong.pipelines.training.report_config import LeftOut, ReportConfig
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.timing import Analyze, milliseconds
from okralong.pipelines.training.trained import examples_of, figures_of

MAJORITY = "majority class"
RULES = "keyword rules"
WRITING = "writing the JSON"


@dataclass(frozen=True)
class Report:
    """``figures`` by analyzer; ``uncalibrated`` the calibration errors by analyzer and field before temperatures;
    ``by_source`` the type's figures by analyzer and source; ``left_out`` the type's figures of analyzers on sets that
    they did not learn from, by "sets" and analyzer; ``times`` milliseconds a question by analyzer and batch size."""

    rows: int
    figures: Mapping[str, list[FieldFigures]]
    uncalibrated: Mapping[str, Mapping[str, float]]
    by_source: Mapping[str, Mapping[str, FieldFigures]]
    left_out: Mapping[str, Mapping[str, FieldFigures]]
    times: Mapping[str, Mapping[int, float]]


def analyzer_report(config: ReportConfig, train: Sequence[TrainingRow], test: Sequence[TrainingRow]) -> Report:
    """Every analyzer on ``test``; the majority class is that of ``train``. Raises ConfigError when one cannot load."""
    examples, documents = examples_of(test), [row.documents or (row.query_id,) for row in test]
    analyzers: dict[str, Analyzer] = {RULES: KeywordRules()}
    analyzers |= {name: load_analyzer(each) for name, each in config.analyzers.items()}
    said: dict[str, Probabilities] = {MAJORITY: _majority(examples_of(train), len(test))}
    asked = [each.asked for each in examples]
    said |= {name: probabilities(analyzer.analyze(asked)) for name, analyzer in analyzers.items()}
    figures = {name: field_figures(examples, documents, each, name != MAJORITY) for name, each in said.items()}
    timed: dict[str, Analyze] = {name: analyzer.analyze for name, analyzer in analyzers.items()}
    if config.written is not None:
        from okralong.pipelines.training.written import WritingModel  # brings torch and transformers: seconds

        timed[WRITING] = WritingModel(causal_model(config.analyzers[config.written].model), available_cores()).write
    # Dealt over the sources: those of one set are of one length.
    with_passages = [each for each in asked if each.passages]
    with_passages = with_passages[:: max(1, len(with_passages) // config.timed)][: config.timed]
    return Report(
        len(test),
        figures,
        {name: _uncalibrated(each, examples, said[name]) for name, each in config.analyzers.items()},
        {name: _by_source(test, examples, documents, each, name) for name, each in said.items()},
        {", ".join(each.sets): _left_out(each, test, analyzers) for each in config.left_out},
        milliseconds(timed, with_passages, config.batches),
    )


def _majority(train: Sequence[Example], rows: int) -> Probabilities:
    found = []
    for number, (_, labels) in enumerate(FIELDS):
        counts = Counter(each.labels[number] for each in train if each.labels[number] != UNKNOWN)
        line = np.zeros((1, len(labels)))
        line[0, counts.most_common(1)[0][0]] = 1.0
        found.append(np.repeat(line, rows, axis=0))
    return found


def _by_source(
    rows: Sequence[TrainingRow],
    examples: Sequence[Example],
    documents: Sequence[tuple[str, ...]],
    said: Probabilities,
    name: str,
) -> dict[str, FieldFigures]:
    found = {}
    for source in dict.fromkeys(row.source for row in rows):
        at = [index for index, row in enumerate(rows) if row.source == source]
        some = [examples[index] for index in at]
        figures = field_figures(some, [documents[index] for index in at], [each[at] for each in said], name != MAJORITY)
        found[source] = figures[0]
    return found


def _uncalibrated(config: AnalyzerConfig, examples: Sequence[Example], said: Probabilities) -> dict[str, float]:
    """The calibration errors that the same analyzer has at temperature 1."""
    folder = config.adapter_folder()
    if folder is None:
        return {}
    found = {}
    for number, ((key, _), temperature) in enumerate(zip(FIELDS, read_temperatures(folder), strict=True)):
        known = [index for index, each in enumerate(examples) if each.labels[number] != UNKNOWN]
        raw = at_temperature(said[number][known], 1 / temperature)
        found[key] = calibration_error(raw, [examples[index].labels[number] for index in known])
    return found


def _left_out(
    choice: LeftOut, test: Sequence[TrainingRow], analyzers: Mapping[str, Analyzer]
) -> dict[str, FieldFigures]:
    rows = [row for row in test if row.set_name in choice.sets]
    if not rows:
        raise InputError(f"left_out: no test row comes from {', '.join(choice.sets)}.")
    held = {"left out": load_analyzer(choice.analyzer)}
    held |= {name: analyzers[name] for name in (choice.beside, RULES)}
    return {name: figures_of(analyzer, rows)[0] for name, analyzer in held.items()}
