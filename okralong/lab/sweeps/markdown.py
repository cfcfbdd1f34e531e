"""Write summaries and differences as Markdown: a table per set, a row per system or cell, a column per metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from okralong.lab.sweeps.config import DEFAULT
from okralong.lab.sweeps.statistics import ResultRow
from okralong.pipelines.reporting.statistics import Floats
from okralong.pipelines.reporting.tables import NONE, markdown_table

SHOWN: Final[Mapping[str, str]] = {
    "f1": "F1",
    "em": "EM",
    "rouge_l": "ROUGE-L",
    "numeric": "number",
    "judge": "judge",
    "judge_relevance": "relevance",
    "judge_correctness": "correctness",
    "judge_similarity": "similarity",
    "judge_faithfulness": "faithfulness",
    "answer_recall": "answer recall",
    "evidence_recall": "evidence recall",
    "citation_precision": "citation precision",
    "value_mark": "value",
    "page_mark": "pages",
    "weighted_tokens": "tokens",
    "alone_usd": "dollars alone",
    "seconds_total": "seconds",
    "seconds_first_token": "first token, s",
    "seconds_indexing": "indexing, s",
    "tokens_per_second": "tokens/s",
}
"""The metrics on the page, with their column heads. The Parquet and CSV files have all metrics."""

TIMES: Final = ("seconds_first_token", "seconds_indexing", "tokens_per_second")
"""Metrics that are only shown on the pages of sweeps about time, which share no replies."""

_WORDS: Final = (
    "Means over questions with 95 % intervals from a bootstrap over documents. Tokens are input + 4 x output, of a "
    "question; dollars alone are what the method costs when it shares no replies. A dash: not defined, or too few "
    "documents to tell."
)
_PAIRED_WORDS: Final = (
    "Means of differences on the same questions, with 95 % intervals from a bootstrap over documents; in brackets the "
    "p-value of a sign-flip test over documents after Holm's correction. Its families are all single sets, the mean "
    "over the sets, and the types, each for one metric. A dash: not defined, or too few documents to tell."
)


def summary_page(title: str, words: str, rows: Sequence[ResultRow], *, times: bool = False) -> str:
    """Return the page for rows of the table ``summary``; with ``times``, it has the metrics ``TIMES``."""
    rows = [row for row in rows if times or row["metric"] not in TIMES]
    parts = [f"# {title}", *([words.strip()] if words.strip() else []), _WORDS]
    for name in in_order(row["set"] for row in rows):
        own = [row for row in rows if row["set"] == name and not row["type"]]
        parts += [f"## {name or 'Mean over the sets'}", _grid(own, _system, _valued)]
        by_type = [row for row in rows if row["set"] == name and row["type"]]
        if len({row["type"] for row in by_type}) > 1:
            parts += ["By type:", _grid(by_type, lambda row: f"{_system(row)}: {row['type']}", _valued)]
    return "\n\n".join(parts) + "\n"


_AGREEMENT_WORDS: Final = (
    "Questions that the judge has marked, all methods together. Agree: its yes is an exact match, its no is none; "
    "kappa is Cohen's, which takes out what would agree by chance. Beside F1: the correlation (Pearson's r) of the "
    "verdict, and of the mark for correctness where there is one."
)


def agreement_page(rows: Sequence[ResultRow]) -> str:
    """Return the section on how the judge's verdicts agree with exact match and F1, set by set; "" without a judge."""
    lines = []
    for name in in_order(row["set"] for row in rows):
        judged = [row for row in rows if row["set"] == name and row["judge"] is not None]
        if not judged:
            continue
        verdict, em, f1 = (np.array([float(row[column]) for row in judged]) for column in ("judge", "em", "f1"))
        marked = [row for row in judged if row["judge_correctness"] is not None]
        correct = np.array([row["judge_correctness"] for row in marked])
        beside = np.array([float(row["f1"]) for row in marked])
        right = (verdict > 0.5).astype(float)  # the majority of several seeds
        agree = float((right == (em == 1)).mean())
        figures = (verdict.mean(), em.mean(), agree, kappa(right, em == 1), r_of(verdict, f1), r_of(correct, beside))
        lines.append([name, f"{len(judged):,}", *(shown_number(None if f is None else float(f)) for f in figures)])
    if not lines:
        return ""
    head = ["", "marked", "judge", "EM", "agree", "kappa", "r of judge and F1", "r of correctness and F1"]
    table = markdown_table(head, lines, range(1, len(head)))
    return f"\n## The judge beside exact match and F1\n\n{_AGREEMENT_WORDS}\n\n{table}\n"


def kappa(one: Floats, other: Any) -> float | None:
    """Return Cohen's kappa of two lists of 0 and 1, or None if both are constant and equal."""
    agree = float((one == other).mean())
    yes, also = float(one.mean()), float(np.asarray(other, dtype=float).mean())
    chance = yes * also + (1 - yes) * (1 - also)
    return None if chance == 1 else (agree - chance) / (1 - chance)


def r_of(one: Floats, other: Floats) -> float | None:
    """Return Pearson's correlation, or None for fewer than three pairs or a constant side."""
    if len(one) < 3 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


_SEEDS_WORDS: Final = (
    "What the judge said with each of its seeds: the mean over the sets, each of its answers; in brackets the position "
    "of the system among the others by that mark. Then the sample variance of these means over the seeds, and the mean "
    "of the sample variances of single answers."
)


