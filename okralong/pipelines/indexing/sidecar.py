"""Metadata files: tables with a row per document, found by id or file, whose columns serve as filters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.versions import DocumentEntry
from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.table_files import csv_rows, decoded_table, plain
from okralong.pipelines.core.types import NOT_READ, DocumentError, InputError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.core.workbook_process import read_sheets

_KINDS: Final = (".csv", ".tsv", ".xlsx", ".jsonl", ".parquet")
_KEYS: Final = ("doc_id", "file")
_RESERVED: Final = ("source_uri", "source_name", NOT_READ)
_MOST_KEY_CHARS: Final = 200
_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class SidecarRow:
    """Row ``number`` (from 1) of the file: its document, by id or by file, and its columns."""

    number: int
    doc_id: str
    file: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A metadata file with the ``sha256`` of its content."""

    uri: str
    sha256: str
    rows: tuple[SidecarRow, ...]


def read_sidecar(location: str) -> Sidecar:
    """Read the metadata file at a path or URI. Raises InputError with file, row and remedy."""
    kind = PurePosixPath(location).suffix.lower()
    if kind not in _KINDS:
        raise InputError(f"The metadata {location} has none of the suffixes {', '.join(_KINDS)}. Nothing was indexed.")
    filesystem, inside = located(location)
    if not filesystem.get_file_info(inside).is_file:
        raise InputError(f"The metadata {location} does not exist. Check the path; nothing was indexed.")
    with open_file(filesystem, inside) as opened:
        data = bytes(opened.read())
    try:
        table = list(_table(kind, data, location))
    except DocumentError as error:
        raise InputError(f"{error} Nothing was indexed.") from error
    if not table:
        raise InputError(f"The metadata {location} is empty. Its first row names the columns; nothing was indexed.")
    head = [plain(name) if name is not None else "" for name in table[0][1]]
    head = [name.lower() if name.lower() in _KEYS else name for name in head]
    _check_head(head, location)
    found = []
    for number, cells in table[1:]:
        values = {
            name: plain(value)
            for name, value in zip(head, cells, strict=False)
            if name and value is not None and plain(value)
        }
        if not values:
            continue
        doc_id, file = values.pop("doc_id", ""), values.pop("file", "")
        if not (doc_id or file):
            raise InputError(
                f"{location}, row {number}, has neither doc_id nor file, so it belongs to no document. Fill in one of "
                "them, or delete the row; nothing was indexed."
            )
        found.append(SidecarRow(number, doc_id, file, values))
    return Sidecar(location, hashlib.sha256(data).hexdigest(), tuple(found))


def _check_head(head: Sequence[str], location: str) -> None:
    if not set(_KEYS) & set(head):
        raise InputError(
            f"The metadata {location} has no column doc_id and no column file (it has {', '.join(filter(None, head))})."
            " Name the column that identifies a row's document; nothing was indexed."
        )
    names = [name for name in head if name]
    twice = sorted({name for name in names if [each.lower() for each in names].count(name.lower()) > 1})
    refused = [name for name in names if name.lower() in _RESERVED or len(name) > _MOST_KEY_CHARS]
    if twice or refused:
        why = f"the column {twice[0]!r} twice" if twice else f"a column {refused[0][:_MOST_KEY_CHARS]!r}"
        more = "" if twice else ", which is reserved by okralong or too long"
        raise InputError(f"The metadata {location} has {why}{more}. Rename it; nothing was indexed.")


