"""Parse Excel workbooks and CSV files into tables of text, and the notes, text boxes and charts beside them."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

from lxml import etree

from okralong.pipelines.core.table_files import declared_delimiter, delimiter_of, mended_rows, with_doubt
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.core.workbooks import (
    Cell,
    Layout,
    Relation,
    Sheet,
    Workbook,
    address,
    local,
    read_workbook,
    text_of,
    unescaped,
)
from okralong.pipelines.indexing.documents import Blocks, Losses, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats import ooxml
from okralong.pipelines.indexing.formats.drawing import SMART_ART, chart_text, drawn_text, is_decoration
from okralong.pipelines.indexing.formats.ooxml import CX, DGM, MC, A, C, R, chosen
from okralong.pipelines.indexing.formats.text import PLACES_A_CELL, pipe_table
from okralong.pipelines.indexing.tables import is_year

SAVE_IT: Final = "open the file in a spreadsheet program and save it"


def read_xlsx(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of an .xlsx file: each visible sheet as a table under its name, then its notes.

    Cells are shown as a person sees them. Raises DocumentError if the file is not an Excel workbook.
    """
    data = source.read_bytes()
    book = read_workbook(data, source.uri)
    blocks, losses = Blocks(), Losses()
    losses.add("hidden sheet", "hidden sheets", book.hidden)
    notes, heads = _Notes(book, data, losses), set[str]()
    for sheet in book.sheets:
        layout = Layout()
        table = _Grid(sheet, layout, losses).table()
        words = [f"Printed header or footer: {each}" for each in layout.heads if each not in heads]
        heads.update(layout.heads)
        words += notes.of(sheet.part)
        losses.add("embedded object", "embedded objects", layout.objects)
        _add(blocks, sheet.name, [table, *words])
    for name, part in book.charts:
        _add(blocks, name, list(notes.of(part)))
    metadata = {"sheets": str(len(book.sheets))} | ({"hidden_sheets": str(book.hidden)} if book.hidden else {})
    yield blocks.document(source, book.title, metadata | losses.metadata())


def _add(blocks: Blocks, name: str, texts: Sequence[str]) -> None:
    """Add a sheet as a section, unless it is empty."""
    if any(texts):
        blocks.begin("sheet", name)
        for text in (name, *texts):
            blocks.add(text)


class _Figure(str):
    """The text of a cell that holds a number."""

    __slots__ = ()


_LONGEST_HEAD: Final = 200
"""Characters of the text of merged cells that is repeated. # project default"""
_FILLS_A_CELL: Final = 4
"""Repeated texts of a sheet per cell: a file may declare a million merged ranges. # project default"""


