"""Write the evidence bench's report: a page, its data and its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from okralong.lab.evidence.config import PlainMethod, PolicyMethod, Sweep
from okralong.lab.evidence.figures import Comparison, MethodFigures, SetFigures
from okralong.lab.evidence.pictures import RecallLine, RecallPanel, draw_recall
from okralong.lab.evidence.report_files import estimate_words, write_markdown_report
from okralong.pipelines.core.wording import counted
from okralong.pipelines.reporting.tables import NONE, markdown_table


def write_report(
    folder: Path,
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> list[Path]:
    """Write a page (.md), its data (.json) and, if the sweep has ``pictured``, a picture (.svg) to ``folder``.

    The files are named after the sweep's file, ``source``. If the sweep ran on ``other_side`` than the file says, the
    side is appended. ``overall`` has the comparisons over all sets: the name of the method in ``against``, then that of
    the compared method. Returns the paths.
    """
    name = f"{Path(source).stem}_{sweep.side}" if other_side else Path(source).stem
    content = {
        "sweep": _dumped(sweep),
        "sets": [asdict(figures) for figures in sets],
        "overall": {other: {m: asdict(c) for m, c in by.items()} for other, by in overall.items()},
    }
    written = write_markdown_report(
        folder, name, [markdown(source, sweep, sets, overall, other_side).rstrip("\n")], _rounded(content)
    )
    if not sweep.pictured:
        return written
    panels = []
    for figures in sets:
        curves = {method: figures.methods[method].curve for method in sweep.pictured}
        lines = [RecallLine(method, curve.tokens, curve.recall) for method, curve in curves.items()]
        measured = f"{figures.measure} recall"
        panels.append(RecallPanel(figures.name, figures.questions, figures.documents, lines, measured))
    picture = folder / f"{name}.svg"
    draw_recall(picture, panels)
    return [*written, picture]


def markdown(
    source: str,
    sweep: Sweep,
    sets: Sequence[SetFigures],
    overall: Mapping[str, Mapping[str, Comparison]],
    other_side: bool = False,
) -> str:
    """Return the whole page."""
    side = f" --side {sweep.side}" if other_side else ""
    parts = [
        f"# {sweep.title}",
        f"`okralong evidence {public_name(source)}{side} --data DATA --out benchmarks/results/evidence`",
        sweep.words.strip(),
        f"Side of the split: {sweep.side}. Intervals: 95 %, bootstrap over source documents, paired. Tokens are o200k. "
        "The sets are subsets of the published ones: scores are not comparable with any paper's. A dash: not "
        "reached, or not defined; a mean without a set: not on that set.",
        "Methods:\n\n" + "\n".join(f"- `{m}`: {_words(choice)}" for m, choice in sweep.methods.items()),
    ]
    held = {figures.name for figures in sets}
    if lost := [name for choice in sweep.sets if (name := f"{choice.name} {choice.part}") not in held]:
        parts.append(f"Left out, since it could not be read: {', '.join(lost)}.")
    if len(sets) > 1:
        parts += [f"## Mean over {len(sets)} sets, each counted alike", _mean_table(sweep, sets)]
    for other, by_method in overall.items():
        parts += [f"## Against {other}, mean over {counted(len(sets), 'set')}", _comparison_table(by_method)]
    drawn = {f"{choice.name} {choice.part}": choice.limit for choice in sweep.sets if choice.limit is not None}
    for figures in sets:
        limit = f" (at most {drawn[figures.name]}, drawn with seed {sweep.seed})" if figures.name in drawn else ""
        parts += [
            f"## {figures.name}",
            f"{counted(figures.questions, 'question')}{limit} on {counted(figures.documents, 'source document')}; "
            f"recall is {figures.measure} recall.",
            _method_table(figures.methods, sweep.at_tokens),
        ]
        for versus, compared in figures.against.items():
            parts += [f"Against {versus}:", _comparison_table(compared)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _words(choice: PlainMethod | PolicyMethod) -> str:
    prefixed = f", queries embedded after {choice.query_prefix!r}" if choice.query_prefix else ""
    if isinstance(choice, PlainMethod):
        counts = ", ".join(map(str, choice.counts))
        points = f"(curve: {counts}){prefixed}"
        return f"{choice.count} chunks of {choice.granularity} tokens by {choice.retriever} {points}"
    changed = "".join(f", {key} = {value}" for key, value in choice.overrides.items())
    scales = ", ".join(f"{scale:g}" for scale in choice.scales)
    policy = f"{public_name(choice.policy)}{changed}"
    labels = "".join(f" with {field} {label}" for field, label in choice.labels.items())
    return f"{policy}; analyzer {choice.analyzer}{labels}, queries by {choice.writer} (scales: {scales}){prefixed}"


def public_name(source: str) -> str:
    """Return the name of a config or model for a report; of an absolute path, only the last part."""
    path = Path(source).expanduser()
    return path.name if path.is_absolute() else source


def _dumped(sweep: Sweep) -> dict[str, Any]:
    """Return the sweep's keys as JSON values, as they were run."""
    content = sweep.model_dump()
    for key in ("catalog", "split"):
        content[key] = public_name(content[key])
    for analyzer in content["analyzers"].values():
        for key in ("model", "adapter"):
            analyzer[key] = analyzer[key] and public_name(analyzer[key])
    for method in content["methods"].values():
        if "policy" in method:
            method["policy"] = public_name(method["policy"])
    return content


def _method_table(methods: Mapping[str, MethodFigures], at_tokens: int | None) -> str:
    head = ["method", "tokens", "recall", "all evidence", "answer recall", "cells with heads"]
    if at_tokens is not None:
        head += [f"recall within {at_tokens:,}", f"answer recall within {at_tokens:,}"]
    head += ["queries", "all prompts", "workflows"]
    rows = [
        [
            name,
            f"{each.tokens:,.0f}",
            estimate_words(each.recall),
            estimate_words(each.all_evidence),
            _plain(each.answer_recall),
            _plain(each.cells),
            *([] if at_tokens is None else [_plain(each.recall_within), _plain(each.answer_recall_within)]),
            f"{each.queries:.1f}",
            f"{each.prompt_tokens:,.0f}",
            ", ".join(f"{count} {workflow}" for workflow, count in sorted(each.workflows.items())),
        ]
        for name, each in methods.items()
    ]
    return markdown_table(head, rows)


def _mean_table(sweep: Sweep, sets: Sequence[SetFigures]) -> str:
    rows = []
    for name in sweep.methods:
        each = [figures.methods[name] for figures in sets]
        tokens, recall = fmean(one.tokens for one in each), [one.recall.value for one in each]
        known = [value for value in recall if value is not None]
        rows.append([name, f"{tokens:,.0f}", _plain(fmean(known) if len(known) == len(each) else None)])
    return markdown_table(["method", "tokens", "recall"], rows)


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
        half = estimate_words(each.half) + ("" if each.half_tokens is None else f" ({each.half_tokens:.2f})")
        cells = {
            "token_ratio": estimate_words(each.token_ratio),
            "recall_difference": estimate_words(each.recall_difference, "+.3f"),
            "all_evidence_ratio": estimate_words(each.all_evidence_ratio),
            "half": half,
        }
        without = {figure: f" without {', '.join(names)}" for figure, names in each.left_out.items()}
        rows.append([name, *(words + without.get(figure, "") for figure, words in cells.items())])
    return markdown_table(head, rows)


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _rounded(value: object) -> object:
    """Round floats to six digits, so that result files change only where figures do. Also drop ``n`` of estimates."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items() if key != "n"}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    return value
