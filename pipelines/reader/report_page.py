"""A reader report as Markdown and as JSON. Figures alone: the rows hold texts of the sets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from okralong.pipelines.reader.figures import FIGURES
from okralong.pipelines.reader.report import ReaderReport
from okralong.pipelines.reader.report_config import TRIVIAL
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.training.model_card import NONE


def write_reader_report(folder: Path, command: str, report: ReaderReport) -> list[Path]:
    """``reader.md`` and ``reader.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "reader.md", folder / "reader.json"
    page.write_text(_page(command, report), encoding="utf-8")
    data.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")
    return [page, data]


def _page(command: str, report: ReaderReport) -> str:
    kinds = list(dict.fromkeys(kind for found in report.by_kind.values() for kind in found))
    roles = list(dict.fromkeys(role for found in report.formed.values() for role in found))
    parts = [
        "# Readers on test rows",
        f"`{command}`",
        f"{report.rows:,} answer prompts over documents of the test side, of which no reader saw one; every reader is "
        "shown the same passages. Intervals: 95 %, questions on the same documents drawn together. The sets are "
        f"subsets of the public ones. *{TRIVIAL}* is no model: the sentence of the passages whose embedding is "
        "nearest to the question's. Where the gold answer is a number, an answer that is a number within 1 % of it "
        "has F1 and EM 1. "
        "Evidence is in view when all gold pieces are, or a quarter of a summary's. A citation is right when it "
        "touches gold evidence. Readers differ in what they are shown beside the passages, too: "
        + "; ".join(f"{name}: {_terms(terms)}" for name, terms in report.terms.items())
        + ".",
        _estimates("figure", list(FIGURES), report.figures),
        f"## Gains over {report.base}, paired",
        _estimates("figure", list(FIGURES), report.gains),
        "## F1 with the evidence in view, by type and by set (rows)",
        _estimates("kind", kinds, report.by_kind),
        "## Calculations: the gold number, asked for the expression (which the executor works out) or for the result",
        _estimates("asked for", ["expression", "result"], report.arithmetic),
        "## Replies of the right form to the letter, by role (asked)",
        _table(
            [["role", *report.formed], ["---"] * (len(report.formed) + 1)]
            + [[role, *(_share(found.get(role)) for found in report.formed.values())] for role in roles]
        ),
        "## Speed on this machine, one answer after the other",
        _table(
            [["reader", "seconds an answer", "tokens/s read", "tokens/s written"], ["---"] * 4]
            + [
                [name, f"{each.seconds:.1f}", _rate(each.read), _rate(each.written)]
                for name, each in report.speed.items()
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _estimates(first: str, keys: Sequence[str], found: Mapping[str, Mapping[str, Estimate]]) -> str:
    lines = [[first, *found], ["---"] * (len(found) + 1)]
    return _table(lines + [[key, *(_interval(each.get(key)) for each in found.values())] for key in keys])


def _terms(terms: Mapping[str, bool]) -> str:
    return ", ".join(key if value else f"no {key}" for key, value in terms.items())


def _rate(tokens: float | None) -> str:
    return NONE if tokens is None else f"{tokens:,.0f}"


def _interval(each: Estimate | None) -> str:
    if each is None or each.value is None:
        return NONE
    low, high = (NONE if end is None else f"{end:.3f}" for end in (each.low, each.high))
    return f"{each.value:.3f} [{low}, {high}]"


def _share(found: tuple[float, int] | None) -> str:
    return NONE if found is None else f"{found[0]:.3f} ({found[1]})"


def _table(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