class _Grid:
    """The texts of a sheet that a person sees, by row and column."""

    def __init__(self, sheet: Sheet, layout: Layout, losses: Losses) -> None:
        self._rows: dict[int, dict[int, str]] = {}
        self._hidden: list[int] = []
        hidden: dict[tuple[int, int], str] = {}
        rows_hidden, columns_hidden = 0, set()
        for row in sheet.rows(layout):
            seen: dict[int, str] = {}
            if row.hidden:
                self._hidden.append(row.number)
            for cell in row.cells:
                text = _text(cell)
                if row.hidden or layout.hidden_columns[cell.column]:
                    hidden[row.number, cell.column] = text
                    if not row.hidden and text:
                        columns_hidden.add(cell.column)
                    continue
                _count(cell, text, losses)
                if text:
                    seen[cell.column] = text
            rows_hidden += row.hidden and any(hidden.get((row.number, cell.column)) for cell in row.cells)
            if seen:
                self._rows[row.number] = seen
        losses.add("hidden row", "hidden rows", rows_hidden)
        losses.add("hidden column", "hidden columns", len(columns_hidden))
        self._repeat(layout, hidden)

    def _repeat(self, layout: Layout, hidden: dict[tuple[int, int], str]) -> None:
        """Repeat the text of merged cells, so that each column has its head and each row its label."""
        numbers = sorted(self._rows)
        columns = sorted({column for row in self._rows.values() for column in row})
        left = _FILLS_A_CELL * sum(map(len, self._rows.values()))
        for top, first, bottom, last in layout.merged:
            text = self._rows.get(top, {}).get(first) or hidden.get((top, first), "")
            if not text or len(text) > _LONGEST_HEAD or (isinstance(text, _Figure) and not is_year(text)):
                continue
            rows = numbers[bisect_left(numbers, top) : bisect_right(numbers, bottom)]
            across = columns[bisect_left(columns, first) : bisect_right(columns, last)]
            if rows[:1] == [top] and across[:1] == columns[:1] and len(self._rows[top]) == 1:
                across = across[:1]  # a title over the whole table
            for number in rows:
                left -= len(across)
                if left < 0:
                    return
                for column in across:
                    self._rows[number].setdefault(column, text)

    def table(self) -> str:
        """Return the sheet as a table, or as a list of cells if there are few in a wide area."""
        rows = list(self._rows.items())
        columns = sorted({column for _, row in rows for column in row})
        place = {column: index for index, column in enumerate(columns)}
        places = sum(place[max(row)] + 1 for _, row in rows)
        if places > PLACES_A_CELL * sum(len(row) for _, row in rows):
            return pipe_table([[f"{address(n, column)}: {row[column]}" for column in sorted(row)] for n, row in rows])
        lines = pipe_table([[row.get(column, "") for column in columns[: place[max(row)] + 1]] for _, row in rows])
        apart = [self._are_apart(one, other) for (one, _), (other, _) in pairwise(rows)]
        return "".join(
            f"{line}\n\n" if gap else f"{line}\n" for line, gap in zip(lines.split("\n"), [*apart, False], strict=True)
        )[:-1]

    def _are_apart(self, one: int, other: int) -> bool:
        """Return whether a person sees an empty row between two rows."""
        hidden = bisect_left(self._hidden, other) - bisect_right(self._hidden, one)
        return other - one - 1 > hidden


def _text(cell: Cell) -> str:
    """Return the text of a cell as a person sees it, "" if it is only blanks."""
    words = cell.shown()
    if not words.strip():
        return ""
    return _Figure(words) if isinstance(cell.value, int | float) and not isinstance(cell.value, bool) else words


def _count(cell: Cell, text: str, losses: Losses) -> None:
    if cell.formula:
        losses.add("formula without a saved value", "formulas without saved values", remedy=SAVE_IT)
    elif cell.error:
        losses.add(*(("error cell", "error cells") if cell.value else ("picture", "pictures")))
    elif not text and cell.value and str(cell.value).strip():
        losses.add("cell hidden by its format", "cells hidden by their format")


