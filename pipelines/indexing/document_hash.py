"""The hash that names a version of a document, and what is named after it."""

from __future__ import annotations

import hashlib


def document_hash(doc_id: str, text: str) -> str:
    """The sha256 of a document. It covers the id, so that two copies of one text still have chunks of different ids."""
    return hashlib.sha256(f"{doc_id}\0{text}".encode()).hexdigest()


def table_key(digest: str) -> str:
    """What the ids of the tables of a document with hash ``digest`` begin with."""
    return digest[:16]
