"""Parse documents in a child process, which is replaced when a document crashes it.

One process parses many documents, so that its start is paid once. Its result for a document never depends on those
before it: if a process that has parsed others runs out of memory, the document is retried in a fresh one. The
child's side is ``parser_child``; this side checks everything that the child sends and counts tokens itself.
"""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Any, Final, get_args

from okralong.pipelines.core.confined_process import (
    CLOCK_SECONDS_PER_CPU_SECOND,
    BrokenFrame,
    ConfinedProcess,
    Head,
    Loss,
    ProcessHolder,
    ProcessLost,
)
from okralong.pipelines.core.types import Document, Fact, Section, SectionKind
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.documents import BadRow, Limits, RawDocument, Source, document_with_tables
from okralong.pipelines.indexing.formats.ocr import WHY_NOT
from okralong.pipelines.indexing.table_frames import MOST_TABLES_BYTES, unpacked_tables

CHILD: Final = "okralong.pipelines.indexing.parser_child"

MOST_DOCUMENTS: Final = 2000
"""Documents after which a process is replaced, because C libraries leak a little on odd files. # project default"""

_MOST_LOSSES: Final = 3
"""Documents of one file that may crash a process before the rest is skipped. # project default"""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A document and its ``origin``, a description for people of where it was read."""

    document: Document
    origin: str


class ParserProcess(ConfinedProcess):
    """A running parser process. Its user counts finished documents in ``parsed``.

    Raises:
        BrokenError: The process did not start.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.parsed = self._pages = 0
        most = BODY_BYTES_PER_TEXT_BYTE * limits.document_bytes + MOST_FACTS_BYTES + MOST_TABLES_BYTES
        super().__init__(CHILD, json.dumps(asdict(limits)), most_body=most)

    def ask(self, source: Source, skip: int) -> None:
        """Request the documents of ``source`` after its first ``skip``. Raises ProcessLost."""
        self.request({"source": asdict(source), "skip": skip})

    def more_for_page(self) -> float:
        """Return the wall-clock seconds that a page read by OCR adds. Raises BrokenFrame beyond the page limit."""
        self._pages += 1
        if self._pages > self._limits.ocr_pages:
            raise BrokenFrame(f"page {self._pages} by OCR")
        return self._limits.ocr_page_seconds * CLOCK_SECONDS_PER_CPU_SECOND

    def deadline(self) -> float:
        """Return the deadline of a document that begins now, on the monotonic clock."""
        self._pages = 0
        return time.monotonic() + self._limits.seconds * CLOCK_SECONDS_PER_CPU_SECOND


