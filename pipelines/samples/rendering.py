"""Blocks to text: plain (aligned columns), Markdown (pipes) or HTML (real tables), with the place of every fact."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from okralong.pipelines.core.types import TableSpan
from okralong.pipelines.samples.blocks import MARK, Block, Heading, Paragraph, Table, cell, grouped, unmarked

Format = Literal["txt", "md", "html"]
FORMATS: tuple[Format, ...] = ("txt", "md", "html")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A text with the character ranges of its facts and tables. For HTML both are empty: readers move the offsets."""

    text: str
    spans: Mapping[str, tuple[int, int]]
    tables: tuple[TableSpan, ...] = ()


def render(blocks: Sequence[Block], form: Format) -> Rendered:
    """The blocks as one text of the given format."""
    if form == "html":
        body = "\n".join(_html(block) for block in blocks)
        return Rendered(
            f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8">\n<body>\n{body}\n</body></html>\n', {}
        )
    scroll = _Scroll()
    for block in blocks:
        if isinstance(block, Table):
            _table(scroll, block, form)
        elif isinstance(block, Heading):
            scroll.write(_heading(block, form))
        else:
            start = scroll.length
            scroll.write(block.text)
            if block.key:
                scroll.spans[block.key] = (start, scroll.length)
        scroll.write("\n\n")
    return Rendered(scroll.text().rstrip("\n") + "\n", scroll.spans, tuple(scroll.tables))


class _Scroll:
    """Text under way: takes marked text, keeps plain text, remembers where the facts are."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.length = 0
        self.spans: dict[str, tuple[int, int]] = {}
        self.tables: list[TableSpan] = []

    def write(self, marked: str) -> None:
        at = 0
        for match in MARK.finditer(marked):
            self._append(marked[at : match.start()])
            start = self.length
            self._append(match.group(2))
            self.spans[match.group(1)] = (start, self.length)
            at = match.end()
        self._append(marked[at:])

    def _append(self, plain: str) -> None:
        self._pieces.append(plain)
        self.length += len(plain)

    def text(self) -> str:
        return "".join(self._pieces)


def _heading(heading: Heading, form: Format) -> str:
    if form == "md":
        return f"{'#' * heading.level} {heading.text}"
    if heading.level == 1:
        return f"{heading.text.upper()}\n{'=' * len(heading.text)}"
    return f"{heading.text}\n{'-' * len(heading.text)}" if heading.level == 2 else heading.text


def _table(scroll: _Scroll, table: Table, form: Format) -> None:
    """Title line, header, rows. Figures are flush right; the span of a cell is its figure without the padding."""
    start = scroll.length
    labels = max(len(row.label) for row in table.rows)
    widths = [
        max(len(column), *(len(grouped(row.values[at])) for row in table.rows))
        for at, column in enumerate(table.columns)
    ]
    scroll.write(f"**Table: {table.title}**\n\n" if form == "md" else f"Table: {table.title}\n")
    left, gap, right = ("| ", " | ", " |") if form == "md" else ("", "   ", "")
    scroll.write(left + " " * labels)
    for column, width in zip(table.columns, widths, strict=True):
        scroll.write(gap + column.rjust(width))
    scroll.write(right)
    if form == "md":
        scroll.write(f"\n|{'-' * (labels + 2)}|" + "".join(f"{'-' * (width + 1)}:|" for width in widths))
    for row in table.rows:
        scroll.write(f"\n{left}{row.label.ljust(labels)}")
        for column, value, width in zip(table.columns, row.values, widths, strict=True):
            shown = grouped(value)
            scroll.write(gap + " " * (width - len(shown)))
            at = scroll.length
            scroll.write(shown)
            scroll.spans[cell(table.table_id, row.label, column)] = (at, scroll.length)
        scroll.write(right)
    scroll.tables.append(TableSpan(table.table_id, start, scroll.length))


def _html(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{html.escape(unmarked(block.text))}</p>"
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    head = "".join(f"<th>{column}</th>" for column in ("", *block.columns))
    rows = "".join(
        f"<tr><th>{html.escape(row.label)}</th>{''.join(f'<td>{grouped(value)}</td>' for value in row.values)}</tr>\n"
        for row in block.rows
    )
    return f"<table>\n<caption>Table: {html.escape(block.title)}</caption>\n<tr>{head}</tr>\n{rows}</table>"
