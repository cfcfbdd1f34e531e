"""A document as a frame: its text and the places of its tables in the body, the rest in the head.

The side that takes it in believes only what it can check: ids and hashes are made again from the text.
"""

from __future__ import annotations

from array import array
from itertools import pairwise
from typing import Final

from okralong.pipelines.indexing.document_hash import document_hash, table_key
from okralong.pipelines.indexing.reading.frames import BrokenFrame, Head
from okralong.pipelines.values import Document, TableSpan

BODY_BYTES_A_TEXT_BYTE: Final = 3
"""Most bytes of a body for each of the text: a table has a place of 16 bytes, and two lines of text at least."""

_PLACES: Final = "q"


def to_frame(document: Document) -> tuple[Head, bytes]:
    """Head and body of ``document``; its ``source_uri`` is known to the other side."""
    text = document.text.encode()
    places = array(_PLACES)
    for table in document.tables:
        places.extend((table.start_char, table.end_char))
    head = {
        "doc_id": document.doc_id,
        "title": document.title,
        "metadata": dict(document.metadata),
        "n_tokens": document.n_tokens,
        "text_bytes": len(text),
    }
    return head, text + places.tobytes()


def from_frame(head: Head, body: bytes, source_uri: str) -> Document:
    """The document in a frame. Raises BrokenFrame when its parts are not what a document is made of."""
    try:
        text_bytes = _number(head["text_bytes"])
        if text_bytes > len(body):
            raise ValueError(f"{text_bytes} bytes of text in a body of {len(body)}")
        text = body[:text_bytes].decode()
        places = array(_PLACES)
        places.frombytes(body[text_bytes:])
        doc_id = _word(head["doc_id"])
        digest = document_hash(doc_id, text)
        return Document(
            doc_id=doc_id,
            text=text,
            title=_word(head["title"]),
            source_uri=source_uri,
            sha256=digest,
            n_tokens=_number(head["n_tokens"]),
            tables=_tables(places, len(text), table_key(digest)),
            metadata={_word(name): _word(value) for name, value in head["metadata"].items()},
        )
    except (KeyError, ValueError, AttributeError) as error:
        raise BrokenFrame(f"no document: {error!r}") from error


def _tables(places: array[int], length: int, key: str) -> tuple[TableSpan, ...]:
    starts, ends = places[::2], places[1::2]
    rising = all(here < there for here, there in pairwise(places))
    if len(starts) != len(ends) or not rising or (places and not 0 <= places[0] < places[-1] <= length):
        raise ValueError("its tables do not stand in the text one after the other")
    return tuple(
        TableSpan(f"{key}:t{number}", start, end) for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r:.50} is not a count")
    return value
