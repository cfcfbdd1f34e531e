"""The figures of several analyzers on the same test rows, side by side, as a page and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from okralong.pipelines.answering.analysis import FIELDS, Analyzer, read_temperatures
from okralong.pipelines.answering.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzer_rules import KeywordRules
from okralong.pipelines.core.types import InputError
from okralong.pipelines.models.weights import available_cores, causal_model
from okralong.pipelines.training.calibrate import at_temperature, calibration_error
from okralong.pipelines.training.examples import UNKNOWN, Example
from okralong.pipelines.training.figures import FieldFigures, Probabilities, field_figures, probabilities
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


@dataclass(frozen=True)
class _Held:
    """What an analyzer is held against."""

    rows: Sequence[TrainingRow]
    examples: Sequence[Example]

    def first(self, count: int | None) -> _Held:
        return _Held(self.rows[:count], self.examples[:count])

    def figures(self, said: Probabilities, sure: bool, at: Sequence[int] | None = None) -> list[FieldFigures]:
        at = range(len(self.rows)) if at is None else at
        documents = [self.rows[index].documents or (self.rows[index].query_id,) for index in at]
        return field_figures([self.examples[index] for index in at], documents, [each[at] for each in said], sure)


def analyzer_report(config: ReportConfig, test: Sequence[TrainingRow]) -> Report:
    """Every analyzer on ``test`` rows; the majority class is the test rows' own, so that no constant does better.

    Raises ConfigError when an analyzer cannot be loaded, InputError when no row comes from a set that was left out.
    """
    whole = _Held(test, examples_of(test))
    analyzers: dict[str, Analyzer] = {RULES: KeywordRules()}
    analyzers |= {name: load_analyzer(each) for name, each in config.analyzers.items()}
    held = {name: whole.first(config.sampled.get(name)) for name in (MAJORITY, *analyzers)}
    left_out = {", ".join(each.sets): _left_out(each, test, analyzers) for each in config.left_out}
    said: dict[str, Probabilities] = {MAJORITY: _majority(whole.examples)}
    for name, analyzer in analyzers.items():
        said[name] = probabilities(analyzer.analyze([each.asked for each in held[name].examples]))
    timed: dict[str, Analyze] = {name: analyzer.analyze for name, analyzer in analyzers.items()}
    if config.written is not None:
        from okralong.pipelines.training.written import WritingModel  # brings torch and transformers: seconds

        timed[WRITING] = WritingModel(causal_model(config.analyzers[config.written].model), available_cores()).write
    with_passages = [each.asked for each in whole.examples if each.asked.passages]
    return Report(
        len(test),
        {name: held[name].figures(each, name != MAJORITY) for name, each in said.items()},
        {name: _uncalibrated(each, held[name].examples, said[name]) for name, each in config.analyzers.items()},
        {name: _by_source(held[name], each, name != MAJORITY) for name, each in said.items()},
        left_out,
        milliseconds(timed, with_passages[: config.timed], config.batches),
    )


def _majority(examples: Sequence[Example]) -> Probabilities:
    found = []
    for number, (_, labels) in enumerate(FIELDS):
        counts = Counter(each.labels[number] for each in examples if each.labels[number] != UNKNOWN)
        line = np.zeros((1, len(labels)))
        if counts:
            line[0, counts.most_common(1)[0][0]] = 1.0
        found.append(np.repeat(line, len(examples), axis=0))
    return found


def _by_source(held: _Held, said: Probabilities, sure: bool) -> dict[str, FieldFigures]:
    by_source: dict[str, list[int]] = {}
    for index, row in enumerate(held.rows):
        by_source.setdefault(row.source, []).append(index)
    return {source: held.figures(said, sure, at)[0] for source, at in by_source.items()}


def _uncalibrated(config: AnalyzerConfig, examples: Sequence[Example], said: Probabilities) -> dict[str, float]:
    """The calibration errors that the same analyzer has at temperature 1."""
    folder = config.adapter_folder()
    if folder is None:
        return {}
    found = {}
    for number, ((key, _), temperature) in enumerate(zip(FIELDS, read_temperatures(folder), strict=True)):
        known = [index for index, each in enumerate(examples) if each.labels[number] != UNKNOWN]
        if known:
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
