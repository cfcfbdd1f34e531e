"""Compare analyzers on held-out rows."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.lab.evidence.report_files import estimate_words, write_markdown_report
from okralong.lab.training.learners.calibration import (
    FieldFigures,
    Probabilities,
    at_temperature,
    calibration_error,
    confusion_table,
    field_figures,
    figure_table,
    figures_of,
    known_rows,
    probabilities,
)
from okralong.lab.training.recipe import UNKNOWN, Example
from okralong.lab.training.rows.tables import TrainingRow
from okralong.pipelines.answering.analyzers.analysis import FIELDS, AnalysisInput, Analyzer, read_temperatures
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.label_scorer import REPLY_TOKENS, prompt_ids, reply_ids
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import InputError
from okralong.pipelines.models.weights import SAFE, available_cores, causal_model, settle
from okralong.pipelines.reporting.tables import NONE, markdown_table


class LeftOut(Settings):
    """An analyzer that was trained with ``okralong train --leave-out`` for each of the ``sets``.

    ``beside`` is the name, in the report, of the analyzer that was trained on all sets.
    """

    sets: list[str] = Field(min_length=1)
    analyzer: AnalyzerConfig
    beside: str


class ReportConfig(Settings):
    """The analyzers that a report compares, as in ``configs/training/report.yaml``.

    ``analyzers`` has the analyzers by their names in the report; majority class and keyword rules are always included.
    ``timed`` is the number of questions that are timed with each batch size in ``batches``. ``written`` is the name of
    an analyzer (a label_scorer) whose base model is also timed as it writes its reply as text (null: none). ``sampled``
    has, for slow analyzers, the number of rows to use: the first in the test side's shuffled order. ``left_out`` has
    analyzers that were trained without certain sets, and are compared only on those sets.
    """

    analyzers: dict[str, AnalyzerConfig] = Field(min_length=1)
    timed: Annotated[int, Field(ge=1)] = 32
    batches: list[Annotated[int, Field(ge=1, le=256)]] = Field(default=[1, 16], min_length=1)
    written: str | None = None
    sampled: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    left_out: list[LeftOut] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        named = [("written", self.written), *(("sampled", name) for name in self.sampled)]
        named += [("left_out.beside", each.beside) for each in self.left_out]
        for key, name in named:
            if name is not None and name not in self.analyzers:
                raise ValueError(f"{key}: {name!r} is not one of the analyzers ({', '.join(self.analyzers)})")
        return self


ROUNDS: Final = 3  # project default
"""Number of times that each analyzer is timed, in turn with the others. The median is reported."""

Analyze = Callable[[Sequence[AnalysisInput]], Any]


def milliseconds(
    analyzers: Mapping[str, Analyze], asked: Sequence[AnalysisInput], batches: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Return the median time per question, by analyzer and batch size, after a warm-up pass.

    The analyzers are timed in turn, so that other load on the machine affects all of them alike.
    """
    for analyze in analyzers.values():
        analyze(asked[:1])
    found: dict[str, dict[int, list[float]]] = {name: {size: [] for size in batches} for name in analyzers}
    for _ in range(ROUNDS):
        for size in batches:
            for name, analyze in analyzers.items():
                found[name][size].append(_pass(analyze, asked, size))
    return {name: {size: statistics.median(times) for size, times in sizes.items()} for name, sizes in found.items()}


def _pass(analyze: Analyze, asked: Sequence[AnalysisInput], size: int) -> float:
    started = time.perf_counter()
    for first in range(0, len(asked), size):
        analyze(asked[first : first + size])
    return 1000 * (time.perf_counter() - started) / len(asked)


LABELS: Final = {"question-type": "multi-bridge", "info-type": "semantic", "containing": "yes"}
"""A reply of the usual length, which determines the number of tokens to write."""


class WritingModel:
    """A causal language model that writes the reply token by token, for comparison with scoring labels."""

    def __init__(self, model: str, threads: int | None = None) -> None:
        device, dtype = settle("auto", "auto", threads)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model, padding_side="left", trust_remote_code=False)
        loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **SAFE)
        self._model = loaded.to(device).eval()
        self._length = len(reply_ids(self._tokenizer, LABELS))
        self._limit = int(loaded.config.max_position_embeddings) - REPLY_TOKENS

    def write(self, batch: Sequence[AnalysisInput]) -> list[str]:
        """Write replies, each with as many tokens as ``REPLY``."""
        prompts = [prompt_ids(self._tokenizer, asked, self._limit) for asked in batch]
        width = max(map(len, prompts))
        pad = int(self._tokenizer.eos_token_id)
        ids = torch.tensor([[pad] * (width - len(each)) + each for each in prompts], device=self._model.device)
        mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts], device=ids.device)
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                min_new_tokens=self._length,
                max_new_tokens=self._length,
                do_sample=False,
                pad_token_id=pad,
            )
        replies: list[str] = self._tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
        return replies


MAJORITY = "majority class"
RULES = "keyword rules"
WRITING = "writing the JSON"