class SandboxedParser(ProcessHolder[ParserProcess]):
    """Parses files in a child process, one at a time; a context manager that leaves no process behind.

    On Linux the process ends with the thread that first used it, so use it from one thread. ``on_page`` gets what OCR
    is reading, in words.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self.on_page: Callable[[str], object] = lambda words: None

    @property
    def why_no_ocr(self) -> str:
        """Why pages without text are not read, as failures say it; "" if they are."""
        return WHY_NOT[self._limits.ocr]

    def parse(self, source: Source) -> Generator[ParsedDocument | BadRow, None, None]:
        """Yield every document of ``source``, and a BadRow for each that cannot be read or exceeds a limit.

        Raises:
            BrokenError: No process can be started. A file never raises.
        """
        progress = _FileProgress(source)
        while not progress.done:
            process = self._ready()
            try:
                yield from progress.advance(process, self.on_page)
            except ProcessLost as lost:
                self.close()
                if process.parsed == 0 or lost.loss.is_certain:
                    yield progress.give_up(lost.loss, self._limits)
            except BaseException:  # also when the caller stops early, because the pipe still holds the rest of the file
                self.close()
                raise

    def _ready(self) -> ParserProcess:
        if self._process is not None and self._process.parsed >= MOST_DOCUMENTS:
            self.close()
        if self._process is None:
            self._process = ParserProcess(self._limits)
        return self._process


class _FileProgress:
    """How far one file has been parsed: documents finished, and the document in progress."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._finished = 0
        self._losses = 0
        self._begun: Head | None = None
        self.done = False

    def advance(self, process: ParserProcess, on_page: Callable[[str], object]) -> Iterator[ParsedDocument | BadRow]:
        """Yield outcomes until the file is finished. Raises ProcessLost."""
        self._begun = None
        process.ask(self._source, self._finished)
        deadline = process.deadline()
        while True:
            head, body = process.read(deadline)
            try:
                if head["kind"] == "done":
                    self.done = True
                    return
                if head["kind"] == "page":
                    deadline += process.more_for_page()
                    name = PurePosixPath(self._source.uri).name
                    on_page(f"recognizing page {int(head['number']):,} of {int(head['of']):,} of {name}")
                    continue
                if head["kind"] == "begun":
                    self._begun = head
                    continue
                outcome = self._outcome(head, body)
                self._finished = int(head["number"]) + 1
            except (KeyError, ValueError, TypeError, BrokenFrame) as error:
                raise ProcessLost(Loss("crash", f"with an invalid reply: {error!r}")) from error
            self._begun = None
            process.parsed += 1
            yield outcome
            deadline = process.deadline()

    def give_up(self, loss: Loss, limits: Limits) -> BadRow:
        """Return the failure of the document in progress, and finish the file if parsing cannot go on after it."""
        self._losses += 1
        if self._begun is None:
            self.done = True
            place = (
                f"{self._source.uri}, after {counted(self._finished, 'document')},"
                if self._finished
                else self._source.uri
            )
            return BadRow(self._source.doc_id, failure_message(loss, place, limits))
        doc_id, place = _writable(self._begun["doc_id"]), self._place(self._begun)
        self._finished = int(self._begun["number"]) + 1
        message = failure_message(loss, place, limits)
        if self._losses == _MOST_LOSSES:
            self.done = True
            message += f" It is number {_MOST_LOSSES} of its file over a limit: the rest of the file was not read."
        return BadRow(doc_id, message)

    def _outcome(self, head: Head, body: bytes) -> ParsedDocument | BadRow:
        if head["kind"] == "bad":
            return BadRow(_writable(head["doc_id"]), _writable(head["message"]))
        if self._begun is None:
            raise BrokenFrame("a document that had not begun")
        where = str(self._begun["where"])
        origin = f"{self._source.uri}, {where}" if where else self._source.uri
        return ParsedDocument(document_of_frame(head, body, self._source.uri), origin)

    def _place(self, begun: Head) -> str:
        return f"{self._source.uri}, {begun['where']}," if begun["where"] else self._source.uri


@lru_cache(maxsize=1)
def shared_parser(limits: Limits) -> SandboxedParser:
    """Return the parser that successive tasks of this process share; its child ends when it is idle."""
    return SandboxedParser(limits)


def failure_message(loss: Loss, place: str, limits: Limits) -> str:
    """Return the ``failures`` paragraph of the document at ``place``: the limit that it exceeded, and the remedy."""
    split = "leave it out of the folder, or split it"
    gib = f"limits.document_gib = {limits.memory_bytes / 2**30:g}"
    seconds = f"limits.document_s = {limits.seconds:g}"
    if loss.how == "processor":
        return f"{place} took more than {seconds} of processor time and was skipped. Raise the limit, {split}."
    if loss.how == "clock":
        return (
            f"{place} was not read within {limits.seconds * CLOCK_SECONDS_PER_CPU_SECOND:g} s by the clock, "
            f"{CLOCK_SECONDS_PER_CPU_SECOND} times {seconds}, and was skipped: its storage does not answer, or the "
            f"machine is very busy. Check both, raise the limit, {split}."
        )
    if loss.how == "memory":
        return f"{place} needed more memory than {gib} and was skipped. Raise the limit, {split}."
    return (
        f"{place} ended the process that read it ({loss.why}). It is damaged, or needs more memory than {gib}. Save it "
        f"again with the program that made it, raise the limit, {split}."
    )


# The body of a document's frame is its text in UTF-8, its facts and its tables in JSON, and the starts and ends of its
# table spans.

