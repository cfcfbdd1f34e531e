"""Read table files: CSV files with any common delimiter, and the sheets of Excel workbooks.

Cells come as values (``Sheet.values``) for columns that a program reads, or as a person sees them (``Sheet.shown``) for
text.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from okralong.pipelines.core.types import DocumentError

_DELIMITERS: Final = (",", ";", "\t", "|")
_LOOKED_AT: Final = 50
"""Rows from which the delimiter is detected. # project default"""
_MOST_FIELD_CHARS: Final = 2**31 - 1
_NUL_SHARE: Final = 0.001


def decoded_table(data: bytes, uri: str) -> str:
    """Decode a table file as UTF-8, UTF-16 with a byte-order mark (Excel's "Unicode text"), or cp1252.

    Raises:
        DocumentError: The file has none of these encodings.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encodings = ["utf-16"]
    elif data.count(0) > len(data) * _NUL_SHARE:
        encodings = []
    else:
        encodings = ["utf-8-sig", "cp1252"]
    for encoding in encodings:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise DocumentError(f"{uri} is not text in UTF-8, UTF-16 or cp1252. Save it as CSV in UTF-8.")


def delimiter_of(text: str) -> str:
    """Return the delimiter (comma, semicolon, tab or bar) that gives the most rows of equal width; comma by default."""
    head = text[: 1 << 16]
    best, found = (0, 0), ","
    for each in _DELIMITERS:
        widths = [len(row) for _, row in zip(range(_LOOKED_AT), _rows(head, each), strict=False) if row]
        wide = [width for width in widths if width > 1]
        usual = max(set(wide), key=wide.count, default=0)
        score = (wide.count(usual), usual)
        if score > best:
            best, found = score, each
    return found


def csv_rows(text: str, delimiter: str | None = None) -> Iterator[list[str]]:
    """Yield the rows of a CSV file, including empty ones; without a ``delimiter`` it is detected."""
    return _rows(text, delimiter or delimiter_of(text))


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_MOST_FIELD_CHARS)
    return csv.reader(io.StringIO(text.replace("\x00", " "), newline=""), delimiter=delimiter)


NO_MEMORY: Final = "out of memory"
"""Beginning of the XML parser's error message when an allocation failed."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook; rows are read on demand."""

    name: str
    _cells: Any

    def values(self) -> Iterator[list[Any]]:
        """Yield the values of each row: str, int, float, bool, datetime, date, time, timedelta, or None."""
        for row in self._cells.iter_rows(values_only=True):
            yield list(row)

    def shown(self) -> Iterator[list[str]]:
        """Yield each row as a person sees it, with the number formats applied."""
        for row in self._cells.iter_rows():
            words = ["" if cell.value is None else shown(cell.value, cell.number_format or "General") for cell in row]
            while words and not words[-1]:  # a row may be formatted up to the last of 16,384 columns
                words.pop()
            yield words


@dataclass(frozen=True, slots=True)
class Workbook:
    """An Excel workbook: title, visible sheets in order, and the number of hidden sheets."""

    title: str
    sheets: tuple[Sheet, ...]
    hidden: int


def read_workbook(data: bytes, uri: str) -> Workbook:
    """Open an .xlsx file, with the values that its formulas had when it was saved.

    Raises:
        DocumentError: The file is not an Excel workbook.
    """
    import openpyxl  # imported here: it takes 0.1 s, and most parser processes never need it
    from openpyxl.utils.exceptions import InvalidFileException

    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise DocumentError(
            f"{uri} is not an .xlsx file (no zip inside): it may be an old .xls, or be protected by a password. Open "
            "it in a spreadsheet program and save it as .xlsx without password."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except (KeyError, ValueError, TypeError, SyntaxError, OSError, InvalidFileException, zipfile.BadZipFile) as error:
        if str(error).startswith(NO_MEMORY):
            raise MemoryError from error
        raise DocumentError(
            f"{uri} is a zip file, but not a complete Excel workbook ({error}). Open it in a spreadsheet program and "
            "save it again as .xlsx."
        ) from error
    seen = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    for sheet in seen:
        sheet.reset_dimensions()  # a file may declare a billion rows that do not exist
    title = str(book.properties.title or "")
    return Workbook(title, tuple(Sheet(sheet.title, sheet) for sheet in seen), len(book.worksheets) - len(seen))


_SECTIONS: Final = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|_.|\*.')
_LITERAL: Final = re.compile(r'"([^"]*)"|\\(.)|\[\$([^\]-]*)(?:-[^\]]*)?\]|([$€£¥ ])')
_DIGITS: Final = re.compile(r"[#0?](?:[#0?,.]*[#0?])?")
_MOST_DECIMALS: Final = 15


def shown(value: Any, number_format: str = "General") -> str:
    """Return a cell's value as a spreadsheet program shows it.

    Dates are in ISO 8601; numbers have the decimals, thousands separators, percent and currency signs of their format.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return _number(value, number_format)
    if isinstance(value, datetime):
        midnight = value.time() == time.min
        return value.date().isoformat() if midnight else value.isoformat(" ", timespec="seconds")
    if isinstance(value, date | time | timedelta):
        return str(value)
    return str(value)


def _number(value: int | float, number_format: str) -> str:
    sections = number_format.split(";")
    pattern = sections[0]
    bare = _SECTIONS.sub("", pattern)
    digits = _DIGITS.search(bare)
    if digits is None or "E" in bare.upper().replace("GENERAL", "") or "/" in bare or value != value:
        return _general(value)
    whole, _, decimals = digits[0].partition(".")
    percent = "%" in bare
    scaled = value * 100 if percent else value
    places = min(len(decimals.replace(",", "")), _MOST_DECIMALS)
    width = whole.count("0") + (places + 1 if places else 0)  # "0000" pads with zeros, "#,##0" does not
    words = f"{abs(scaled):{',' if ',' in whole else f'0{width}'}.{places}f}"
    words += "%" if percent else ""
    before, after = _around(pattern)
    words = f"{before}{words}{after}"
    if value >= 0 or float(f"{scaled:.{places}f}") == 0:
        return words
    return f"({words})" if len(sections) > 1 and "(" in sections[1] else f"-{words}"


def _around(pattern: str) -> tuple[str, str]:
    """Return the text, such as currency signs, that a format puts before and after the digits."""
    first = re.search("[#0?]", _blanked(pattern))
    place = first.start() if first else len(pattern)
    before, after = "", ""
    for match in _LITERAL.finditer(pattern):
        word = next(group for group in match.groups() if group is not None)
        if match.start() < place:
            before += word
        else:
            after += word
    return before.lstrip(" (-"), after.rstrip(" )")


def _blanked(pattern: str) -> str:
    """Replace quoted words of the format with blanks of the same length."""
    return _SECTIONS.sub(lambda match: " " * len(match[0]), pattern)


def _general(value: int | float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def plain(value: Any) -> str:
    """Return a value as a metadata string: dates in ISO 8601, whole numbers without a decimal point."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        return value.date().isoformat() if midnight else value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