def seeds_page(rows: Sequence[ResultRow]) -> str:
    """Return the section on how much the judge's marks vary over its seeds; "" for a single seed."""
    spoken = [row | {"by_seed": dict(row["judge_seeds"])} for row in map(dict, rows) if row.get("judge_seeds")]
    parts = []
    for mark in in_order(name for row in spoken for name in row["by_seed"]):
        held = [row for row in spoken if mark in row["by_seed"]]
        count = min(len(row["by_seed"][mark]) for row in held)
        systems = in_order((row["method"], row["variant"]) for row in held)
        means, apart = {}, {}
        for system in systems:
            own = [row for row in held if (row["method"], row["variant"]) == system]
            given = [
                np.array([row["by_seed"][mark][:count] for row in own if row["set"] == name])
                for name in in_order(row["set"] for row in own)
            ]
            means[system] = np.mean([each.mean(axis=0) for each in given], axis=0)
            apart[system] = float(np.mean([each.var(axis=1, ddof=1).mean() for each in given]))
        lines = []
        for system in systems:
            positions = [1 + sum(other[at] > means[system][at] for other in means.values()) for at in range(count)]
            cells = (f"{shown_number(float(v))} ({p})" for v, p in zip(means[system], positions, strict=True))
            spread = float(means[system].var(ddof=1))
            lines.append([system_name(*system), *cells, f"{spread:.6f}", f"{apart[system]:.6f}"])
        head = ["", *(f"seed {number}" for number in range(1, count + 1)), "variance of the mean", "of an answer"]
        parts.append(f"{mark}:\n\n{markdown_table(head, lines, range(1, len(head)))}")
    if not parts:
        return ""
    return f"\n## The judge over its seeds\n\n{_SEEDS_WORDS}\n\n" + "\n\n".join(parts) + "\n"


_INDEXING_WORDS: Final = (
    "What a method has the generator write once for all questions of a cell, such as summaries of the documents, in "
    "calls of the ledger that no question's tokens and dollars above hold. Dollars alone: if no reply came from "
    "another run."
)


def indexing_page(rows: Sequence[ResultRow]) -> str:
    """Return the section on artifacts, which are written once per document; "" if there are none."""
    if not rows:
        return ""
    head = ["", "set", "written", "calls", "prompt tokens", "completion tokens", "dollars alone"]
    counted = ("artifacts", "calls", "prompt_tokens", "completion_tokens")
    lines = [
        [_system(row), row["set"], *(f"{row[name]:,}" for name in counted), shown_number(row["alone_usd"])]
        for row in rows
    ]
    table = markdown_table(head, lines, range(2, len(head)))
    return f"\n## Written once for the documents\n\n{_INDEXING_WORDS}\n\n{table}\n"


def paired_page(title: str, rows: Sequence[ResultRow]) -> str:
    """Return the page for rows of the table ``paired``."""
    parts = [f"# {title}: paired differences", _PAIRED_WORDS]
    if not rows:
        parts.append("There is nothing to compare.")
    for other in in_order((row["against_method"], row["against_variant"]) for row in rows):
        against = [row for row in rows if (row["against_method"], row["against_variant"]) == other]
        parts.append(f"## Less {system_name(*other)}")
        for name, typed in in_order((row["set"], bool(row["type"])) for row in against):
            own = [row for row in against if (row["set"], bool(row["type"])) == (name, typed)]
            head = name or ("Mean over the sets, by type" if typed else "Mean over the sets")
            named = (lambda row: f"{_system(row)}: {row['type']}") if typed else _system
            parts += [f"### {head}", _grid(own, named, _differing)]
    return "\n\n".join(parts) + "\n"


def shown_number(value: float | None) -> str:
    """Format a number: three decimals for shares, else four significant digits, and no decimals from 100 on."""
    if value is None:
        return NONE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.2g}"


def _grid(rows: Sequence[ResultRow], named: Callable[[ResultRow], str], shown: Callable[[ResultRow], str]) -> str:
    metrics = [metric for metric in SHOWN if any(row["metric"] == metric for row in rows)]
    cells: dict[str, dict[str, ResultRow]] = {}
    for row in rows:
        cells.setdefault(named(row), {})[row["metric"]] = row
    lines = []
    for name, by_metric in cells.items():
        n = max(row["n"] for row in by_metric.values())
        lines.append([name, f"{n:,}", *(shown(by_metric[m]) if m in by_metric else NONE for m in metrics)])
    head = ["", "questions", *(SHOWN[metric] for metric in metrics)]
    return markdown_table(head, lines, range(1, len(head)))


def _valued(row: ResultRow) -> str:
    return f"{shown_number(row['value'])}{_interval(row)}"


def _differing(row: ResultRow) -> str:
    difference = row["difference"]
    sign = "+" if difference is not None and difference > 0 else ""
    p = "" if row["p_holm"] is None else f" ({shown_number(row['p_holm'])})"
    return f"{sign}{shown_number(difference)}{_interval(row)}{p}"


def _interval(row: ResultRow) -> str:
    if row["low"] is None and row["high"] is None:
        return ""
    return f" [{shown_number(row['low'])}, {shown_number(row['high'])}]"


def _system(row: ResultRow) -> str:
    name, seed = system_name(row["method"], row["variant"]), row.get("seed")
    return name if seed is None else f"{name}, seed {seed}"


def system_name(method: str, variant: str) -> str:
    """Return the name of a method with a variant, as tables print it."""
    return method if variant == DEFAULT else f"{method} ({variant})"


def in_order(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values, in the order in which they first appear."""
    return list(dict.fromkeys(values))
