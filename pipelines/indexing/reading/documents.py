"""The documents of one file, parsed one after the other, each within the limits on its size.

This runs in the process of its own that a file is read in; see ``child.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.indexing.limits import MOST_BAD_ROWS, Limits
from okralong.pipelines.indexing.readers.raw import BadRow, RawDocument, Source
from okralong.pipelines.indexing.readers.registry import read_source
from okralong.pipelines.indexing.reading.parsed import Parsed, parsed

_MOST_TITLE_CHARS: Final = 1000
_LEAST_ROW_BYTES: Final = 200
"""What a document counts for at least among those of its file; ours, about what its row takes without its text."""


@dataclass(frozen=True, slots=True)
class Begun:
    """The document whose tables are being looked for now. ``where`` is its place in the file; empty: it is the file."""

    doc_id: str
    where: str


@dataclass(frozen=True, slots=True)
class Step:
    """What became of reading number ``number`` (from 0) of a file, or that it has begun."""

    number: int
    what: Begun | Parsed | BadRow


def steps(source: Source, limits: Limits, skip: int = 0) -> Iterator[Step]:
    """Read ``source`` and parse its documents, but for the first ``skip`` readings.

    A document has two steps, Begun and its outcome; what cannot be read has one. MemoryError is passed on: whoever
    meets it must not go on in this process.
    """
    bad = taken = number = 0
    for number, reading in enumerate(read_source(source, limits.file_bytes)):
        if isinstance(reading, BadRow):
            bad += 1
            if number >= skip and bad <= MOST_BAD_ROWS:
                yield Step(number, reading)
            continue
        size = _size(reading)
        taken += max(size, _LEAST_ROW_BYTES)
        if taken > limits.text_bytes and number:
            yield Step(number, _too_much(source, number, limits))
            return
        if number >= skip:
            yield Step(number, Begun(reading.doc_id, reading.where))
            yield Step(number, _made(reading, size, limits))
    if bad > MOST_BAD_ROWS:
        yield Step(number, _more_bad_rows(source, bad))


def _made(raw: RawDocument, size: int, limits: Limits) -> Parsed | BadRow:
    place = f"{raw.source_uri}, {raw.where}," if raw.where else raw.source_uri
    if size > limits.document_bytes:
        return BadRow(
            raw.doc_id,
            f"{place} holds {size / 1e6:.1f} MB of text, more than limits.document_megabytes = "
            f"{limits.document_bytes / 1e6:g}. Split the document, or raise the limit in the index config.",
        )
    try:
        return parsed(replace(raw, title=raw.title[:_MOST_TITLE_CHARS]))
    except MemoryError:
        raise
    except Exception as error:  # no single document may stop the others
        return BadRow(
            raw.doc_id,
            f"{place} was read, but its text could not be taken in ({type(error).__name__}: {error}). "
            "Save it again as UTF-8 text, or leave it out of the folder.",
        )


def _size(raw: RawDocument) -> int:
    """Bytes in UTF-8 of what the document says, the halves of surrogate pairs included."""
    parts = (raw.text, raw.title, *raw.metadata.keys(), *raw.metadata.values())
    return sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)


def _too_much(source: Source, number: int, limits: Limits) -> BadRow:
    return BadRow(
        source.doc_id,
        f"{source.uri} holds more than limits.file_text_megabytes = {limits.text_bytes / 1e6:g} of text; what follows "
        f"its first {number} rows was left unread. Split the file, or raise the limit in the index config.",
    )


def _more_bad_rows(source: Source, bad: int) -> BadRow:
    return BadRow(
        source.doc_id,
        f"{source.uri} has {bad} rows that cannot be read; the first {MOST_BAD_ROWS} of them are reported one by one. "
        "Mend the program that wrote the file, then index again.",
    )
