"""A raw document made ready for the ``documents`` table."""

from __future__ import annotations

from okralong.pipelines.indexing.document_hash import document_hash, table_key
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.indexing.tables_in_text import find_tables
from okralong.pipelines.tokens import count_tokens
from okralong.pipelines.values import Document


def make_document(raw: RawDocument) -> Document:
    """``raw`` with its tables found and its tokens counted."""
    digest = document_hash(raw.doc_id, raw.text)
    return Document(
        doc_id=raw.doc_id,
        text=raw.text,
        title=raw.title,
        source_uri=raw.source_uri,
        sha256=digest,
        n_tokens=count_tokens(raw.text),
        tables=find_tables(raw.text, table_key(digest)),
        metadata=raw.metadata,
    )