BODY_BYTES_PER_TEXT_BYTE: Final = 3
"""Upper bound: a table span takes 16 bytes for its place, and has at least two lines of text."""
MOST_FACTS_BYTES: Final = 32_000_000
"""The facts of one document in JSON; their parser has lower limits. # project default"""

PLACE: Final = "q"
"""The array type of a table span's start or end, in characters."""


def document_of_frame(head: Head, body: bytes, source_uri: str) -> Document:
    """Return the document in a frame. Raises BrokenFrame if any part of it is invalid."""
    try:
        text, facts, tables, spans = _parts(body, [head[f"{part}_bytes"] for part in ("text", "facts", "tables")])
        length = len(said := text.decode())
        places = array(PLACE)
        places.frombytes(spans)
        metadata = {_text(name): _text(value) for name, value in head["metadata"].items()}
        raw = RawDocument(
            doc_id=_text(head["doc_id"]),
            text=said,
            source_uri=source_uri,
            title=_text(head["title"]),
            metadata=metadata,
            sections=_sections(head["sections"], length),
            facts=_facts(facts, length),
            tables=unpacked_tables(tables, length),
        )
        return document_with_tables(raw, _ranges(places, length))
    except (KeyError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise BrokenFrame(f"no document: {error!r}") from error


def _parts(body: bytes, sizes: Sequence[Any]) -> list[bytes]:
    """Split a body into parts of these sizes and the rest."""
    if any(type(size) is not int or size < 0 for size in sizes) or sum(sizes) > len(body):
        raise ValueError(f"parts of {sizes!r:.100} bytes in {len(body)}")
    ends = [0, *accumulate(sizes), len(body)]
    return [body[start:end] for start, end in pairwise(ends)]


def _ranges(places: array[int], length: int) -> list[tuple[int, int]]:
    rising = all(here < there for here, there in pairwise(places))
    if len(places) % 2 or not rising or (places and not 0 <= places[0] < places[-1] <= length):
        raise ValueError("its tables are not in order within the text")
    return list(zip(places[::2], places[1::2], strict=True))


def _sections(values: list[list[Any]], length: int) -> tuple[Section, ...]:
    found = []
    for kind, name, start_char, ocr in values:
        if kind not in get_args(SectionKind) or type(start_char) is not int or type(ocr) is not bool:
            raise ValueError(f"{kind!r:.50} at {start_char!r:.50} is no section")
        found.append(Section(kind, _text(name), start_char, ocr))
    starts = [0, *(section.start_char for section in found), length]
    if any(here > there for here, there in pairwise(starts)):
        raise ValueError("its sections are not in order within the text")
    return tuple(found)


def _facts(data: bytes, length: int) -> tuple[Fact, ...]:
    found = []
    for values in json.loads(data) if data else ():
        said = dict(zip(_KINDS_OF_FACTS, values, strict=True))
        fact = Fact(**said | {"dimensions": _pairs(said["dimensions"])})
        for name, value in asdict(fact).items():
            kind = _KINDS_OF_FACTS[name]
            if type(value) is not kind:
                raise ValueError(f"{name} {value!r:.50} of a fact is no {kind.__name__}")
        if not (0 <= fact.start_char <= fact.end_char <= length and abs(fact.scale) < 2**31 and 0 <= fact.part < 2**31):
            raise ValueError("a fact is not within the text")
        found.append(fact)
    if any(here.start_char > there.start_char for here, there in pairwise(found)):
        raise ValueError("its facts are not in order")
    return tuple(found)


_KINDS_OF_FACTS: Final = {each.name: type(getattr(Fact("", 0, 0), each.name)) for each in fields(Fact)}


def _pairs(values: list[list[Any]]) -> tuple[tuple[str, str], ...]:
    return tuple((_text(name), _text(value)) for name, value in values)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not text")
    value.encode()  # a lone surrogate, a ValueError, could not be stored
    return value


def _writable(value: object) -> str:
    """Return a name or message of the child without lone surrogates, which could not be stored."""
    return str(value).encode("utf-8", "replace").decode()
