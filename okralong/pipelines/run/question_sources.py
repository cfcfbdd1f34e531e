"""Read questions from files, standard input, lists, data frames and Arrow tables.

``read_rows`` yields ``(place, values)`` for each row that is not blank.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.table_files import csv_rows, declared_delimiter, decoded_table
from okralong.pipelines.core.types import DocumentError, InputError, Question
from okralong.pipelines.core.workbooks import read_workbook
from okralong.pipelines.run.matrix import Columns, column_rows


class ArrowTable(Protocol):
    """A pyarrow Table, or a data frame (pandas, polars, ...) that converts to one."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the table as an Arrow C stream."""


Questions: TypeAlias = str | Path | Iterable[str | Mapping[str, Any] | Question] | ArrowTable
"""A path or URI, "-" for standard input, a list of texts or rows, a data frame, or a table."""
STDIN: Final = "-"
COLUMNS: Final = (
    *("query_id", "question", "doc_ids", "for_each", "where"),
    *("answer_type", "choices", "language", "answers", "evidence", "type"),
)
DELIMITERS: Final = (",", ";", "\t", "|")
SHEET: Final = "questions"


def source_name(source: Questions) -> str:
    """Return the name that messages use for the source."""
    if isinstance(source, (str, Path)):
        return "standard input" if source == STDIN else str(source)
    return "the questions given"


def column_name(key: Any) -> Any:
    """Return a column's name without surrounding blanks; the name of a known column in lower case."""
    if not isinstance(key, str):
        return key
    plain = key.strip()
    return plain.lower() if plain.lower() in COLUMNS else plain


def cell_text(value: Any) -> str:
    """Return a cell as text, "" if it is empty. Whole numbers lose the ".0" that pandas and Excel add."""
    value = plain_value(value)
    if value is None:
        return ""
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, datetime) and value.time() == datetime.min.time() and value.tzinfo is None:
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def plain_value(value: Any) -> Any:
    """Convert a value to a built-in type; a data frame's missing values become None."""
    if (isinstance(value, float) and math.isnan(value)) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if not isinstance(value, (str, bytes)) and hasattr(value, "tolist"):  # NumPy arrays and scalars
        return plain_value(value.tolist())
    return value


Rows: TypeAlias = Iterator[tuple[str, Any]]
Say: TypeAlias = Callable[[str], object]


def say_nothing(_: str) -> None:
    """Ignore what a source says of itself."""


def read_rows(source: Questions, name: str, say: Say = say_nothing) -> Rows:
    """Yield the rows of a source, called ``name`` in messages.

    ``say`` gets what a person should know of how it was read. Raises InputError if it cannot be read.
    """
    if isinstance(source, (str, Path)):
        if source == STDIN:
            content = sys.stdin.buffer.read()
            yield from _READERS[_kind_of(content)](name, content, say)
            return
        kind = PurePosixPath(str(source)).suffix.lower()
        content = read_content(source)
        if kind not in _READERS:
            raise InputError(
                f"{name} is not a jsonl, csv, tsv, xlsx, parquet or yaml file (its suffix is {kind!r}). Convert it, or "
                "rename it."
            )
        yield from _READERS[kind](name, content, say)
        return
    for number, values in enumerate(_given(source), start=1):
        yield f"{name}, row {number}", {"question": values} if isinstance(values, str) else values


def read_checks(source: Questions, beside: str = "") -> tuple[str, ...] | None:
    """Return the checks of a columns file, or None for any other source. Raises as ``read_rows``.

    The folder that it names in ``company_facts`` is relative to the file, or to another one that it lies ``beside``.
    """
    if not isinstance(source, (str, Path)) or PurePosixPath(str(source)).suffix.lower() not in (".yaml", ".yml"):
        return None
    text = _yaml_text(str(source), read_content(source))
    parent = (beside or str(source)).rpartition("/")[0]

    def resolved(folder: str) -> str:
        if "://" in folder or PurePosixPath(folder).is_absolute():
            return folder
        found = f"{parent}/{folder}" if "://" in parent else str((Path(parent) / folder).resolve())
        if "'" in found:
            raise InputError(f"{source} names the folder {found}, whose quotation mark rules cannot have. Rename it.")
        return found

    return tuple(parse_config(Columns, text, str(source)).rules(resolved))


def _given(source: Any) -> Iterable[Any]:
    if hasattr(source, "iterrows"):  # pandas: spreadsheets have columns of mixed types, which Arrow refuses
        return list(source.to_dict("records"))
    if hasattr(source, "__arrow_c_stream__"):
        return list(pa.table(source).to_pylist())
    if isinstance(source, (Mapping, bytes)) or not isinstance(source, Iterable):
        raise InputError(
            f"Questions cannot be read from a {type(source).__name__}. Give a path, a list of texts or of rows, a data "
            "frame or an Arrow table."
        )
    return source


def read_content(source: str | Path) -> bytes:
    """Return the bytes of a file. Raises InputError if it does not exist."""
    filesystem, inside = located(source)
    if not filesystem.get_file_info(inside).is_file:
        text = str(source)
        hint = " To ask a question itself from Python, give a list of questions." if " " in text.strip() else ""
        raise InputError(f"The questions file {text} does not exist. Correct its path.{hint}")
    with open_file(filesystem, inside) as opened:
        return bytes(opened.read())


