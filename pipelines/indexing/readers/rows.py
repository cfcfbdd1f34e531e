"""One row of a jsonl or parquet file as a document: ``doc_id`` and ``text``, optional ``title`` and ``metadata``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers.raw import BadRow, RawDocument, Reading, newlines

_MOST_ID_CHARS: Final = 1000
"""Ours: the id stands again in every chunk of the document."""

_MOST_METADATA_CHARS: Final = 1_000_000
"""Ours: metadata says of a document what a library card does."""


def document_of_row(row: Any, uri: str, number: int) -> Reading:
    """The document in ``row``, or a BadRow that says what is wrong with row ``number`` (from 1) of ``uri``."""
    where = f"row {number}"
    try:
        return _parse(row, uri, where)
    except DocumentError as error:
        named = row.get("doc_id") if isinstance(row, Mapping) else None
        return BadRow(named if isinstance(named, str) and _is_text(named) and named else f"{uri} {where}", str(error))


def _parse(row: Any, uri: str, where: str) -> RawDocument:
    if not isinstance(row, Mapping):
        raise DocumentError(f'{uri}, {where}, is not an object. Write each row as {{"doc_id": ..., "text": ...}}.')
    values = {name: row.get(name) for name in ("doc_id", "text", "title")}
    values["title"] = values["title"] if values["title"] is not None else ""
    for name, value in values.items():
        if not isinstance(value, str):
            what = "is missing" if value is None else f"is a {type(value).__name__}, not text"
            raise DocumentError(f"{uri}, {where}: {name} {what}. Mend the row and index again.")
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
    metadata = _metadata(row.get("metadata"), uri, where)
    return RawDocument(str(values["doc_id"]), newlines(str(values["text"])), uri, str(values["title"]), where, metadata)


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
