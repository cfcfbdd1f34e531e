"""Measure how many marked cells of PDF tables are read with their label, heads, unit, page, scale and currency.

    python -m benchmarks.tables MARKS --pdfs FOLDER [FOLDER ...] [--by-kind] [--show] [--prototype FILE] [--out FILE]

MARKS is a JSON list of pages: ``pdf`` (a file name), ``page`` (from 1), ``kind`` (features of the page, separated by
commas), ``unit`` and ``tables``. A table has ``heads`` (for each column its levels from the top), an own ``unit`` if it
differs from the page's, and ``cells``: [label, column, value], then an object with ``kind`` ("money", "percent",
"per share", "shares", "count", "ratio", "none"), ``scale`` (a number, or "unknown" if the report does not state it),
``currency`` and ``section``. The unit "*" may be anything. In labels and heads, "^1" is a footnote mark; a level that
begins with "~" is a unit, which may be in the table's unit line as well; a level that begins with "?" may be missing.

The whole file is parsed, as in an index run. Comparison ignores case, blanks, dashes, quotes and footnote marks.

*value*: the value is in a cell of a table on this page; *label*: and its row has the label; *lowest head*, *all heads*:
and its column has them; *full*: and the unit line, too. *Wrong head*: the column's heads name another column or
another time. *Silently wrong*: the value has another scale, currency or number than the report states.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pypdfium2

from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.types import Document, TypedValue, section_at
from okralong.pipelines.indexing.documents import RawDocument, Source, make_document
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.statements.amounts import UNKNOWN
from okralong.pipelines.statements.text_tables import tables_of
from okralong.pipelines.statements.units import around_of, cell_value

MAX_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Mark:
    """A cell as a person sees it on a page."""

    pdf: str
    page: int
    features: tuple[str, ...]
    label: str
    heads: tuple[tuple[str, ...], ...]
    column: int
    value: str
    unit: str
    kind: str = ""
    scale: int | str = UNKNOWN
    currency: str = ""
    section: str = ""


@dataclass(frozen=True)
class Found:
    """A cell that a reader found on a page, and its value if the reader gives values."""

    table: Table
    row: TableRow
    cell: TableCell
    value: TypedValue | None = None

    @property
    def head(self) -> str:
        """All heads of the cell's column."""
        return self.table.head(self.cell.column)


@dataclass(frozen=True)
class Score:
    """What is right about the cell that fits a mark best.

    ``head`` is "right", "incomplete" (a level is missing), "extra" (words that are no head), "wrong" or "". ``amount``
    is "right", "no currency", "unknown", "wrong", "none" or "".
    """

    mark: Mark
    found: Found | None = None
    label: bool = False
    lowest: bool = False
    head: str = ""
    unit: bool = False
    section: bool = False
    amount: str = ""

    @property
    def all_heads(self) -> bool:
        """Whether value, label and all heads are right."""
        return self.label and self.head == "right"

    @property
    def full(self) -> bool:
        """Whether everything but scale and currency is right."""
        return self.all_heads and self.unit

    @property
    def rank(self) -> tuple[bool, ...]:
        """Orders the cells with a mark's value: the best is the one that the mark means."""
        return self.label, self.head == "right", self.head != "wrong", self.section, self.lowest, self.unit


# Comparison.

_SUPERSCRIPTS: Final = re.compile("[\u00b9\u00b2\u00b3\u2070-\u2079†‡]")
_NOTE: Final = re.compile(r"\((?:\d{1,2}|[a-d])\)|(?<=[A-Za-z])\d\)$|\*+$")
_DASHES: Final = re.compile("[\u2010-\u2015\u2212]")
_LEVEL_NOTE: Final = re.compile(r"\^(\w+)")
_NO_VALUE: Final = re.compile(r"^-*$")


def plain(text: str) -> str:
    """Return a label or head without case, blanks, punctuation and footnote marks."""
    said = _NOTE.sub("", _SUPERSCRIPTS.sub("", _LEVEL_NOTE.sub("", text)).strip(" .…"))
    return re.sub(r"[\s\"'\u2018-\u201f`.,:;…-]", "", _DASHES.sub("-", unicodedata.normalize("NFKC", said)).casefold())


