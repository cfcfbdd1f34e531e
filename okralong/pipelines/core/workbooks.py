"""Read Excel workbooks in one pass over each sheet: values, formats, formulas, and what is hidden or merged.

No library gives the saved value, the formula and the visibility of a cell together without holding the whole workbook
in memory; ``benchmarks/results/workbooks.md`` compares them.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import IO, Any, Final, NamedTuple
from xml.etree.ElementTree import Element, ParseError, iterparse

from okralong.pipelines.core.number_formats import is_date_format, is_duration_format, shown
from okralong.pipelines.core.raised import RaisedText
from okralong.pipelines.core.types import DocumentError

NO_MEMORY: Final = "out of memory"
"""Beginning of the XML parser's error message when an allocation failed."""
MOST_COLUMNS: Final = 16_384
MOST_ROWS: Final = 1_048_576
_MOST_FORMULA_CHARS: Final = 200
"""Characters of a formula that are shown. # project default"""


class Cell(NamedTuple):
    """A cell that is not empty; ``column`` counts from 0.

    ``formula`` is the text of a formula without a saved value, otherwise "". ``value`` is a str, int, float, bool,
    datetime, date, time or timedelta; an ``error`` is a str such as #N/A, or "" for a picture in a cell.
    ``calculated`` is the text of a formula with a saved value, as far as this cell has it.
    """

    column: int
    value: Any
    number_format: str
    formula: str
    error: bool
    calculated: str = ""

    def shown(self) -> str:
        """Return the cell as a person sees it, a formula without a saved value as its text."""
        return self.formula or shown(self.value, self.number_format)


class Row(NamedTuple):
    """A row with its number, from 1, and its cells that are not empty."""

    number: int
    hidden: bool
    cells: list[Cell]