def _table(kind: str, data: bytes, uri: str) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows with their numbers from 1, the header first; empty rows are skipped."""
    if kind == ".parquet":
        try:
            table = pq.read_table(pa.BufferReader(data))
        except (OSError, pa.ArrowException) as error:
            raise DocumentError(f"{uri} is not a readable Parquet file ({error}). Write it again.") from error
        yield from _of_dicts(table.to_pylist(), table.column_names)
        return
    if kind == ".jsonl":
        rows = list(_json_rows(data, uri))
        yield from _of_dicts(rows, list(dict.fromkeys(name for row in rows for name in row)))
        return
    if kind == ".xlsx":
        sheet = next((each for each in read_sheets(data, uri) if not each.hidden), None)
        lines: Iterable[Sequence[Any]] = sheet.values() if sheet else ()
    else:
        lines = csv_rows(decoded_table(data, uri), "\t" if kind == ".tsv" else None)
    for number, cells in enumerate(lines, start=1):
        if any(cell is not None and str(cell).strip() for cell in cells):
            yield number, cells


def _of_dicts(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
    yield 1, list(names)
    for number, row in enumerate(rows, start=1):
        yield number, [_scalar(row.get(name)) for name in names]


def _scalar(value: Any) -> Any:
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict | tuple) else value


def _json_rows(data: bytes, uri: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(decoded_table(data, uri).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"{uri}, row {number}, is not JSON ({error}). Correct the line.") from error
        if not isinstance(row, dict):
            raise DocumentError(f"{uri}, row {number}, is not an object. Write each row as names and values.")
        yield row


@dataclass(frozen=True, slots=True)
class Matched:
    """Columns by doc_id, and the rows without a document in the archive."""

    values: Mapping[str, Mapping[str, str]]
    unmatched: tuple[SidecarRow, ...]

    def note(self, uri: str) -> str:
        """Return a note for people about unmatched rows, "" if there are none."""
        if not self.unmatched:
            return ""
        first = ", ".join(f"row {row.number} ({row.doc_id or row.file})" for row in self.unmatched[:_SHOWN])
        count, others = len(self.unmatched), " and others" if len(self.unmatched) > _SHOWN else ""
        rows = f"{counted(count, 'row')} of {uri} {agreeing(count, 'matches')}"
        return f"{rows} no document of the archive: {first}{others}"


def matched(sidecar: Sidecar, entries: Iterable[DocumentEntry]) -> Matched:
    """Find each row's document by ``doc_id``, or by ``file``, a name or the end of a path.

    A file of rows passes its columns on to all its documents.

    Raises:
        InputError: A file's name fits several files, or two rows contradict each other.
    """
    known = {entry.doc_id: entry for entry in entries}
    by_name: dict[str, dict[str, list[str]]] = {}
    for entry in known.values():
        name = PurePosixPath(entry.source_uri).name
        by_name.setdefault(name, {}).setdefault(entry.source_uri, []).append(entry.doc_id)
    found: dict[str, dict[str, str]] = {}
    said: dict[tuple[str, str], SidecarRow] = {}
    unmatched = []
    for row in sidecar.rows:
        doc_ids = [row.doc_id] if row.doc_id in known else [] if row.doc_id else _of_file(row, by_name, sidecar.uri)
        if not doc_ids:
            unmatched.append(row)
        for doc_id in doc_ids:
            for name, value in row.values.items():
                before = said.setdefault((doc_id, name), row)
                if before.values[name] != value:
                    raise InputError(
                        f"{sidecar.uri}, row {row.number}, gives {name} = {value!r} for the document {doc_id!r}, and "
                        f"row {before.number} gives {before.values[name]!r}. Delete one of them; nothing was indexed."
                    )
            found.setdefault(doc_id, {}).update(row.values)
    return Matched(found, tuple(unmatched))


def _of_file(row: SidecarRow, by_name: Mapping[str, Mapping[str, list[str]]], uri: str) -> list[str]:
    wanted = row.file.replace("\\", "/").removeprefix("./")
    candidates = by_name.get(PurePosixPath(wanted).name, {})
    fitting = [file for file in candidates if file == wanted or file.endswith(f"/{wanted.lstrip('/')}")]
    if len(fitting) > 1:
        raise InputError(
            f"{uri}, row {row.number}: {row.file!r} may be {fitting[0]} or {fitting[1]}. Write more of the path, or "
            "use a column doc_id; nothing was indexed."
        )
    return candidates[fitting[0]] if fitting else []
