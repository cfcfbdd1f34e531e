"""An analyzer report as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.training.figures import FieldFigures
from okralong.pipelines.training.model_card import NONE, confusion_table, figure_table
from okralong.pipelines.training.report import MAJORITY, RULES, Report


def write_analyzer_report(folder: Path, command: str, report: Report) -> list[Path]:
    """``analyzers.md`` and ``analyzers.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "analyzers.md", folder / "analyzers.json"
    page.write_text(_page(command, report), encoding="utf-8")
    data.write_text(json.dumps(_plain(asdict(report)), indent=1) + "\n", encoding="utf-8")
    return [page, data]


def _page(command: str, report: Report) -> str:
    sizes = list(next(iter(report.times.values())))
    times = [["analyzer", *(f"ms a question, batch {size}" for size in sizes)], ["---"] * (len(sizes) + 1)]
    times += [[name, *(f"{by_size[size]:,.1f}" for size in sizes)] for name, by_size in report.times.items()]
    sources = sorted({source for found in report.by_source.values() for source in found})
    accuracy = [["analyzer", *sources], ["---"] * (len(sources) + 1)]
    for name, found in report.by_source.items():
        accuracy.append([name, *(_counted(found.get(source)) for source in sources)])
    parts = [
        "# Analyzers on test rows",
        f"`{command}`",
        f"{report.rows:,} rows of documents that no analyzer was trained on; where fewer are named, the first of a "
        "shuffled order. Intervals: 95 %, by document. The sets are subsets of the public ones. A macro-F1 is the mean "
        "over the labels that occur. The majority class is that of these very rows.",
        figure_table(report.figures),
        "## Milliseconds a question on this machine, in one run",
        _table(times),
        "## Accuracy of the type by source (rows)",
        _table(accuracy),
    ]
    if report.left_out:
        names = ["sets", "rows", "trained without them", "with them", RULES]
        lines = [names, ["---"] * len(names)]
        for sets, found in report.left_out.items():
            cells = [_interval(each) for each in found.values()]
            lines.append([sets, f"{found['left out'].rows}", *cells])
        parts += ["## Accuracy of the type on sets left out of training", _table(lines)]
    errors = [["analyzer", *(key for key, _ in FIELDS)], ["---"] * (len(FIELDS) + 1)]
    for name, raw in report.uncalibrated.items():
        cells = [f"{raw[f.key]:.3f} -> {f.calibration_error:.3f}" for f in report.figures[name] if f.key in raw]
        errors += [[name, *cells]] if raw else []
    parts += ["## Calibration error before and after the temperatures", _table(errors)]
    for name, figures in report.figures.items():
        if name != MAJORITY:
            for each, (_, labels) in zip(figures, FIELDS, strict=True):
                parts += [f"### {name}: {each.key}", confusion_table(each, labels)]
    return "\n\n".join(parts) + "\n"


def _counted(figures: FieldFigures | None) -> str:
    return NONE if figures is None else f"{figures.accuracy.value:.3f} ({figures.rows})"


def _interval(figures: FieldFigures) -> str:
    low, high = figures.accuracy.low, figures.accuracy.high
    return f"{figures.accuracy.value:.3f}" + ("" if low is None else f" [{low:.3f}, {high:.3f}]")


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