def plain_value(text: str) -> str:
    """Return a value without blanks, currency signs and footnote marks."""
    said = _DASHES.sub("-", unicodedata.normalize("NFKC", _SUPERSCRIPTS.sub("", text)))
    return re.sub(r"\s|\*+$|us\$|c\$|[$€£¥]", "", said.casefold())


def number_of(value: str) -> Decimal | None:
    """Return the number of a marked value as printed, or None if it has none."""
    said = plain_value(value)
    digits = re.search(r"\d[\d,]*(?:\.\d+)?|\.\d+", said)
    if digits is None:
        return None
    number = Decimal(digits[0].replace(",", ""))
    return -number if said.startswith(("(", "-")) else number


def _accepted(levels: Sequence[str], unit: str) -> set[str]:
    """Return the ways to write the heads of a column in a table with this unit line."""
    may_miss = [each[:1] == "?" or (each[:1] == "~" and plain(each[1:]) in plain(unit)) for each in levels]
    choices = [
        (each.lstrip("~?"), "") if missing else (each.lstrip("~?"),)
        for each, missing in zip(levels, may_miss, strict=True)
    ]
    return {plain(" ".join(chosen)) for chosen in itertools.product(*choices)}


def _head_ways(head: str, mark: Mark) -> set[str]:
    """Return the ways to read a reader's heads: with and without footnote marks that stand apart, and the unit line."""
    notes = {note for levels in mark.heads for each in levels for note in _LEVEL_NOTE.findall(each)}
    without = head
    for note in notes:
        without = re.sub(rf"\s+{re.escape(note)}(?=\s|$)", "", without)
    ways = {plain(head), plain(without)}
    unit = plain(mark.unit)
    return ways | {each.replace(unit, "") for each in ways if unit}


def _tokens(text: str) -> set[str]:
    said = _LEVEL_NOTE.sub("", _SUPERSCRIPTS.sub("", unicodedata.normalize("NFKC", text))).casefold()
    return set(re.findall(r"[^\W_]+|[%$#€£]", said))


def judge_head(head: str, mark: Mark, unit: str = "") -> str:
    """Return whether a column's heads are right, incomplete, extra or wrong for a mark; ``unit`` is the unit line."""
    ways = _head_ways(head, mark)
    if ways & _accepted(mark.heads[mark.column], unit):
        return "right"
    own = _tokens(" ".join(mark.heads[mark.column]))
    foreign = _tokens(head) - own - _tokens(mark.unit)
    others = [index for index in range(len(mark.heads)) if mark.heads[index] != mark.heads[mark.column]]
    theirs = (_tokens(level) for index in others for level in mark.heads[index])
    if any(level <= _tokens(head) and not level <= own for level in theirs):
        return "wrong"
    if any(re.search(r"\d", token) for token in foreign):
        return "wrong"
    if any(ways & _accepted(mark.heads[index], unit) for index in others):
        return "wrong"
    return "extra" if foreign else "incomplete"


def _has_unit(found: Found, mark: Mark) -> bool:
    if mark.unit == "*":
        return True
    if not mark.unit:
        return not found.table.unit
    said = (found.table.unit, found.table.stub, found.table.title, found.head, *found.row.sections)
    return any(re.sub(r"[()]", "", plain(mark.unit)) in plain(each) for each in said)


def judge_amount(value: TypedValue | None, mark: Mark) -> str:
    """Return whether the value of a found cell has the number, scale and currency that the report states."""
    number = number_of(mark.value)
    if not mark.kind:
        return ""
    if mark.kind == "none" or number is None:
        return "right" if value is None else "wrong"
    if value is None:
        return "none"
    if value.scale == UNKNOWN:
        return "unknown"
    scale = mark.scale
    if value.unit == "%" and "bps" in plain_value(mark.value):
        scale = "0.01"
    if scale == UNKNOWN or Decimal(value.value) != number * Decimal(scale):
        return "wrong"
    if value.currency != mark.currency:
        return "no currency" if not value.currency else "wrong"
    return "right"


