"""Read CSV files with any common delimiter."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any, Final

from okralong.pipelines.core.encodings import UNDECODED, decoded
from okralong.pipelines.core.types import DocumentError

_DELIMITERS: Final = (",", ";", "\t", "|")
_LOOKED_AT: Final = 50
"""Rows from which the delimiter is detected. # project default"""
_MOST_FIELD_CHARS: Final = 2**31 - 1
_NUL_SHARE: Final = 0.001


def decoded_table(data: bytes, uri: str) -> str:
    """Decode a table file as UTF-8, UTF-16 (Excel's "Unicode text") or cp1252.

    Raises:
        DocumentError: The file has none of these encodings.
    """
    return with_doubt(data, uri)[0]


def with_doubt(data: bytes, uri: str) -> tuple[str, bool]:
    """Decode a table file, and return whether it may have another encoding. Raises DocumentError."""
    wide = _utf16_of(data)
    if wide or data.count(0) <= len(data) * _NUL_SHARE:
        text, doubtful = (data.decode(wide, "replace"), False) if wide else decoded(data)
        if text.count(UNDECODED) <= data.count(UNDECODED.encode()):
            return text.removeprefix("\ufeff"), doubtful
    raise DocumentError(f"{uri} is not text in UTF-8, UTF-16 or cp1252. Save it as CSV in UTF-8.")


def _utf16_of(data: bytes) -> str:
    """Return the byte order of UTF-16, "" for other text: without a mark, one byte of most characters is zero."""
    marks = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    if data[:2] in marks:
        return marks[data[:2]]
    first, second = data[0::2].count(0), data[1::2].count(0)
    if len(data) % 2 or max(first, second) * 4 < len(data) or min(first, second):
        return ""
    return "utf-16-le" if second else "utf-16-be"


def declared_delimiter(text: str) -> str:
    """Return the delimiter of a first line such as ``sep=;``, by which Excel declares it, or ""."""
    first = text.partition("\n")[0].strip("\r ")
    return first[-1] if first.lower().startswith("sep=") and len(first) == 5 else ""


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
    yield from _reader(io.StringIO(text.replace("\x00", " "), newline=""), delimiter)


def _reader(lines: Iterable[str], delimiter: str, **more: Any) -> Any:
    csv.field_size_limit(_MOST_FIELD_CHARS)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, **more)


def mended_rows(text: str, delimiter: str) -> tuple[list[list[str]], int]:
    """Return the rows of a CSV file, and the number of lines with a quotation mark that is never closed.

    Such a mark would join the lines up to the next one to one cell; it is read as a character.
    """
    lines = list(io.StringIO(text.replace("\x00", " "), newline=""))
    rows: list[list[str]] = []
    start, unclosed = 0, 0
    while start < len(lines):
        reader, read = _reader((lines[place] for place in range(start, len(lines))), delimiter, strict=True), 0
        try:
            for row in reader:
                rows.append(row)
                read = reader.line_num
            break
        except csv.Error:
            line = lines[start + read]
            odd = line.count('"') % 2
            rows += _reader([line], delimiter, quoting=csv.QUOTE_NONE if odd else csv.QUOTE_MINIMAL)
            unclosed += odd
            start += read + 1
    return rows, unclosed


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
