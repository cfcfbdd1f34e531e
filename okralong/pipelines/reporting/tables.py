"""Tables of reports: typed columns, cells with intervals, and their formats (page, Parquet, CSV, Markdown)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.reporting.charts import Groups, stages_of
from okralong.pipelines.reporting.rows import ACCURACY, MEASURES, Row, as_seen, is_formula, known_measures, plain
from okralong.pipelines.reporting.statistics import Estimate

Kind = Literal["text", "count", "share", "tokens", "usd", "seconds", "number"]
Better = Literal["", "more", "less"]
Cell = str | int | float | Estimate | None
NONE: Final = "-"
"""Shown for figures that are unknown or undefined."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``key`` is its name in files; ``better`` says whether to mark the largest or smallest figure."""

    key: str
    label: str
    kind: Kind = "text"
    better: Better = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a ``note`` that explains its figures."""

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def number(kind: Kind, value: float | None) -> str:
    """Format a figure for readers."""
    if value is None:
        return NONE
    if kind == "share":
        return f"{value:.3f}"
    if kind == "number":
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if kind == "usd":
        return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.4f}"
    if kind == "seconds":
        return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
    return f"{value:,.0f}"


def written(column: Column, cell: Cell) -> tuple[str, str]:
    """Format a cell: its figure, and its interval or ""."""
    if isinstance(cell, str):
        return cell, ""
    if not isinstance(cell, Estimate):
        return number(column.kind, cell), ""
    if cell.low is None and cell.high is None:
        return number(column.kind, cell.value), ""
    return number(column.kind, cell.value), f"{number(column.kind, cell.low)} to {number(column.kind, cell.high)}"


def best_rows(table: Table, at: int) -> set[int]:
    """Return the rows with the best figure in column ``at``; none if the column has no ``better``."""
    better = table.columns[at].better
    values = {n: _value(row[at]) for n, row in enumerate(table.rows)}
    known = {n: value for n, value in values.items() if value is not None}
    if not better or len(known) < 2:
        return set()
    best = max(known.values()) if better == "more" else min(known.values())
    return {n for n, value in known.items() if value == best}


def for_page(table: Table) -> dict[str, Any]:
    """Return the table as JSON for the page, with cells ``[text, interval, 1 if best]``."""
    best = [best_rows(table, at) for at in range(len(table.columns))]
    rows = [
        [[*written(column, row[at]), int(n in best[at])] for at, column in enumerate(table.columns)]
        for n, row in enumerate(table.rows)
    ]
    columns = [[column.label, "text" if column.kind == "text" else "number"] for column in table.columns]
    return {
        "name": table.name,
        "title": table.title,
        "note": table.note,
        "columns": columns,
        "rows": rows,
    }


def _value(cell: Cell) -> float | None:
    if isinstance(cell, Estimate):
        return cell.value
    return cell if isinstance(cell, (int, float)) else None


# --------
# The table of all questions, for analysis with other tools.


def question_table(rows: Sequence[Row]) -> Table:
    """Return one row per question, with all measures that any row has."""
    measures = known_measures((row.measures for row in rows), MEASURES)
    named = [name for name in ("method", "dataset", "cell") if any(getattr(row, name) for row in rows)]
    texts = (*named, "query_id", "question", "type", "analysed", "workflow", "status", "answer", "replied_by")
    columns = [*(Column(name, name.capitalize().replace("_", " ")) for name in texts), *map(measure_column, measures)]
    lines: list[list[Cell]] = [
        [*(getattr(row, name) for name in texts), *map(row.measures.get, measures)] for row in rows
    ]
    return Table("questions", "Questions", "", columns, lines)


def measure_column(measure: str) -> Column:
    """Return the column of a measure of ``MEASURES``."""
    return Column(measure, MEASURES[measure], kind_of(measure))


def kind_of(measure: str) -> Kind:
    """Return the kind of column for a measure of ``MEASURES``."""
    if measure in ACCURACY or measure == "confidence":
        return "share"
    if measure.endswith("_usd"):
        return "usd"
    return "seconds" if measure.startswith("seconds") else "tokens"


# --------
# Tables of both runs and sweeps: latency by stage, and the analyzer's confusion matrix.


def latency_table(groups: Groups, of: str) -> Table:
    """Return quantiles of the seconds per stage and group. ``of`` is the heading of the groups."""
    rows: list[list[Cell]] = []
    for name, held in groups.items():
        spent = {stage: [row.stages[stage] for row in held if stage in row.stages] for stage in stages_of(held)}
        spent["total"] = [row.measures["seconds_total"] for row in held if "seconds_total" in row.measures]
        for stage, values in spent.items():
            if values:
                quantiles = [float(each) for each in np.quantile(values, [0.5, 0.9, 0.99])]
                rows.append([name, stage, len(values), float(np.mean(values)), *quantiles])
    columns = [
        Column("group", of),
        Column("stage", "Stage"),
        Column("questions", "Questions", "count"),
        Column("mean_s", "Mean", "seconds"),
        Column("p50_s", "Median", "seconds"),
        Column("p90_s", "90 %", "seconds"),
        Column("p99_s", "99 %", "seconds"),
    ]
    note = "Wall-clock seconds. Branches run in parallel, so a question's stages may add up to more than its total."
    return Table("latency", "Latency by stage", note, columns, rows)


def confusion_tables(matrices: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Return a table with one row per occurring pair of gold type and analyzer's type, if there are any."""
    rows: list[Sequence[Cell]] = [
        [matrix["name"], gold, said, matrix["counts"][g][s]]
        for matrix in matrices
        for g, gold in enumerate(matrix["labels"])
        for s, said in enumerate(matrix["labels"])
        if matrix["counts"][g][s]
    ]
    columns = [
        Column("of", "Of"),
        Column("gold", "Gold type"),
        Column("analysed", "Analyzer's"),
        Column("questions", "Questions", "count"),
    ]
    return [Table("confusion", "Question types: gold and analyzer", "", columns, rows)] if rows else []


