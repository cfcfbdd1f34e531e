"""A document out of a frame. The side that takes it in believes only what it can check, and counts tokens itself."""

from __future__ import annotations

from array import array
from itertools import pairwise

from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.make_document import document_with_tables
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.indexing.reading.frames import BrokenFrame, Head
from okralong.pipelines.indexing.reading.parsed import PLACE


def document_of_frame(head: Head, body: bytes, source_uri: str) -> Document:
    """The document in a frame. Raises BrokenFrame when its parts are not what a document is made of."""
    try:
        text_bytes = head["text_bytes"]
        if not isinstance(text_bytes, int) or not 0 <= text_bytes <= len(body):
            raise ValueError(f"{text_bytes!r:.50} bytes of text in a body of {len(body)}")
        text = body[:text_bytes].decode()
        places = array(PLACE)
        places.frombytes(body[text_bytes:])
        metadata = {_word(name): _word(value) for name, value in head["metadata"].items()}
        raw = RawDocument(_word(head["doc_id"]), text, source_uri, _word(head["title"]), metadata=metadata)
        return document_with_tables(raw, _ranges(places, len(text)))
    except (KeyError, ValueError, AttributeError) as error:
        raise BrokenFrame(f"no document: {error!r}") from error


def _ranges(places: array[int], length: int) -> list[tuple[int, int]]:
    rising = all(here < there for here, there in pairwise(places))
    if len(places) % 2 or not rising or (places and not 0 <= places[0] < places[-1] <= length):
        raise ValueError("its tables do not stand in the text one after the other")
    return list(zip(places[::2], places[1::2], strict=True))


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not text")
    return value
