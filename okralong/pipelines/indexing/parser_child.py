"""The child process that parses documents: requests on standard input, frames on standard output.

    python -m okralong.pipelines.indexing.parser_child LIMITS PARENT

A request is a line of JSON with a source and how many of its documents to skip. The process ends when its input ends,
when no request comes for a while, when its parent ends, and with ``OUT_OF_MEMORY`` when a document needs too much
memory: after that, its libraries may be in an inconsistent state.
"""

from __future__ import annotations

import json
import os
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from typing import BinaryIO, Final

from okralong.pipelines.core.confined_process import (
    OUT_OF_MEMORY,
    Head,
    allow_more_seconds,
    allow_seconds,
    confine,
    end_with_parent,
    request_lines,
    silence,
    write_frame,
)
from okralong.pipelines.core.types import NOT_READ
from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Limits, Losses, RawDocument, Source
from okralong.pipelines.indexing.formats.ocr import NO_OCR, WHY_NOT, Ocr
from okralong.pipelines.indexing.parser_process import PLACE
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.indexing.table_frames import packed_tables
from okralong.pipelines.indexing.tables import find_tables
from okralong.pipelines.statements.text_tables import read_text_tables

_MOST_MESSAGE_CHARS: Final = 2000
"""A library's message may quote the whole file. # project default"""
_MOST_TITLE_CHARS: Final = 1000
_MOST_SECTIONS: Final = 50_000
"""A document with more has lines for headings, which are useless as places. # project default"""
_MOST_SECTION_CHARS: Final = 1_500_000
"""Of all section names together, so that they fit into one frame. # project default"""
_LEAST_DOCUMENT_BYTES: Final = 200
"""Smallest size that a document counts for within its file, about its row without the text. # project default"""


def main() -> None:
    """Take limits and the parent's process id from the command line and serve requests until the input ends."""
    limits = Limits(**json.loads(sys.argv[1]))
    end_with_parent(int(sys.argv[2]))
    with os.fdopen(os.dup(1), "wb") as out:
        confine(limits.memory_bytes)
        silence()
        try:
            _serve(limits, out)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def _serve(limits: Limits, out: BinaryIO) -> None:
    write_frame(out, {"kind": "ready"})
    ocr = ocr_within(limits, lambda number, of: write_frame(out, {"kind": "page", "number": number, "of": of}))
    for line in request_lines():
        request = json.loads(line)
        allow_seconds(limits.seconds)
        for step in parse_steps(Source(**request["source"]), limits, request["skip"], ocr):
            head, body = _frame(step)
            write_frame(out, head, body)
            if not isinstance(step.what, Begun):
                allow_seconds(limits.seconds)
        write_frame(out, {"kind": "done"})


def _frame(step: Step) -> tuple[Head, bytes]:
    what = step.what
    if isinstance(what, Begun):
        return {"kind": "begun", "number": step.number, "doc_id": what.doc_id, "where": what.where}, b""
    if isinstance(what, BadRow):
        message = what.message[:_MOST_MESSAGE_CHARS]
        return {"kind": "bad", "number": step.number, "doc_id": what.doc_id, "message": message}, b""
    head, body = what.frame()
    return {"kind": "document", "number": step.number, **head}, body


def ocr_within(limits: Limits, tell: Callable[[int, int], None]) -> Ocr:
    """Return the OCR that ``limits`` allow; it calls ``tell`` before each page."""

    def before_page(number: int, of: int) -> None:
        allow_more_seconds(limits.ocr_page_seconds)
        tell(number, of)

    return Ocr(WHY_NOT[limits.ocr], limits.ocr_pages, before_page)


@dataclass(frozen=True, slots=True)
class Begun:
    """The document whose tables are being searched. ``where`` is its place in the file, "" if it is the file."""

    doc_id: str
    where: str


@dataclass(frozen=True, slots=True)
class Step:
    """The beginning or the outcome of document ``number`` (from 0) of a file."""

    number: int
    what: Begun | Parsed | BadRow