class _Notes:
    """The comments, text boxes and charts of a workbook's sheets."""

    def __init__(self, book: Workbook, data: bytes, losses: Losses) -> None:
        self._package, self._losses = book.package, losses
        self._office = ooxml.Package.of(data, losses)
        self._visible = {sheet.name for sheet in book.sheets}

    def of(self, part: str) -> Iterator[str]:
        """Yield the notes of a sheet by its part, and count its pictures and damaged parts."""
        readers = {"comments": self._comments, "threadedComment": self._threads, "drawing": self._drawing}
        relations: list[Relation] = []
        with self._counting_damage(part):
            relations += self._package.relations(part)
        for relation in relations:
            if relation.kind in readers and self._package.has(relation.part):
                with self._counting_damage(relation.part):
                    yield from readers[relation.kind](relation.part)

    @contextmanager
    def _counting_damage(self, part: str) -> Iterator[None]:
        """Count a damaged part instead of failing: it hides no sheet."""
        try:
            with self._package.reading(part):
                yield
        except DocumentError:
            self._losses.add("missing or damaged part", "missing or damaged parts")

    def _comments(self, part: str) -> Iterator[str]:
        authors: list[str] = []
        for element in self._package.elements(part):
            tag = local(element.tag)
            if tag == "author":
                authors.append(element.text or "")
            elif tag == "comment":
                number = element.get("authorId", "")
                author = authors[int(number)] if number.isdigit() and int(number) < len(authors) else ""
                text = next((text_of(child) for child in element if local(child.tag) == "text"), "")
                if not author.startswith("tc="):  # the copy of a thread for older programs
                    yield _note(element.get("ref", ""), author, text.removeprefix(f"{author}:"))
                element.clear()

    def _threads(self, part: str) -> Iterator[str]:
        people: dict[str, str] = {}
        for each in self._package.parts("xl/persons/"):
            for element in self._package.elements(each):
                people |= {element.get("id", ""): element.get("displayName", "")}
        for element in self._package.elements(part):
            if local(element.tag) == "threadedComment":
                text = next((child.text or "" for child in element if local(child.tag) == "text"), "")
                yield _note(element.get("ref", ""), people.get(element.get("personId", ""), ""), unescaped(text))
                element.clear()

    def _drawing(self, name: str) -> Iterator[str]:
        part = self._office.part(name)
        root = self._office.root_once(part)
        if root is None or part is None:
            return
        stack = list(reversed(root))
        while stack:
            element = stack.pop()
            tag = etree.QName(element).localname if isinstance(element.tag, str) else ""
            if element.tag == f"{MC}AlternateContent":
                branch = chosen(element)
                stack.extend(reversed(branch) if branch is not None else ())
            elif _is_hidden(element):
                continue
            elif tag == "sp":
                yield _text_box(element, self._losses)
            elif tag == "pic":
                properties = next((each for each in element.iter() if str(each.tag).endswith("}cNvPr")), None)
                if not is_decoration(properties, next(element.iter(f"{A}ext"), None)):
                    self._losses.add("picture", "pictures")
            elif element.tag == f"{DGM}relIds":
                self._losses.add(*SMART_ART)
            elif element.tag in (f"{C}chart", f"{CX}chart"):
                text = chart_text(part.related(element.get(f"{R}id")), self._losses, self._office, self._needs_data)
                yield f"Chart:{chr(10) if text.startswith('|') else ' '}{text}" if text else ""
            else:
                stack.extend(reversed(element))

    def _needs_data(self, chart: Any) -> bool:
        """Return whether the data of a chart stand in no visible sheet."""
        sheets = {_sheet_of(each.text or "") for each in chart.iter(f"{C}f")}
        typed = next(chart.iter(f"{C}numLit", f"{C}strLit"), None) is not None
        return not sheets or typed or not sheets <= self._visible


def _is_hidden(element: Any) -> bool:
    """Return whether an anchor's shape is hidden."""
    return any(
        each.get("hidden") in ("1", "true") for head in element for each in head if str(each.tag).endswith("}cNvPr")
    )


def _text_box(shape: Any, losses: Losses) -> str:
    text = "\n".join(line for each in shape.iter(f"{A}p") if (line := drawn_text(each, losses).strip()))
    return f"Text box: {text}" if text else ""


def _note(ref: str, author: str, text: str) -> str:
    by = f" by {author.strip()}" if author.strip() else ""
    return f"Comment on {ref}{by}: {text.strip()}" if text.strip() else ""


def _sheet_of(reference: str) -> str:
    """Return the sheet of a reference such as ``'My costs'!$B$2:$B$5``."""
    return reference.rpartition("!")[0].lstrip("(").strip("'").replace("''", "'")


_AS_TEXT: Final = re.compile(r'="([^"]*)"')
"""How exports keep a spreadsheet program from reading 007 as a number."""


def read_csv(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of a .csv or .tsv file, a table. Raises DocumentError if the bytes are not text."""
    text, doubtful = with_doubt(source.read_bytes(), source.uri)
    declared = declared_delimiter(text)
    if declared:
        text = text.partition("\n")[2]
    elif source.uri.lower().endswith(".tsv"):
        declared = "\t"
    try:
        rows, unclosed = mended_rows(text, declared or delimiter_of(text))
    except csv.Error as error:
        raise DocumentError(f"{source.uri} is not a readable CSV file ({error}). Save it again as CSV.") from error
    losses = Losses()
    losses.add("text in an unknown encoding", "texts in an unknown encoding", int(doubtful), "save it as UTF-8")
    losses.add("quotation mark without its end", "quotation marks without their end", unclosed)
    table = pipe_table([[_AS_TEXT.sub(r"\1", cell) if cell.startswith('="') else cell for cell in row] for row in rows])
    yield RawDocument(source.doc_id, table, source.uri, metadata=losses.metadata())
