"""The bench's figures as a page of markdown tables, a JSON file of the same, and the picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from okralong.pipelines.evaluation.evidence.config import PlainMethod, PolicyMethod, Sweep
from okralong.pipelines.evaluation.evidence.summary import Comparison, MethodFigures, SetFigures
from okralong.pipelines.reporting.statistics import Estimate

NONE: Final = "-"
"""Stands where a figure is not defined, or an end of an interval cannot be told."""


def write_report(
    folder: Path,
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> list[Path]:
    """A page (.md), its data (.json) and, where the sweep names methods to picture, the picture (.svg) in ``folder``.

    They bear the name of the sweep's file, ``source``, and where this is of the ``other_side`` than the file says, the
    side's. Returns their paths. ``overall`` is, by the name of the other method, each method against it over all sets.
    """
    from okralong.pipelines.evaluation.evidence.picture import Line, Panel, draw  # brings matplotlib, a second to load

    folder.mkdir(parents=True, exist_ok=True)
    name = f"{Path(source).stem}_{sweep.side}" if other_side else Path(source).stem
    page, data = folder / f"{name}.md", folder / f"{name}.json"
    page.write_text(markdown(source, sweep, sets, overall, other_side), encoding="utf-8")
    content = {
        "sweep": _dumped(sweep),
        "sets": [asdict(figures) for figures in sets],
        "overall": {other: {m: asdict(c) for m, c in by.items()} for other, by in overall.items()},
    }
    data.write_text(json.dumps(_rounded(content), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if not sweep.pictured:
        return [page, data]
    panels = []
    for figures in sets:
        lines = [Line(m, figures.methods[m].curve.tokens, figures.methods[m].curve.recall) for m in sweep.pictured]
        measured = f"{figures.measure} recall"
        panels.append(Panel(figures.name, figures.questions, figures.documents, lines, measured))
    picture = folder / f"{name}.svg"
    draw(picture, panels)
    return [page, data, picture]


def markdown(
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> str:
    """The whole page."""
    side = f" --side {sweep.side}" if other_side else ""
    parts = [
        f"# {sweep.title}",
        f"`okralong evidence {public_name(source)}{side} --data DATA --out benchmarks/results/evidence`",
        sweep.words.strip(),
        f"Side of the split: {sweep.side}. Intervals: 95 %, bootstrap over source documents, paired. Tokens are o200k. "
        "The sets are subsets of the published ones: scores are not comparable with any paper's. A dash: not "
        "reached, or not defined.",
        "Methods:\n\n" + "\n".join(f"- `{m}`: {_words(choice)}" for m, choice in sweep.methods.items()),
    ]
    if len(sets) > 1:
        parts += [f"## Mean over {len(sets)} sets, each counted alike", _mean_table(sweep, sets)]
    for other, by_method in overall.items():
        parts += [f"## Against {other}, mean over {len(sets)} sets", _comparison_table(by_method)]
    drawn = {f"{choice.name} {choice.part}": choice.limit for choice in sweep.sets if choice.limit is not None}
    for figures in sets:
        limit = f" (at most {drawn[figures.name]}, drawn with seed {sweep.seed})" if figures.name in drawn else ""
        parts += [
            f"## {figures.name}",
            f"{figures.questions} questions{limit} on {figures.documents} source documents; recall is "
            f"{figures.measure} recall.",
            _method_table(figures.methods),
        ]
        for versus, compared in figures.against.items():
            parts += [f"Against {versus}:", _comparison_table(compared)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _words(choice: PlainMethod | PolicyMethod) -> str:
    prefixed = f", queries embedded after {choice.query_prefix!r}" if choice.query_prefix else ""
    cut = "" if choice.boundaries == "sentences" else f", chunks cut at {choice.boundaries}"
    if isinstance(choice, PlainMethod):
        counts = ", ".join(map(str, choice.counts))
        points = f"(curve: {counts}){prefixed}{cut}"
        return f"{choice.count} chunks of {choice.granularity} tokens by {choice.retriever} {points}"
    changed = "".join(f", {key} = {value}" for key, value in choice.overrides.items())
    scales = ", ".join(f"{scale:g}" for scale in choice.scales)
    policy = f"{public_name(choice.policy)}{changed}"
    return f"{policy}; analyzer {choice.analyzer}, queries by {choice.writer} (scales: {scales}){prefixed}{cut}"


def public_name(source: str) -> str:
    """A config or model as a report may name it: of a path on this machine only the last part."""
    path = Path(source).expanduser()
    return path.name if path.is_absolute() else source


def _dumped(sweep: Sweep) -> dict[str, Any]:
    """The sweep as it was run."""
    content = sweep.model_dump()
    for key in ("catalog", "split", "scorer"):
        content[key] = public_name(content[key])
    for analyzer in content["analyzers"].values():
        for key in ("model", "adapter"):
            analyzer[key] = analyzer[key] and public_name(analyzer[key])
    for method in content["methods"].values():
        if "policy" in method:
            method["policy"] = public_name(method["policy"])
    return content


def _method_table(methods: Mapping[str, MethodFigures]) -> str:
    head = [
        "method",
        "tokens",
        "recall",
        "all evidence",
        "answer recall",
        "cells with heads",
        "queries",
        "all prompts",
        "workflows",
    ]
    rows = [
        [
            name,
            f"{each.tokens:,.0f}",
            _estimate(each.recall),
            _estimate(each.all_evidence),
            _plain(each.answer_recall),
            _plain(each.cells),
            f"{each.queries:.1f}",
            f"{each.prompt_tokens:,.0f}",
            ", ".join(f"{count} {workflow}" for workflow, count in sorted(each.workflows.items())),
        ]
        for name, each in methods.items()
    ]
    return _table(head, rows)


def _mean_table(sweep: Sweep, sets: Sequence[SetFigures]) -> str:
    rows = []
    for name in sweep.methods:
        each = [figures.methods[name] for figures in sets]
        tokens, recall = fmean(one.tokens for one in each), [one.recall.value for one in each]
        known = [value for value in recall if value is not None]
        rows.append([name, f"{tokens:,.0f}", _plain(fmean(known) if len(known) == len(each) else None)])
    return _table(["method", "tokens", "recall"], rows)


def _comparison_table(compared: Mapping[str, Comparison]) -> str:
    head = [
        "method",
        "tokens at its recall, ratio",
        "recall at its tokens, difference",
        "all evidence, ratio",
        "all evidence at ≤ half its tokens, ratio (tokens)",
    ]
    rows = []
    for name, each in compared.items():
        half = _estimate(each.half) + ("" if each.half_tokens is None else f" ({each.half_tokens:.2f})")
        rows.append(
            [
                name,
                _estimate(each.token_ratio),
                _estimate(each.recall_difference, signed=True),
                _estimate(each.all_evidence_ratio),
                half,
            ]
        )
    return _table(head, rows)


def _estimate(each: Estimate, signed: bool = False) -> str:
    if each.value is None:
        return NONE
    form = "+.3f" if signed else ".3f"
    if each.low is None and each.high is None:
        return format(each.value, form)
    low, high = (NONE if end is None else format(end, form) for end in (each.low, each.high))
    return f"{each.value:{form}} [{low}, {high}]"


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def _rounded(value: object) -> object:
    """Floats to six digits: a result file that changes only where a figure did."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