# --------
# Tables as Parquet, CSV and Markdown. Except in Markdown, figures with intervals become three columns.

_FIGURE = re.compile(r"[-+]\s?[$€£]?\d[\d.,]*\s?%?")
"""Texts that look like formulas but are plain numbers, so they need no quoting."""
_LINK: Final = re.compile(
    r"://|www\.|\b(?:mailto|javascript|vbscript|data|file|tel|sms|xmpp):|\S@\S|\w\.[^\W\d_]{2}|\]\s*[(\[:]",
    re.IGNORECASE,
)
"""Anything that some Markdown renderer turns into a link or picture: bare URLs, addresses and host names (markdown-it),
and links in brackets. Tags are escaped separately."""
_MARKUP: Final = re.compile(r"[\\`*\[\]]")


def table_files(table: Table) -> Mapping[str, bytes]:
    """Return the files of a table by name."""
    return {
        f"{table.name}.parquet": _parquet(table),
        f"{table.name}.csv": csv_file(columns_of(table)),
        f"{table.name}.md": markdown(table).encode(),
    }


def columns_of(table: Table) -> dict[str, list[Cell]]:
    """Return the table by column, with intervals as ``key_low`` and ``key_high``."""
    columns: dict[str, list[Cell]] = {}
    for at, column in enumerate(table.columns):
        cells = [row[at] for row in table.rows]
        columns[column.key] = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        if any(isinstance(cell, Estimate) for cell in cells):
            columns[f"{column.key}_low"] = [cell.low if isinstance(cell, Estimate) else None for cell in cells]
            columns[f"{column.key}_high"] = [cell.high if isinstance(cell, Estimate) else None for cell in cells]
    return columns


def markdown(table: Table) -> str:
    """Format title, note and table as Markdown."""
    figures = [at for at, column in enumerate(table.columns) if column.kind != "text"]
    rows = [[_words(c, cell) for c, cell in zip(table.columns, row, strict=True)] for row in table.rows]
    body = markdown_table([_inert(column.label) for column in table.columns], rows, figures)
    return "\n\n".join(part for part in (f"## {table.title}", table.note, body) if part) + "\n"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], figures: Collection[int] = ()) -> str:
    """Format a Markdown table without a trailing line break. Bars and line breaks in cells are escaped.

    ``figures`` are the numbers of the right-aligned columns, from 0.
    """
    rule = ["---:" if at in figures else "---" for at in range(len(head))]
    lines = (
        " | ".join(" ".join(cell.replace("|", "\\|").splitlines()) for cell in line) for line in (head, rule, *rows)
    )
    return "\n".join(f"| {line} |" for line in lines)


def _words(column: Column, cell: Cell) -> str:
    if isinstance(cell, str):
        return _inert(cell)
    main, interval = written(column, cell)
    return f"{main} [{interval}]" if interval else main


def _inert(text: str) -> str:
    """Escape text for a Markdown cell so that no part of it becomes a link, picture, tag or formula.

    Text with anything that a renderer may link becomes a code span.
    """
    text = _safe_text(text)
    if _LINK.search(as_seen(text)):
        # In a code span of a table, a bar after a backslash cannot be escaped.
        held = " ".join(text.replace("|", "\u00a6").split())
        fence = "`" * (1 + max(map(len, re.findall("`+", held)), default=0))
        return f"{fence} {held} {fence}" if "`" in held else f"{fence}{held}{fence}"
    text = text.replace("&", "&amp;").replace("<", "&lt;")  # Markdown passes HTML through
    return _MARKUP.sub(r"\\\g<0>", text)


def csv_file(columns: Mapping[str, Sequence[Cell]]) -> bytes:
    """Format columns of equal length as a UTF-8 CSV file with a header."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_safe_text, columns))
    writer.writerows([_safe(cell) for cell in row] for row in zip(*columns.values(), strict=True))
    return out.getvalue().encode()


def _safe(cell: Cell) -> Cell:
    """Quote text that a spreadsheet would take for a formula."""
    return _safe_text(cell) if isinstance(cell, str) else cell


def _safe_text(text: str) -> str:
    text = plain(text)
    return f"'{text}" if is_formula(text) and not _FIGURE.fullmatch(text) else text


def _parquet(table: Table) -> bytes:
    columns = {}
    for key, cells in columns_of(table).items():
        texts = any(isinstance(cell, str) for cell in cells)
        whole = all(isinstance(cell, int) for cell in cells if cell is not None)
        kind = pa.string() if texts else pa.int64() if whole else pa.float64()
        columns[key] = pa.array(cells, kind)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd")
    return out.getvalue()
