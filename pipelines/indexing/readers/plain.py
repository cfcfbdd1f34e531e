"""Plain text: the file as it is, once its bytes are known to be text."""

from __future__ import annotations

from collections.abc import Iterator

from okralong.pipelines.indexing.readers.raw import RawDocument, Reading, Source, decode


def read(source: Source) -> Iterator[Reading]:
    """The one document of a .txt file. Raises DocumentError when the bytes are not text."""
    yield RawDocument(source.doc_id, decode(source.read_bytes(), source.uri), source.uri)