def _kind_of(content: bytes) -> str:
    """Return the suffix of the format that a file's first bytes show."""
    if content.startswith(b"PAR1"):
        return ".parquet"
    if content.startswith(b"PK\x03\x04"):
        return ".xlsx"
    return ".jsonl" if content.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else ".csv"


def _jsonl(name: str, content: bytes, _: Say) -> Rows:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    number = 0
    for line in text.split("\n"):
        if line.strip():
            number += 1
            values: Any
            try:
                values = json.loads(line)
            except json.JSONDecodeError as error:
                values = error
            except (ValueError, RecursionError) as error:  # a number of a million digits, lists within lists
                values = json.JSONDecodeError(str(error), "", 0)
            yield f"{name}, row {number}", values


def _csv(name: str, content: bytes, say: Say) -> Rows:
    try:
        text = decoded_table(content, name)
    except DocumentError as error:
        raise InputError(str(error)) from error
    declared = declared_delimiter(text)
    delimiter = declared or max(DELIMITERS, key=lambda each: _likely(text, each))
    lines = enumerate(csv_rows(text, delimiter), start=1)
    try:
        yield from _table(name, itertools.islice(lines, 1 if declared else 0, None), say)
    except csv.Error as error:
        raise InputError(f"{name} is not readable CSV: {error}. Save it again.") from error


def _likely(text: str, delimiter: str) -> tuple[bool, int]:
    """Rate a delimiter by the header that it yields: whether it has a column "question", and its number of columns."""
    try:
        lines = list(itertools.islice(filter(None, csv_rows(text, delimiter)), LINES_OF_HEADER))
    except csv.Error:
        return False, 0
    header = lines[_place_of_header(lines)] if lines else []
    return any(column_name(cell) == "question" for cell in header), len(header)


def _xlsx(name: str, content: bytes, say: Say) -> Rows:
    try:
        sheets = read_workbook(content, name).sheets
        sheet = next((each for each in sheets if each.name.strip().lower() == SHEET), sheets[0] if sheets else None)
        rows = list(sheet.values()) if sheet else []
    except DocumentError as error:
        raise InputError(str(error)) from error
    except Exception as error:  # the library raises all kinds of exceptions for XML that is not a sheet
        raise InputError(f"{name} is not a readable Excel workbook: {error}. Save it again.") from error
    yield from _table(name, enumerate(rows, start=1), say)


def _table(name: str, lines: Iterable[tuple[int, Sequence[Any]]], say: Say) -> Rows:
    """Yield the rows below the header, without blank ones. Cells beyond the header are kept under the key None."""
    filled = ((line, cells[:width]) for line, cells in lines if (width := _width(cells)))
    first = list(itertools.islice(filled, LINES_OF_HEADER))
    if not first:
        return
    place = _place_of_header([cells for _, cells in first])
    line, cells = first[place]
    if place:
        say(f"{name}: line {line} is the header; the lines above it were skipped")
    header = _header(name, cells)
    for number, (line, cells) in enumerate(itertools.chain(first[place + 1 :], filled), start=1):
        values: dict[str | None, Any] = dict.fromkeys(column for column in header if column)
        for column, cell in zip(header, cells, strict=False):
            if column:
                values[column] = cell
            elif cell_text(cell).strip():
                raise InputError(
                    f"{name}: column {header.index('') + 1} has no name in the header. Name it, or delete the column "
                    "(pandas writes one unless told index=False)."
                )
        if len(cells) > len(header):
            values[None] = list(cells[len(header) :])
        yield f"{name}, row {number} (line {line})", values


def _width(cells: Sequence[Any]) -> int:
    """Return the number of cells up to the last one that is not blank."""
    return max((at for at, cell in enumerate(cells, start=1) if cell_text(cell).strip()), default=0)


LINES_OF_HEADER: Final = 10
"""Lines, without blank ones, among which the header is: people put titles above it. # project default"""


def _place_of_header(lines: Sequence[Sequence[Any]]) -> int:
    """Return the place of the line with the most known columns, ``question`` among them; 0 if there is none."""

    def known(cells: Sequence[Any]) -> int:
        names = {column_name(cell_text(cell)) for cell in cells} & set(COLUMNS)
        return len(names) if "question" in names else 0

    return max(range(len(lines)), key=lambda place: known(lines[place]), default=0)


def _header(name: str, cells: Sequence[Any]) -> list[str]:
    header = [cell_text(cell).strip() for cell in cells]
    seen: set[str] = set()
    for column in filter(None, map(column_name, header)):
        if column in seen:
            raise InputError(f"{name} has two columns named {column}. Give each a name of its own.")
        seen.add(column)
    return header


def _parquet(name: str, content: bytes, _: Say) -> Rows:
    try:
        rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{name} is not a readable Parquet file: {error}. Write it again.") from error
    for number, values in enumerate(rows, start=1):
        yield f"{name}, row {number}", values


def _yaml(name: str, content: bytes, _: Say) -> Rows:
    """Yield the columns of a matrix as rows."""
    yield from column_rows(name, _yaml_text(name, content))


def _yaml_text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 text: {error}. Save it as UTF-8.") from error


_READERS: Final[Mapping[str, Callable[[str, bytes, Say], Rows]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".xlsx": _xlsx,
    ".parquet": _parquet,
    ".yaml": _yaml,
    ".yml": _yaml,
}