@dataclass(frozen=True)
class Report:
    """The figures of a comparison of analyzers.

    Attributes:
        rows: The number of test rows.
        figures: The figures of each field, by analyzer.
        uncalibrated: Calibration errors at temperature 1, by analyzer and field.
        by_source: The figures of the type, by analyzer and source.
        left_out: The figures of the type on sets that were left out of training, by these sets and analyzer.
        times: Milliseconds per question, by analyzer and batch size.
    """

    rows: int
    figures: Mapping[str, list[FieldFigures]]
    uncalibrated: Mapping[str, Mapping[str, float]]
    by_source: Mapping[str, Mapping[str, FieldFigures]]
    left_out: Mapping[str, Mapping[str, FieldFigures]]
    times: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class _Held:
    """Rows and examples that an analyzer is compared with."""

    rows: Sequence[TrainingRow]
    examples: Sequence[Example]

    def first(self, count: int | None) -> _Held:
        return _Held(self.rows[:count], self.examples[:count])

    def figures(self, said: Probabilities, sure: bool, at: Sequence[int] | None = None) -> list[FieldFigures]:
        at = range(len(self.rows)) if at is None else at
        documents = [self.rows[index].documents or (self.rows[index].query_id,) for index in at]
        return field_figures([self.examples[index] for index in at], documents, [each[at] for each in said], sure)


def analyzer_report(config: ReportConfig, test: Sequence[TrainingRow]) -> Report:
    """Measure every analyzer on ``test`` rows.

    The majority class is that of the test rows, the best possible constant. Raises ConfigError if an analyzer cannot be
    loaded, InputError if no row is from a set that was left out.
    """
    whole = _Held(test, [row.example for row in test])
    analyzers: dict[str, Analyzer] = {RULES: KeywordRules()}
    analyzers |= {name: load_analyzer(each) for name, each in config.analyzers.items()}
    held = {name: whole.first(config.sampled.get(name)) for name in (MAJORITY, *analyzers)}
    left_out = {", ".join(each.sets): _left_out(each, test, analyzers) for each in config.left_out}
    said: dict[str, Probabilities] = {MAJORITY: _majority(whole.examples)}
    for name, analyzer in analyzers.items():
        said[name] = probabilities(analyzer.analyze([each.asked for each in held[name].examples]))
    timed: dict[str, Analyze] = {name: analyzer.analyze for name, analyzer in analyzers.items()}
    if config.written is not None:
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
    """Return the calibration errors of the same analyzer at temperature 1."""
    folder = config.adapter_folder()
    if folder is None:
        return {}
    found = {}
    for number, ((key, _), temperature) in enumerate(zip(FIELDS, read_temperatures(folder), strict=True)):
        if known := known_rows(examples, number):
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


def write_analyzer_report(folder: Path, command: str, report: Report) -> list[Path]:
    """Write ``analyzers.md`` and ``analyzers.json``."""
    sizes = list(next(iter(report.times.values())))
    sources = sorted({source for found in report.by_source.values() for source in found})
    errors = []
    for name, raw in report.uncalibrated.items():
        cells = [f"{raw[f.key]:.3f} -> {f.calibration_error:.3f}" for f in report.figures[name] if f.key in raw]
        errors += [[name, *cells]] if raw else []
    sections = [
        "# Analyzers on test rows",
        f"`{command}`",
        f"{report.rows:,} rows of documents that no analyzer was trained on; where fewer are named, the first of a "
        "shuffled order. Intervals: 95 %, by document. The sets are subsets of the public ones. A macro-F1 is the mean "
        "over the labels that occur. The majority class is that of these rows.",
        figure_table(report.figures),
        "## Milliseconds per question on this machine, in one run",
        markdown_table(
            ["analyzer", *(f"ms a question, batch {size}" for size in sizes)],
            ([name, *(f"{by_size[size]:,.1f}" for size in sizes)] for name, by_size in report.times.items()),
        ),
        "## Accuracy of the type by source (rows)",
        markdown_table(
            ["analyzer", *sources],
            ([name, *(_counted(found.get(source)) for source in sources)] for name, found in report.by_source.items()),
        ),
    ]
    if report.left_out:
        lines = [
            [sets, f"{found['left out'].rows}", *(estimate_words(each.accuracy) for each in found.values())]
            for sets, found in report.left_out.items()
        ]
        head = ["sets", "rows", "trained without them", "with them", RULES]
        sections += ["## Accuracy of the type on sets left out of training", markdown_table(head, lines)]
    sections.append("## Calibration error before and after the temperatures")
    sections.append(markdown_table(["analyzer", *(key for key, _ in FIELDS)], errors))
    for name, figures in report.figures.items():
        if name != MAJORITY:
            for each, (_, labels) in zip(figures, FIELDS, strict=True):
                sections += [f"### {name}: {each.key}", confusion_table(each, labels)]
    return write_markdown_report(folder, "analyzers", sections, report)


def _counted(figures: FieldFigures | None) -> str:
    return NONE if figures is None else f"{figures.accuracy.value:.3f} ({figures.rows})"