def score(mark: Mark, cells: Iterable[Found]) -> Score:
    """Score the cell that fits a mark best among those of its page."""
    best = Score(mark)
    for found in cells:
        if plain_value(found.cell.text) != plain_value(mark.value):
            continue
        head = judge_head(found.head, mark, found.table.unit)
        lowest = next((each for each in reversed(mark.heads[mark.column]) if each[:1] != "?"), "")
        ends = any(way.endswith(plain(lowest.lstrip("~"))) for way in _head_ways(found.head, mark))
        this = Score(
            mark,
            found,
            label=plain(found.row.label) == plain(mark.label),
            lowest=ends and (bool(lowest) or head == "right"),
            head=head,
            unit=_has_unit(found, mark),
            section=not mark.section or any(plain(mark.section) == plain(each) for each in found.row.sections),
            amount=judge_amount(found.value, mark),
        )
        if best.found is None or this.rank > best.rank:
            best = this
    return best


# Marks and readers.


def read_marks(path: Path) -> list[Mark]:
    """Read the marked cells of a file."""
    marks = []
    for page in json.loads(path.read_text("utf-8")):
        features = tuple(each.strip() for each in page["kind"].split(","))
        for table in page["tables"]:
            heads = tuple(tuple(levels) for levels in table["heads"])
            for label, column, value, *more in table["cells"]:
                known: Mapping[str, Any] = more[0] if more else {}
                unit = table.get("unit", page.get("unit", ""))
                marks.append(
                    Mark(page["pdf"], page["page"], features, label, heads, column, value, unit or "", **known)
                )
    return marks


Pages = dict[int, list[Found]]


def read_cells(path: Path) -> Pages:
    """Return the cells of a file by page, as okralong reads them."""
    pages: Pages = defaultdict(list)
    for raw in read_source(Source(str(path), path.name, path.stat().st_size), MAX_BYTES):
        if isinstance(raw, RawDocument):
            document = make_document(raw)
            for table in tables_of(document):
                around = around_of(document, table)
                for row, cell in table.values():
                    value = cell_value(table, row, cell, around)
                    pages[_page(document, cell.start)].append(Found(table, row, cell, value))
    return pages


def _page(document: Document, char: int) -> int:
    section = section_at([each for each in document.sections if each.kind == "page"], char)
    return int(section.name) if section else 1


def read_with_prototype(prototype: Path, path: Path, numbers: Iterable[int]) -> Pages:
    """Return the cells of some pages of a file, as the prototype reads them."""
    spec = importlib.util.spec_from_file_location("pdf_tables_prototype", prototype)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{prototype} is no Python file. Give the path of pdf_tables_prototype.py.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: Pages = defaultdict(list)
    pdf = pypdfium2.PdfDocument(path)
    for number in numbers:
        for read in module.tables(pdf[number - 1]):
            heads = tuple((head,) for head in read["heads"])
            table = Table(0, 0, heads, (), str(number), read["title"] or "", read["unit"] or "", read["stub"] or "")
            for line in read["rows"]:
                row = TableRow(line["label"], 0, 0, (), tuple(line["section"] or ()))
                for column, text in enumerate(line["vals"]):
                    if text:
                        pages[number].append(Found(table, row, TableCell(column, text, 0, 0)))
    pdf.close()
    return pages


# Output.


def shares(name: str, scores: Sequence[Score]) -> list[str]:
    """Return a row of the table of cells."""
    total = len(scores)
    labelled = [each for each in scores if each.label]
    counts = (
        sum(each.found is not None for each in scores),
        len(labelled),
        sum(each.lowest for each in labelled),
        sum(each.all_heads for each in scores),
        sum(each.full for each in scores),
    )
    wrong = sum(each.head == "wrong" for each in labelled)
    sections = [each.section for each in labelled if each.mark.section]
    return [
        name,
        str(total),
        *(f"{count / total:.3f}" for count in counts),
        f"{wrong} ({wrong / total:.3f})",
        f"{sum(sections)}/{len(sections)}",
    ]


CELLS: Final = ("cells", "value", "+ label", "+ lowest head", "+ all heads", "full", "wrong head", "section")
AMOUNTS: Final = ("right", "no currency", "unknown", "none", "wrong")
VALUES: Final = ("right", "right, currency unknown", "marked unknown", "no value", "silently wrong")


def amounts_row(name: str, scores: Sequence[Score]) -> list[str]:
    """Return a row of the table of values; only cells that were found with their label count."""
    known = [each.amount for each in scores if each.amount and each.label]
    counts = [known.count(each) for each in AMOUNTS]
    fine = sum(counts[:3])
    return [name, str(len(known)), *map(str, counts), f"{fine / len(known):.3f}" if known else "-"]