def parse_steps(source: Source, limits: Limits, skip: int = 0, ocr: Ocr = NO_OCR) -> Iterator[Step]:
    """Parse the documents of ``source`` after the first ``skip``.

    A document has two steps, Begun and its outcome; one that cannot be read has one. MemoryError propagates: whoever
    catches it must end this process.
    """
    bad = taken = number = 0
    for number, reading in enumerate(read_source(source, limits.file_bytes, ocr)):
        if isinstance(reading, BadRow):
            bad += 1
            if number >= skip and bad <= MOST_BAD_ROWS:
                yield Step(number, reading)
            continue
        size = _size(reading)
        taken += max(size, _LEAST_DOCUMENT_BYTES)
        if taken > limits.text_bytes and number:
            yield Step(number, _too_much(source, number, limits))
            return
        if number >= skip:
            yield Step(number, Begun(reading.doc_id, reading.where))
            yield Step(number, _outcome(reading, size, limits))
    if bad > MOST_BAD_ROWS:
        yield Step(number, _more_bad_rows(source, bad))


def _outcome(raw: RawDocument, size: int, limits: Limits) -> Parsed | BadRow:
    place = f"{raw.source_uri}, {raw.where}," if raw.where else raw.source_uri
    if size > limits.document_bytes:
        return BadRow(
            raw.doc_id,
            f"{place} holds {size / 1e6:.1f} MB of text, more than limits.document_megabytes = "
            f"{limits.document_bytes / 1e6:g}. Split the document, or raise the limit in the index config.",
        )
    try:
        many = len(raw.sections) > _MOST_SECTIONS or sum(len(s.name) for s in raw.sections) > _MOST_SECTION_CHARS
        sections = () if many else raw.sections
        return Parsed.of(replace(raw, title=raw.title[:_MOST_TITLE_CHARS], sections=sections))
    except MemoryError:
        raise
    except Exception as error:  # a failing document must not stop the others
        return BadRow(
            raw.doc_id,
            f"{place} was read, but its text could not be processed ({type(error).__name__}: {error}). "
            "Save it again as UTF-8 text, or leave it out of the folder.",
        )


def _size(raw: RawDocument) -> int:
    parts = (raw.text, raw.title, *raw.metadata.keys(), *raw.metadata.values(), *(each.name for each in raw.sections))
    return sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)


def _too_much(source: Source, number: int, limits: Limits) -> BadRow:
    return BadRow(
        source.doc_id,
        f"{source.uri} holds more than limits.file_text_megabytes = {limits.text_bytes / 1e6:g} of text; the rows "
        f"after the first {number} were not read. Split the file, or raise the limit in the index config.",
    )


def _more_bad_rows(source: Source, bad: int) -> BadRow:
    return BadRow(
        source.doc_id,
        f"{source.uri} has {bad} rows that cannot be read; the first {MOST_BAD_ROWS} of them are reported one by one. "
        "Correct the program that wrote the file, then index again.",
    )


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed document, its text in UTF-8, its tables in JSON, and the starts and ends of its table spans in turn."""

    raw: RawDocument
    text: bytes
    tables: bytes
    places: array[int]

    @classmethod
    def of(cls, raw: RawDocument) -> Parsed:
        """Find the tables of ``raw``. Raises UnicodeEncodeError for lone surrogates."""
        words = (*raw.metadata.keys(), *raw.metadata.values(), *(each.name for each in raw.sections))
        for part in (raw.doc_id, raw.title, *words):
            part.encode()
        places = array(PLACE)
        for table in find_tables(raw.text, ""):
            places.extend((table.start_char, table.end_char))
        found = raw.tables if raw.tables is not None else read_text_tables(raw.text, raw.sections)
        tables = packed_tables(found)
        if tables is None:
            losses = Losses()
            losses.add("table that is kept as text only", "tables that are kept as text only", len(found))
            not_read = "; ".join(filter(None, (raw.metadata.get(NOT_READ), losses.words())))
            raw, tables = replace(raw, metadata={**raw.metadata, NOT_READ: not_read}), b"[]"
        return cls(raw, raw.text.encode(), tables, places)

    def frame(self) -> tuple[Head, bytes]:
        """Return head and body of the document's frame; the parent knows file and row."""
        raw = self.raw
        head = {"doc_id": raw.doc_id, "title": raw.title, "metadata": dict(raw.metadata), "text_bytes": len(self.text)}
        head["sections"] = [[each.kind, each.name, each.start_char, each.ocr] for each in raw.sections]
        facts = json.dumps([astuple(fact) for fact in raw.facts]).encode() if raw.facts else b""
        head["facts_bytes"], head["tables_bytes"] = len(facts), len(self.tables)
        return head, self.text + facts + self.tables + self.places.tobytes()


if __name__ == "__main__":
    main()
