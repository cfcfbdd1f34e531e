"""Read CSV files with any common delimiter."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any, Final

from okralong.pipelines.core.number_formats import shown as shown
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
