"""A raw document made ready for the ``documents`` table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, TableSpan
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.indexing.tables_in_text import find_tables


def make_document(raw: RawDocument) -> Document:
    """``raw`` with its tables found and its tokens counted."""
    return document_with_tables(raw, ((table.start_char, table.end_char) for table in find_tables(raw.text, "")))


def document_with_tables(raw: RawDocument, tables: Iterable[tuple[int, int]]) -> Document:
    """``raw`` with its tokens counted; ``tables`` are the ranges ``[start_char, end_char)`` of its tables, in order.

    ``sha256`` covers the id and the text, so that two copies of one text still have chunks of different ids.
    """
    digest = hashlib.sha256(f"{raw.doc_id}\0{raw.text}".encode()).hexdigest()
    return Document(
        doc_id=raw.doc_id,
        text=raw.text,
        title=raw.title,
        source_uri=raw.source_uri,
        sha256=digest,
        n_tokens=count_tokens(raw.text),
        tables=tuple(TableSpan(f"{digest[:16]}:t{number}", start, end) for number, (start, end) in enumerate(tables)),
        metadata=raw.metadata,
    )