def by_feature(scores: Sequence[Score]) -> dict[str, list[Score]]:
    """Return the scores by feature of their page, the most frequent first."""
    grouped: dict[str, list[Score]] = defaultdict(list)
    for each in scores:
        for feature in each.mark.features:
            grouped[feature].append(each)
    return dict(sorted(grouped.items(), key=lambda item: -len(item[1])))


def misses(scores: Sequence[Score]) -> Iterator[str]:
    """Yield a line for each cell that is not right in every respect."""
    for each in scores:
        if each.full and each.amount in ("", "right"):
            continue
        mark, found = each.mark, each.found
        yield f"{mark.pdf} p.{mark.page} | {mark.label} | {' > '.join(mark.heads[mark.column])} | {mark.value}"
        if found is None:
            yield "    not found"
            continue
        if not each.label:
            yield f"    label: {found.row.label}"
        if each.head != "right":
            yield f"    head, {each.head}: {' > '.join(found.table.heads[found.cell.column])}"
        if not each.unit:
            yield f"    unit: {found.table.unit or 'none'} (marked: {mark.unit or 'none'})"
        if each.amount not in ("", "right"):
            got = found.value and f"{found.value.value} {found.value.currency} (scale {found.value.scale or 'none'})"
            yield f"    value, {each.amount}: {got} (marked: {mark.scale} {mark.currency}, {mark.kind})"
        if not each.section:
            yield f"    section: {' > '.join(found.row.sections) or 'none'} (marked: {mark.section})"


_COMMAND: Final = "python -m benchmarks.tables MARKS --pdfs PDFS --by-kind --prototype pdf_tables_prototype.py"


def main() -> None:
    """Print and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("marks", type=Path)
    parser.add_argument("--pdfs", type=Path, nargs="+", required=True, help="folders with the marked files")
    parser.add_argument("--by-kind", action="store_true", help="add a line for each kind of page")
    parser.add_argument("--show", action="store_true", help="list the misses; never with marks that are kept aside")
    parser.add_argument("--prototype", type=Path, help="pdf_tables_prototype.py, to compare with")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    by_file: dict[str, list[Mark]] = defaultdict(list)
    for mark in read_marks(asked.marks):
        by_file[mark.pdf].append(mark)
    ours: list[Score] = []
    theirs: list[Score] = []
    for name, marks in sorted(by_file.items()):
        path = next((folder / name for folder in asked.pdfs if (folder / name).is_file()), None)
        if path is None:
            print(f"{name} is in none of the folders; its {len(marks)} marks are left out.")
            continue
        cells = read_cells(path)
        ours += [score(mark, cells[mark.page]) for mark in marks]
        if asked.prototype:
            cells = read_with_prototype(asked.prototype, path, {mark.page for mark in marks})
            theirs += [score(mark, cells[mark.page]) for mark in marks]
    if not ours:
        raise SystemExit("None of the marked files is there. Give their folders with --pdfs.")
    rows = [shares("okralong", ours)] + ([shares("prototype", theirs)] if theirs else [])
    parts = [
        markdown_table(["reader", *CELLS], rows, range(1, 8)),
        markdown_table(["values", "cells", *VALUES, "not wrong"], [amounts_row("okralong", ours)], range(1, 8)),
    ]
    if asked.by_kind:
        kinds = by_feature(ours)
        parts.append(markdown_table(["kind of page", *CELLS], (shares(*each) for each in kinds.items()), range(1, 8)))
        kept = {name: [each for each in ours if each.mark.kind == name] for name in {each.mark.kind for each in ours}}
        listed = (amounts_row(name or "-", each) for name, each in sorted(kept.items()))
        parts.append(markdown_table(["kind of value", "cells", *VALUES, "not wrong"], listed, range(1, 8)))
    text = "\n\n".join(parts)
    print(text)
    if asked.out:
        asked.out.write_text(f"# Cells of PDF tables\n\n    {_COMMAND}\n\n{text}\n", encoding="utf-8")
    if asked.show:
        print("\n" + "\n".join(misses(ours)))


if __name__ == "__main__":
    main()
