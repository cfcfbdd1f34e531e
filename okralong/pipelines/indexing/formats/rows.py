"""Parse files in which each row is a document: JSON lines and Parquet."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.table_files import plain
from okralong.pipelines.core.types import NOT_READ, DocumentError
from okralong.pipelines.indexing.documents import (
    BadRow,
    Losses,
    ParserOutput,
    RawDocument,
    Source,
    decode,
    newlines,
)

_MOST_ID_CHARS: Final = 1000
"""Every chunk of the document repeats its id. # project default"""

_MOST_METADATA_CHARS: Final = 1_000_000
"""Metadata is a brief description of a document. # project default"""


def document_of_row(row: Any, uri: str, number: int, unread: int = 0) -> ParserOutput:
    """Return the document of ``row``, or a BadRow with the error in row ``number`` (from 1) of ``uri``.

    ``unread`` is the number of its columns that were left out of ``row``.
    """
    where = f"row {number}"
    try:
        return _parse(row, uri, where, unread)
    except DocumentError as error:
        named = row.get("doc_id") if isinstance(row, Mapping) else None
        return BadRow(named if isinstance(named, str) and _is_text(named) and named else f"{uri} {where}", str(error))


def _parse(row: Any, uri: str, where: str, unread: int) -> RawDocument:
    if not isinstance(row, Mapping):
        raise DocumentError(f'{uri}, {where}, is not an object. Write each row as {{"doc_id": ..., "text": ...}}.')
    values = {name: row.get(name) for name in ("doc_id", "text", "title")}
    values["title"] = values["title"] if values["title"] is not None else ""
    for name, value in values.items():
        if not isinstance(value, str):
            what = "is missing" if value is None else f"is a {type(value).__name__}, not text"
            raise DocumentError(f"{uri}, {where}: {name} {what}. Correct the row and index again.")
        if not _is_text(value):
            raise DocumentError(
                f"{uri}, {where}: {name} holds half a surrogate pair or a NUL character, which is not text. "
                "Export the row again as UTF-8."
            )
    if len(str(values["doc_id"])) > _MOST_ID_CHARS:
        raise DocumentError(
            f"{uri}, {where}: doc_id has {len(str(values['doc_id']))} characters, more than {_MOST_ID_CHARS}. "
            "Give the row a name that questions can point to."
        )
    if not str(values["doc_id"]).strip():
        raise DocumentError(f"{uri}, {where}: doc_id is empty. Give the row a name that questions can point to.")
    losses = Losses()
    losses.add(*_UNREAD_COLUMNS, unread)
    metadata = _columns(row, losses) | _metadata(row.get("metadata"), uri, where)
    if metadata.pop(NOT_READ, ""):
        losses.add(f"column named {NOT_READ}, a reserved name", f"columns named {NOT_READ}")
    metadata |= losses.metadata()
    return RawDocument(str(values["doc_id"]), newlines(str(values["text"])), uri, str(values["title"]), where, metadata)


_MOST_COLUMN_CHARS: Final = 1000
"""Longest value of a metadata column; longer ones are texts and not used in filters. # project default"""


_UNREAD_COLUMNS: Final = ("list or binary column", "list or binary columns")


def _columns(row: Mapping[Any, Any], losses: Losses) -> dict[str, str]:
    """Return the other columns of a row with one short value each, which become metadata."""
    found = {}
    for name, value in row.items():
        if name in _COLUMNS or value is None:
            continue
        if isinstance(value, Mapping | list | tuple | bytes):
            losses.add(*_UNREAD_COLUMNS, bool(value))
            continue
        said = plain(value)
        if len(said) > _MOST_COLUMN_CHARS:
            losses.add("column with a long value", "columns with long values")
        elif said and _is_text(str(name)) and _is_text(said):
            found[str(name)] = said
    return found


def _metadata(value: Any, uri: str, where: str) -> dict[str, str]:
    pairs = value if isinstance(value, list) and all(isinstance(p, tuple) and len(p) == 2 for p in value) else None
    if value is None:
        return {}
    if not isinstance(value, Mapping) and pairs is None:
        raise DocumentError(f"{uri}, {where}: metadata is a {type(value).__name__}. Write it as names and values.")
    items = dict(pairs) if pairs is not None else dict(value)
    plain = {str(k): v if isinstance(v, str) else json.dumps(v, default=str) for k, v in items.items() if v is not None}
    if not all(_is_text(part) for pair in plain.items() for part in pair):
        raise DocumentError(
            f"{uri}, {where}: metadata holds characters that are not text. Export the row again as UTF-8."
        )
    if sum(len(part) for pair in plain.items() for part in pair) > _MOST_METADATA_CHARS:
        raise DocumentError(
            f"{uri}, {where}: metadata has more than {_MOST_METADATA_CHARS} characters. Put long texts into text."
        )
    return plain


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value


def read_jsonl(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of each line, or a BadRow for an invalid line; blank lines are skipped."""
    with source.open() as stream:
        for number, line in enumerate(io.BufferedReader(stream), start=1):
            if not line.strip():
                continue
            yield _reading(line, source.uri, number)


def _reading(line: bytes, uri: str, number: int) -> ParserOutput:
    place = f"{uri} row {number}"
    try:
        return document_of_row(json.loads(decode(line, uri)), uri, number)
    except (ValueError, RecursionError) as error:
        return BadRow(place, f"{uri}, row {number}, is not JSON ({error}). Correct the line and index again.")
    except DocumentError as error:
        return BadRow(place, f"Row {number} of {error}")
    except MemoryError:  # this line's memory is free again, so later rows can be read
        return BadRow(
            place,
            f"{uri}, row {number}, has {len(line) / 1e6:.1f} MB, which needed more memory than limits.document_gib. "
            "Split the row, or raise the limit in the index config.",
        )


_COLUMNS: Final = ("doc_id", "text", "title", "metadata")
_ROWS_AT_ONCE: Final = 16
"""Rows per batch, because documents are long. # project default"""


def read_parquet(source: Source) -> Iterator[ParserOutput]:
    """Yield the document of each row. Raises DocumentError if the file is not Parquet or lacks doc_id or text."""
    with source.open() as stream:
        try:
            file = pq.ParquetFile(stream)
            names = file.schema_arrow.names
        except MemoryError:  # Arrow's MemoryError is also an ArrowException
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} is not a readable Parquet file ({error}). Write it again, then index again."
            ) from error
        missing = [name for name in ("doc_id", "text") if name not in names]
        if missing:
            raise DocumentError(
                f"{source.uri} has no column {' and no column '.join(missing)} (it has {', '.join(names)}). "
                "Rename the columns to doc_id and text."
            )
        columns = [name for name in names if name in _COLUMNS or _holds_values(file.schema_arrow.field(name).type)]
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield document_of_row(row, source.uri, number, len(names) - len(columns))
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} breaks off after row {number} ({error}). Write the file again, then index again."
            ) from error


def _holds_values(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