@dataclass(slots=True)
class Layout:
    """What a sheet says beside its cells, filled while its rows are read.

    ``hidden_columns`` has a 1 for each hidden column. ``merged`` holds ranges (first row, first column, last row, last
    column), ``heads`` the text of printed headers and footers, ``objects`` the number of embedded ones.
    """

    hidden_columns: bytearray = field(default_factory=lambda: bytearray(MOST_COLUMNS))
    merged: list[tuple[int, int, int, int]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    objects: int = 0


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook; rows are read on demand. ``part`` is its file within the workbook."""

    name: str
    part: str
    book: Package
    _strings: Callable[[], list[str]]
    _formats: tuple[str, ...]
    _epoch: Any
    _trusted: bool

    def rows(self, layout: Layout) -> Iterator[Row]:
        """Yield the rows in ascending order, and fill ``layout``. Raises DocumentError if the sheet is damaged."""
        with self.book.reading(f"sheet {self.name}"), self.book.open(self.part) as stream:
            yield from self._read(stream, layout)

    def _read(self, stream: IO[bytes], layout: Layout) -> Iterator[Row]:
        last, rows, shared = 0, None, dict[str, tuple[str, str]]()
        for event, element in iterparse(stream, ("start", "end")):
            tag = local(element.tag)
            if event == "start":
                if tag == "sheetData":
                    rows = element
                continue
            if tag == "row" and rows is not None:
                row = self._row(element, last, shared)
                if row.number <= last:
                    raise ValueError(f"row {row.number} follows row {last}")
                last = row.number
                yield row
                rows.clear()
            elif tag == "sheetData":
                rows = None
            elif rows is None:
                _lay_out(tag, element, layout)

    def _row(self, element: Element, last: int, shared: dict[str, tuple[str, str]]) -> Row:
        number = _whole(element.get("r"), last + 1, MOST_ROWS)
        cells: list[Cell] = []
        column = -1
        for child in element:
            if not child.tag.endswith("}c"):
                continue
            at = child.get("r")
            column = column_of(at) if at else column + 1
            cell = self._cell(child, column, number, shared)
            if cell is not None:
                cells.append(cell)
        cells.sort(key=lambda cell: cell.column)
        hidden = element.get("hidden") in _TRUE or element.get("ht") in _NONE
        return Row(number, hidden, cells)

    def _cell(self, element: Element, column: int, row: int, shared: dict[str, tuple[str, str]]) -> Cell | None:
        kind, said, formula, inline = element.get("t", "n"), None, None, None
        for child in element:
            tag = local(child.tag)
            if tag == "v":
                said = child.text
            elif tag == "f":
                formula = child
            elif tag == "is":
                inline = text_of(child)
        if formula is not None and self._is_unsaved(kind, said):
            words = _formula(formula, row, column, shared)
            return Cell(column, words, "General", words, False)
        if formula is not None and formula.get("t") == "shared" and formula.text:
            shared[formula.get("si", "")] = (formula.text, address(row, column))
        cell = self._saved(element, column, row, kind, said, inline)
        if formula is None:
            return cell
        cell = cell or Cell(column, "", "General", "", False)
        return cell._replace(calculated="=" + " ".join((formula.text or "")[:_MOST_FORMULA_CHARS].split()))

    def _saved(
        self, element: Element, column: int, row: int, kind: str, said: str | None, inline: str | None
    ) -> Cell | None:
        if inline is not None:
            return Cell(column, inline, self._format(element), "", False) if inline else None
        if said is None or (said == "" and kind != "s"):
            return None
        number_format = self._format(element)
        if kind == "n":
            return Cell(column, self._number(said, number_format), number_format, "", False)
        if kind == "s":
            strings = self._strings()
            place = int(said)
            if not 0 <= place < len(strings):
                raise ValueError(f"the text of cell {address(row, column)} is missing")
            return Cell(column, strings[place], number_format, "", False) if strings[place] else None
        if kind == "b":
            return Cell(column, said in _TRUE, number_format, "", False)
        if kind == "d":
            from openpyxl.utils.datetime import from_ISO8601

            try:
                return Cell(column, from_ISO8601(said), number_format, "", False)
            except ValueError:
                return Cell(column, said, number_format, "", False)
        in_cell = kind == "e" and element.get("vm") is not None  # a picture, for programs that cannot show it
        return Cell(column, "" if in_cell else unescaped(said), number_format, "", kind == "e")

    def _is_unsaved(self, kind: str, said: str | None) -> bool:
        """Return whether a formula has no saved value: none at all, or zero in a file that no program calculated."""
        if not said:
            return kind != "str" or not self._trusted  # spreadsheet programs save the result "" with its type
        return not self._trusted and kind == "n" and said in _ZERO

    def _format(self, element: Element) -> str:
        style = element.get("s")
        place = int(style) if style else 0
        return self._formats[place] if 0 <= place < len(self._formats) else "General"

    def _number(self, said: str, number_format: str) -> Any:
        try:
            number: int | float = float(said) if any(each in said for each in ".eEnN") else int(said)
        except ValueError:  # one odd cell, such as "5,3", hides no others
            return said
        if number_format == "General" or not _dated(number_format):
            return number
        from openpyxl.utils.datetime import from_excel

        try:
            return from_excel(number, self._epoch, timedelta=is_duration_format(number_format))
        except (ValueError, OverflowError):
            return number


_dated = lru_cache(maxsize=1024)(is_date_format)
_TRUE: Final = frozenset({"1", "true"})
_NONE: Final = frozenset({"0", "0.0"})
_ZERO: Final = frozenset({"0", "0.0", "0.00"})


def _lay_out(tag: str, element: Element, layout: Layout) -> None:
    if tag == "col":
        if element.get("hidden") in _TRUE or element.get("width") in _NONE:
            first = _whole(element.get("min"), 1, MOST_COLUMNS)
            last = _whole(element.get("max"), first, MOST_COLUMNS)
            layout.hidden_columns[first - 1 : last] = b"\1" * max(0, last - first + 1)
    elif tag == "mergeCell":
        if (found := _RANGE.fullmatch(element.get("ref", ""))) is not None:
            top, left, bottom, right = int(found[2]), column_of(found[1]), int(found[4]), column_of(found[3])
            layout.merged.append((min(top, bottom), min(left, right), max(top, bottom), max(left, right)))
    elif tag in ("oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter"):
        for part in _PARTS.split(element.text or ""):
            words = " ".join(_CODES.sub(" ", part).replace("&&", "&").split())
            if any(map(str.isalpha, words)) and not _PAGES.search(part) and words not in layout.heads:
                layout.heads.append(words)
    elif tag == "oleObject":
        layout.objects += 1
    else:
        return
    element.clear()


_RANGE: Final = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_CODES: Final = re.compile(r'&(?:"[^"]*"|K[0-9A-F]{6}|K\d\d[+-]\d{3}|\d+|[A-Za-z])')
_PARTS: Final = re.compile(r"&[LCR]|\n")
_PAGES: Final = re.compile(r"&[PN]")
"""Codes of printed headers and footers: font, size, position, page number, number of pages."""


def _formula(element: Element, row: int, column: int, shared: dict[str, tuple[str, str]]) -> str:
    """Return the text of a formula, shortened; that of a range's formula as it is in this cell."""
    text = element.text or ""
    if element.get("t") == "shared":
        if text:
            shared[element.get("si", "")] = (text, address(row, column))
        else:
            text, origin = shared.get(element.get("si", ""), ("", ""))
            if 0 < len(text) <= _MOST_FORMULA_CHARS:
                from openpyxl.formula.translate import Translator

                text = Translator(f"={text}", origin).translate_formula(address(row, column))[1:]
    text = _FUTURE.sub("", " ".join(text[: 2 * _MOST_FORMULA_CHARS].split()))
    return f"={text}" if len(text) <= _MOST_FORMULA_CHARS else f"={text[:_MOST_FORMULA_CHARS]}…"


_FUTURE: Final = re.compile(r"_xl(?:fn|ws|pm|udf)\.")
"""Marks of functions that are newer than the format."""


@dataclass(frozen=True, slots=True)
class Workbook:
    """An Excel workbook: title, and the visible and the hidden sheets in order.

    ``hidden`` counts hidden sheets of any kind, ``charts`` are the parts of visible sheets that consist of one chart.
    """

    title: str
    sheets: tuple[Sheet, ...]
    hidden_sheets: tuple[Sheet, ...]
    hidden: int
    charts: tuple[tuple[str, str], ...]
    package: Package


def read_workbook(data: bytes, uri: str) -> Workbook:
    """Open an .xlsx file, with the values that its formulas had when it was saved.

    Raises:
        DocumentError: The file is not an Excel workbook.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{uri} is not an .xlsx file (no zip inside): it may be an old .xls, or be protected by a password. Open "
            "it in a spreadsheet program and save it as .xlsx without password."
        )
    package = Package(data, uri)
    with package.reading():
        return _workbook(package)


def _workbook(package: Package) -> Workbook:
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

    main = next((each.part for each in package.relations("") if each.kind == "officeDocument"), "xl/workbook.xml")
    relations = {each.key: each for each in package.relations(main)}
    listed: list[Element] = []
    epoch, calculated, root = WINDOWS_EPOCH, False, ""
    for element in package.elements(main):
        tag = local(element.tag)
        root = tag
        if tag == "sheet":
            listed.append(element)
        elif tag == "workbookPr" and element.get("date1904") in _TRUE:
            epoch = MAC_EPOCH
        elif tag == "calcPr":
            calculated = element.get("fullCalcOnLoad") not in _TRUE
    if root != "workbook":
        raise KeyError("it has no workbook part")
    by_kind = {each.kind: each.part for each in relations.values()}
    formats = tuple(_formats(package, by_kind.get("styles", "")))
    strings = _Strings(package, by_kind.get("sharedStrings", ""))
    sheets: list[Sheet] = []
    hidden_sheets: list[Sheet] = []
    charts, hidden = [], 0
    for element in listed:
        target = relations.get(attribute(element, "id"))
        if target is None or target.kind not in ("worksheet", "chartsheet"):
            continue
        name, is_hidden = element.get("name", ""), element.get("state", "visible") != "visible"
        hidden += is_hidden
        if target.kind == "worksheet":
            listed_with = hidden_sheets if is_hidden else sheets
            listed_with.append(Sheet(name, target.part, package, strings.all, formats, epoch, calculated))
        elif not is_hidden:
            charts.append((name, target.part))
    title = ""
    core = next((each.part for each in package.relations("") if each.kind == "core-properties"), "")
    with suppress(DocumentError), package.reading():  # a damaged title hides no sheet
        for element in package.elements(core) if package.has(core) else ():
            if local(element.tag) == "title":
                title = element.text or ""
    return Workbook(title, tuple(sheets), tuple(hidden_sheets), hidden, tuple(charts), package)


def _formats(package: Package, part: str) -> Iterator[str]:
    """Yield the number format of each cell style."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS

    if not package.has(part):
        return
    codes = dict(BUILTIN_FORMATS) | dict.fromkeys((*range(27, 37), *range(50, 59)), "yyyy-mm-dd")
    styles: list[int] = []
    for element in package.elements(part):
        tag = local(element.tag)
        if tag == "numFmt":
            codes[_whole(element.get("numFmtId"), 0, 2**31)] = element.get("formatCode") or "General"
        elif tag == "cellXfs":
            styles = [_whole(each.get("numFmtId"), 0, 2**31) for each in element if local(each.tag) == "xf"]
    for style in styles:
        yield codes.get(style, "General")


class _Strings:
    """The texts that cells refer to, read when the first is needed."""

    def __init__(self, package: Package, part: str) -> None:
        self._package, self._part = package, part
        self._found: list[str] | None = None

    def all(self) -> list[str]:
        if self._found is None:
            self._found = []
            for element in self._package.elements(self._part) if self._package.has(self._part) else ():
                if local(element.tag) == "si":
                    self._found.append(text_of(element))
                    element.clear()
        return self._found


class Relation(NamedTuple):
    """A relation between parts: its key, its kind (the end of its type) and the target."""

    key: str
    kind: str
    part: str


class Package:
    """The parts of an office file. Their names are compared without case, as spreadsheet programs do."""

    def __init__(self, data: bytes, uri: str) -> None:
        self.uri = uri
        self._stored = data
        with self.reading():
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._names = {_name(each): each for each in self._zip.namelist()}

    @contextmanager
    def reading(self, place: str = "") -> Iterator[None]:
        """Turn the errors of damaged files into DocumentErrors."""
        try:
            yield
        except ParseError as error:
            if str(error).startswith(NO_MEMORY):
                raise MemoryError from error
            raise self._damaged(place, error) from error
        except _DAMAGE as error:
            raise self._damaged(place, error) from error

    def _damaged(self, place: str, error: Exception) -> DocumentError:
        what = f", {place}, cannot be read" if place else " is a zip file, but not a complete Excel workbook"
        return DocumentError(
            f"{self.uri}{what} ({error}). Open it in a spreadsheet program and save it again as .xlsx."
        )

    def has(self, part: str) -> bool:
        """Return whether the file has a part."""
        return _name(part) in self._names

    def parts(self, beginning: str) -> list[str]:
        """Return the parts whose names begin so."""
        return [name for name in self._names if name.startswith(beginning.lower()) and name.endswith(".xml")]

    def open(self, part: str) -> IO[bytes]:
        """Open a part. Raises KeyError if it is missing."""
        if not self.has(part):
            raise KeyError(f"{part} is missing")
        return self._zip.open(self._names[_name(part)])

    def elements(self, part: str) -> Iterator[Element]:
        """Yield the elements of a part when they end."""
        with self.open(part) as stream:
            for _, element in iterparse(stream):
                yield element

    def relations(self, part: str) -> Iterator[Relation]:
        """Yield the relations of a part ("" for the file) to other parts of the file."""
        folder, name = posixpath.split(part)
        listed = posixpath.join(folder, "_rels", f"{name}.rels")
        for element in self.elements(listed) if self.has(listed) else ():
            if local(element.tag) == "Relationship" and element.get("TargetMode") != "External":
                target = element.get("Target", "").replace("\\", "/")
                found = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
                yield Relation(element.get("Id", ""), element.get("Type", "").rpartition("/")[2], found)


_DAMAGE: Final = (
    KeyError, ValueError, TypeError, IndexError, OSError, EOFError, RuntimeError, NotImplementedError, OverflowError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def _name(part: str) -> str:
    return part.replace("\\", "/").lstrip("/").lower()


def local(tag: str) -> str:
    """Return a tag without its namespace: there are two sets of them, transitional and strict."""
    return tag.rpartition("}")[2]


def attribute(element: Element, name: str) -> str:
    """Return the attribute with this local name in any namespace, such as ``r:id``, or ""."""
    return next((value for key, value in element.items() if key.endswith(f"}}{name}")), "")


def text_of(element: Element) -> str:
    """Return the text of a rich string, without the phonetic guides above it."""
    said = RaisedText()
    for child in element:
        tag = local(child.tag)
        if tag == "t":
            said.add(child.text or "")
        elif tag == "r":
            raised = any(local(each.tag) == "vertAlign" and each.get("val") == "superscript" for each in child.iter())
            for each in child:
                if local(each.tag) == "t":
                    said.add(each.text or "", raised)
    return unescaped(said.text())


def unescaped(text: str) -> str:
    """Replace escaped characters such as ``_x000D_``; those that XML forbids become blanks."""
    return _ESCAPED.sub(_character, text) if "_x" in text else text


_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")


def _character(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return " " if code < 32 or 0xD800 <= code < 0xE000 or code >= 0xFFFE else chr(code)


@lru_cache(maxsize=MOST_COLUMNS)
def _column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - 64
    if not 0 < column <= MOST_COLUMNS:
        raise ValueError(f"column {letters} does not exist")
    return column - 1


def column_of(place: str) -> int:
    """Return the column, from 0, of an address such as ``AB12``. Raises ValueError if there is no such column."""
    letters = place.rstrip("0123456789").replace("$", "")
    if not letters.isalpha() or len(letters) > 3:
        raise ValueError(f"{place[:20]} is not a cell")
    return _column(letters.upper())


def address(row: int, column: int) -> str:
    """Return the address of a cell, such as ``AB12``; ``column`` counts from 0."""
    letters, column = "", column + 1
    while column:
        column, left = divmod(column - 1, 26)
        letters = chr(65 + left) + letters
    return f"{letters}{row}"


def _whole(said: str | None, default: int, most: int) -> int:
    if said is None:
        return default
    number = int(said)
    if not 0 <= number <= most:
        raise ValueError(f"number {number} is too large")
    return number
