"""The figures of several analyzers on the same test rows, side by side, as a page and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzers.base import Analyzer
from okralong.pipelines.answering.analyzers.config import load_analyzer
from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules
from okralong.pipelines.models.embedded import causal_model
from okralong.pipelines.models.precision import available_cores
from okralong.pipelines.training.figures import FieldFigures, Probabilities, field_figures, probabilities
from okralong.pipelines.training.model_card import confusion_table, figure_table
from okralong.pipelines.training.recipe import UNKNOWN, Example
from okralong.pipelines.training.report_config import ReportConfig
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.timing import Analyze, milliseconds
from okralong.pipelines.training.trained import examples_of

MAJORITY = "majority class"
RULES = "keyword rules"
WRITING = "writing the JSON"


@dataclass(frozen=True)
class Report:
    """``figures`` by analyzer; ``by_source`` the type's figures by analyzer and source; ``times`` milliseconds a
    question by analyzer and batch size."""

    rows: int
    figures: Mapping[str, list[FieldFigures]]
    by_source: Mapping[str, Mapping[str, FieldFigures]]
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
    with_passages = [each for each in asked if each.passages][: config.timed]
    return Report(
        len(test),
        figures,
        {name: _by_source(test, examples, documents, each, name) for name, each in said.items()},
        milliseconds(timed, with_passages, config.batches),
    )


def write_analyzer_report(folder: Path, command: str, report: Report) -> list[Path]:
    """``analyzers.md`` and ``analyzers.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "analyzers.md", folder / "analyzers.json"
    page.write_text(_page(command, report), encoding="utf-8")
    data.write_text(json.dumps(_plain(asdict(report)), indent=1) + "\n", encoding="utf-8")
    return [page, data]


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


def _page(command: str, report: Report) -> str:
    sizes = list(next(iter(report.times.values())))
    times = [["analyzer", *(f"ms a question, batch {size}" for size in sizes)], ["---"] * (len(sizes) + 1)]
    times += [[name, *(f"{by_size[size]:,.1f}" for size in sizes)] for name, by_size in report.times.items()]
    sources = list(next(iter(report.by_source.values())))
    accuracy = [["analyzer", *sources], ["---"] * (len(sources) + 1)]
    for name, found in report.by_source.items():
        accuracy.append([name, *(f"{found[s].accuracy.value:.3f} ({found[s].rows})" for s in sources)])
    parts = [
        "# Analyzers on test rows",
        f"`{command}`",
        f"{report.rows:,} rows of documents that no analyzer was trained on. Intervals: 95 %, by document. "
        "The sets are subsets of the public ones. A macro-F1 is the mean over the labels that occur.",
        figure_table(report.figures),
        "## Milliseconds a question on this machine, in one run",
        _table(times),
        "## Accuracy of the type by source (rows)",
        _table(accuracy),
    ]
    for name, figures in report.figures.items():
        if name != MAJORITY:
            for each, (_, labels) in zip(figures, FIELDS, strict=True):
                parts += [f"### {name}: {each.key}", confusion_table(each, labels)]
    return "\n\n".join(parts) + "\n"


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
