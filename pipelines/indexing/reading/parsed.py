"""What comes of parsing a document, and the frame that carries it: text and places of tables, in bytes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.indexing.reading.frames import Head
from okralong.pipelines.indexing.tables_in_text import find_tables

BODY_BYTES_A_TEXT_BYTE: Final = 3
"""Most bytes of a body for each of the text: a table has a place of 16 bytes, and two lines of text at least."""

PLACE: Final = "q"
"""The array type of a start or an end of a table, in characters."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A document as a parser gave it, and its text in UTF-8 with the starts and ends of its tables, one by one."""

    raw: RawDocument
    text: bytes
    places: array[int]

    def frame(self) -> tuple[Head, bytes]:
        """Head and body; what file and row it was is known to the other side."""
        raw = self.raw
        head = {"doc_id": raw.doc_id, "title": raw.title, "metadata": dict(raw.metadata), "text_bytes": len(self.text)}
        return head, self.text + self.places.tobytes()


def parsed(raw: RawDocument) -> Parsed:
    """``raw`` with its tables found. Raises UnicodeEncodeError where it holds what is no text."""
    for part in (raw.doc_id, raw.title):
        part.encode()
    places = array(PLACE)
    for table in find_tables(raw.text, ""):
        places.extend((table.start_char, table.end_char))
    return Parsed(raw, raw.text.encode(), places)
