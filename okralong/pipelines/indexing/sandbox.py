"""Reading documents one file after the other in a process of its own, which is replaced when a document brings it down.

One process reads many documents, so that a start is paid once. What it says of a document never depends on those
before it: a document at which a process that had read others ran out of memory is tried in a fresh one. The process
itself is ``sandbox_process``; what it sends is checked here, and never unpickled.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, Literal, Self, cast, get_args

from okralong.pipelines.core.types import BrokenError, Document, Section, SectionKind
from okralong.pipelines.indexing.documents import (
    MOST_BAD_ROWS,
    BadRow,
    Limits,
    RawDocument,
    Source,
    document_with_tables,
)
from okralong.pipelines.indexing.formats.ocr import INSTALL, NO_OCR, Ocr
from okralong.pipelines.indexing.readers import read_source
from okralong.pipelines.indexing.tables import find_tables
from okralong.pipelines.models.weights import module_command, module_environment, tail

_MOST_READINGS: Final = 2000
"""Documents after which a process is replaced by a fresh one; ours. Libraries in C leak a little on odd files."""

_MOST_LOSSES: Final = 3
"""Documents of one file that may bring a process down before the rest of the file is left unread; ours."""


@dataclass(frozen=True, slots=True)
class Found:
    """A document and ``origin``, the place that it was read from, for people."""

    document: Document
    origin: str


class Reader:
    """Reads files in a process of its own, one at a time; a context manager that leaves no process behind.

    On Linux the process ends with the thread that first used it, so one thread should keep it.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: ReaderProcess | None = None

    def read(self, source: Source) -> Generator[Found | BadRow, None, None]:
        """Every document of ``source``, and a BadRow for each that cannot be had or is over a limit.

        Raises BrokenError when no process can be started; never anything for the file's sake.
        """
        attempt = _Attempt(source)
        while not attempt.done:
            process = self._ready()
            try:
                yield from attempt.go_on(process)
            except Lost as lost:
                self.close()
                if process.readings == 0 or lost.loss.is_certain:
                    yield attempt.give_up(lost.loss, self._limits)
            except BaseException:  # also when the caller takes no more: what is left in the pipe is nobody's
                self.close()
                raise

    @property
    def pid(self) -> int | None:
        """Process id of the process that is held now."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the process. The next file gets another one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ready(self) -> ReaderProcess:
        if self._process is not None and self._process.readings >= _MOST_READINGS:
            self.close()
        if self._process is None:
            self._process = ReaderProcess(self._limits)
        return self._process


class _Attempt:
    """One file on its way: how many of its readings are finished, and which document is being read now."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._finished = 0
        self._losses = 0
        self._begun: Head | None = None
        self.done = False

    def go_on(self, process: ReaderProcess) -> Iterator[Found | BadRow]:
        """Take reading after reading, until the file is read. Raises Lost."""
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
                    continue
                if head["kind"] == "begun":
                    self._begun = head
                    continue
                outcome = self._outcome(head, body)
                self._finished = int(head["number"]) + 1
            except (KeyError, ValueError, TypeError, BrokenFrame) as error:
                raise Lost(Loss("crash", f"with a reply that is none: {error!r}")) from error
            self._begun = None
            process.readings += 1
            yield outcome
            deadline = process.deadline()

    def give_up(self, loss: Loss, limits: Limits) -> BadRow:
        """The failure of the document that was being read; the file is done when it cannot go on after it."""
        self._losses += 1
        if self._begun is None:
            self.done = True
            place = f"{self._source.uri}, after {self._finished} documents," if self._finished else self._source.uri
            return BadRow(self._source.doc_id, paragraph(loss, place, limits))
        doc_id, place = str(self._begun["doc_id"]), self._place(self._begun)
        self._finished = int(self._begun["number"]) + 1
        message = paragraph(loss, place, limits)
        if self._losses == _MOST_LOSSES:
            self.done = True
            message += f" It is number {_MOST_LOSSES} of its file over a limit: what follows was left unread."
        return BadRow(doc_id, message)

    def _outcome(self, head: Head, body: bytes) -> Found | BadRow:
        if head["kind"] == "bad":
            return BadRow(str(head["doc_id"]), str(head["message"]))
        if self._begun is None:
            raise BrokenFrame("a document that had not begun")
        where = str(self._begun["where"])
        origin = f"{self._source.uri}, {where}" if where else self._source.uri
        return Found(document_of_frame(head, body, self._source.uri), origin)

    def _place(self, begun: Head) -> str:
        return f"{self._source.uri}, {begun['where']}," if begun["where"] else self._source.uri


@lru_cache(maxsize=1)
def held_reader(limits: Limits) -> Reader:
    """The reader that this process keeps, for tasks that come one after the other. Its process ends when it is idle."""
    return Reader(limits)


_CHILD: Final = "okralong.pipelines.indexing.sandbox_process"

_START_LIMIT_S: Final = 180.0
"""Ours: a start takes one to two seconds, on a machine that is busy with other work ten."""

_PLAIN_MEMORY: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
"""Address space is what is bounded, so none is set aside for threads and pools that are hardly used."""

_END_LIMIT_S: Final = 10.0
"""Longest wait for the end of a process that has closed its output; ours. Some GiB take time to be given back."""


class Lost(Exception):
    """The process is gone; ``loss`` says how."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.how)
        self.loss = loss


class ConfinedProcess:
    """A running process of ``module``, which confines itself, says that it is ready, and then answers requests, a line
    of JSON or a frame each, in frames whose bodies have at most ``most_body`` bytes. Its last argument is the id of
    this process.

    Raises BrokenError when it does not come up.
    """

    def __init__(self, module: str, *arguments: str, most_body: int) -> None:
        self._process = subprocess.Popen(
            module_command(module, *arguments, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**module_environment(), **_PLAIN_MEMORY},
            start_new_session=True,  # Ctrl-C is for its parent, whose end it follows
        )
        self._frames = FrameReader(_pipe(self._process.stdout).fileno(), most_body)
        try:
            self._frames.read(time.monotonic() + _START_LIMIT_S)
        except (EOFError, TimeoutError, BrokenFrame) as error:
            self._process.kill()
            words = _pipe(self._process.stderr).read().decode(errors="replace")
            self.end()
            raise BrokenError(
                f"The process {module} did not start ({error!r}). Its last words were: {tail(words)}. "
                "Check the free memory and the installation (okralong doctor), then run the same command again."
            ) from error
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def request(self, what: Mapping[str, Any]) -> None:
        """Send a request. Raises Lost when the process is gone."""
        stream = _pipe(self._process.stdin)
        try:
            stream.write(json.dumps(what).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            raise Lost(self._loss()) from None

    def send(self, head: Mapping[str, Any], body: Any = b"") -> None:
        """Send a request as a frame, to a module that reads frames. Raises Lost when the process is gone."""
        try:
            write_frame(cast(BinaryIO, _pipe(self._process.stdin)), dict(head), body)
        except BrokenPipeError:
            raise Lost(self._loss()) from None

    def read(self, deadline: float) -> tuple[Head, bytes]:
        """The next frame of the reply, waited for until ``deadline`` on the monotonic clock. Raises Lost."""
        try:
            return self._frames.read(deadline)
        except TimeoutError:
            raise Lost(Loss("clock")) from None
        except EOFError:
            raise Lost(self._loss()) from None
        except BrokenFrame as error:
            raise Lost(Loss("crash", f"with {error}")) from None

    def end(self) -> None:
        """Kill it, wait for it, and close its pipes. A second call does nothing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                _pipe(stream).close()

    def _loss(self) -> Loss:
        try:
            return loss_of(self._process.wait(_END_LIMIT_S))
        except subprocess.TimeoutExpired:
            return Loss("crash", "by closing its output")


class ReaderProcess(ConfinedProcess):
    """A running reader. ``readings`` counts what it has read, so that one with 0 is fresh; its user keeps it.

    Raises BrokenError when it does not come up.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.readings = self._pages = 0
        super().__init__(_CHILD, json.dumps(asdict(limits)), most_body=BODY_BYTES_A_TEXT_BYTE * limits.document_bytes)

    def ask(self, source: Source, skip: int) -> None:
        """Ask for the documents of ``source`` but for its first ``skip`` readings. Raises Lost when it is gone."""
        self.request({"source": asdict(source), "skip": skip})

    def more_for_page(self) -> float:
        """Seconds by the clock that a page read by OCR adds. Raises BrokenFrame for one too many."""
        self._pages += 1
        if self._pages > self._limits.ocr_pages:
            raise BrokenFrame(f"page {self._pages} by OCR")
        return self._limits.ocr_page_seconds * CLOCK_SECONDS_A_SECOND

    def deadline(self) -> float:
        """When a document that begins now is given up, on the monotonic clock."""
        self._pages = 0
        return time.monotonic() + self._limits.seconds * CLOCK_SECONDS_A_SECOND


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


# A document out of a frame. The side that takes it in believes only what it can check, and counts tokens itself.


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
        sections = _sections(head["sections"], len(text))
        raw = RawDocument(
            _word(head["doc_id"]), text, source_uri, _word(head["title"]), metadata=metadata, sections=sections
        )
        return document_with_tables(raw, _ranges(places, len(text)))
    except (KeyError, ValueError, AttributeError, TypeError) as error:
        raise BrokenFrame(f"no document: {error!r}") from error


def _ranges(places: array[int], length: int) -> list[tuple[int, int]]:
    rising = all(here < there for here, there in pairwise(places))
    if len(places) % 2 or not rising or (places and not 0 <= places[0] < places[-1] <= length):
        raise ValueError("its tables do not stand in the text one after the other")
    return list(zip(places[::2], places[1::2], strict=True))


def _sections(values: list[list[Any]], length: int) -> tuple[Section, ...]:
    found = []
    for kind, name, start_char, ocr in values:
        if kind not in get_args(SectionKind) or type(start_char) is not int or type(ocr) is not bool:
            raise ValueError(f"{kind!r:.50} at {start_char!r:.50} is no section")
        found.append(Section(kind, _word(name), start_char, ocr))
    starts = [0, *(section.start_char for section in found), length]
    if any(here > there for here, there in pairwise(starts)):
        raise ValueError("its sections do not stand in the text one after the other")
    return tuple(found)


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.50} is not text")
    return value


# How a process that read a document can be lost, and the paragraph that says so in ``failures``.

CLOCK_SECONDS_A_SECOND: Final = 5
"""Seconds by the clock for each of processor time that a document may take; ours. A busy machine or slow storage is not
the document's fault, but a read that hangs must end as well."""

How = Literal["processor", "clock", "memory", "crash"]


@dataclass(frozen=True, slots=True)
class Loss:
    """How the process ended: a limit on time that it passed, memory that it was refused, or of itself, with ``why``."""

    how: How
    why: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether the document alone is to blame, also when the process had read others before it."""
        return self.how in ("processor", "clock")


def loss_of(code: int) -> Loss:
    """The loss behind an exit code as subprocess gives it, negative for a signal."""
    if code == OUT_OF_MEMORY:
        return Loss("memory")
    if code == -signal.SIGXCPU:
        return Loss("processor")
    if code < 0:
        return Loss("crash", f"by signal {signal.strsignal(-code) or -code}")
    return Loss("crash", f"with code {code}")


def paragraph(loss: Loss, place: str, limits: Limits) -> str:
    """What ``failures`` says of the document at ``place``: the limit, and the remedy."""
    split = "leave it out of the folder, or split it"
    gib = f"limits.document_gib = {limits.memory_bytes / 2**30:g}"
    seconds = f"limits.document_s = {limits.seconds:g}"
    if loss.how == "processor":
        return f"{place} took more than {seconds} of processor time and was given up. Raise the limit, {split}."
    if loss.how == "clock":
        return (
            f"{place} was not read within {limits.seconds * CLOCK_SECONDS_A_SECOND:g} s by the clock, "
            f"{CLOCK_SECONDS_A_SECOND} times {seconds}, and was given up: its storage does not answer, or the machine "
            f"is very busy. Look at both, raise the limit, {split}."
        )
    if loss.how == "memory":
        return f"{place} needed more memory than {gib} and was given up. Raise the limit, {split}."
    return (
        f"{place} ended the process that read it ({loss.why}). It is damaged, or needs more memory than {gib}. Save it "
        f"again with the program that made it, raise the limit, {split}."
    )


# The side of the process: the documents of one file, parsed one after the other, each within the limits on its size.

_MOST_TITLE_CHARS: Final = 1000
_MOST_SECTIONS: Final = 50_000
"""Ours: what has more has headings for lines, and where it has them leads nobody anywhere."""
_MOST_SECTION_CHARS: Final = 1_500_000
"""Of the names of all sections; ours, so that they pass in one frame."""
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


def steps(source: Source, limits: Limits, skip: int = 0, ocr: Ocr = NO_OCR) -> Iterator[Step]:
    """Read ``source`` and parse its documents, but for the first ``skip`` readings.

    A document has two steps, Begun and its outcome; what cannot be read has one. MemoryError is passed on: whoever
    meets it must not go on in this process.
    """
    bad = taken = number = 0
    for number, reading in enumerate(read_source(source, limits.file_bytes, ocr)):
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


def ocr_under(limits: Limits, tell: Callable[[], None]) -> Ocr:
    """What reads images under ``limits``; ``tell`` says to the other side that a page begins."""

    def before_page() -> None:
        allow_more_seconds(limits.ocr_page_seconds)
        tell()

    why_not = {
        "on": "",
        "off": "The index config says ocr: off. Set it to auto and index again, or leave the file out with --exclude.",
        "missing": f"Install OCR ({INSTALL}) and index again, or leave the file out with --exclude.",
    }
    return Ocr(why_not[limits.ocr], limits.ocr_pages, before_page)


def _made(raw: RawDocument, size: int, limits: Limits) -> Parsed | BadRow:
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
        return parsed(replace(raw, title=raw.title[:_MOST_TITLE_CHARS], sections=sections))
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
    parts = (raw.text, raw.title, *raw.metadata.keys(), *raw.metadata.values(), *(each.name for each in raw.sections))
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
        "Correct the program that wrote the file, then index again.",
    )


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
        head["sections"] = [[each.kind, each.name, each.start_char, each.ocr] for each in raw.sections]
        return head, self.text + self.places.tobytes()


def parsed(raw: RawDocument) -> Parsed:
    """``raw`` with its tables found. Raises UnicodeEncodeError where it holds what is no text."""
    for part in (raw.doc_id, raw.title):
        part.encode()
    places = array(PLACE)
    for table in find_tables(raw.text, ""):
        places.extend((table.start_char, table.end_char))
    return Parsed(raw, raw.text.encode(), places)


# Frames between the two sides: a head in JSON and a body of bytes. Neither is pickle, which would run what the other
# side writes. The sizes stand first, so that a frame that is too large is refused before any of it is read.

_SIZES: Final = struct.Struct(">QQ")
_MOST_HEAD_BYTES: Final = 16_000_000
"""Ours: the largest head is that of a document with a megabyte of metadata, six bytes of JSON for each."""
_BLOCK: Final = 1 << 20

Head = dict[str, Any]


class BrokenFrame(Exception):
    """What came is no frame, or a larger one than any that was asked for."""


def write_frame(stream: BinaryIO, head: Head, body: bytes = b"") -> None:
    """Write one frame and flush it. ``head`` holds what JSON can say."""
    data = json.dumps(head).encode()
    stream.write(_SIZES.pack(len(data), len(body)) + data)
    stream.write(body)
    stream.flush()


class FrameReader:
    """Reads frames from a pipe, none with a body of more than ``most_body`` bytes."""

    def __init__(self, descriptor: int, most_body: int) -> None:
        self._descriptor = descriptor
        self._most_body = most_body

    def read(self, deadline: float) -> tuple[Head, bytes]:
        """The next frame, waited for until ``deadline`` on the monotonic clock.

        Raises TimeoutError when that passes, EOFError when the other side has closed the pipe, BrokenFrame when what
        comes is no frame.
        """
        head_bytes, body_bytes = _SIZES.unpack(self._exactly(_SIZES.size, deadline))
        if head_bytes > _MOST_HEAD_BYTES or body_bytes > self._most_body:
            raise BrokenFrame(f"a frame of {head_bytes} + {body_bytes} bytes")
        data = self._exactly(head_bytes, deadline)
        body = self._exactly(body_bytes, deadline)
        try:
            head = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BrokenFrame(f"a head that is not JSON: {error}") from error
        if not isinstance(head, dict):
            raise BrokenFrame("a head that is not an object")
        return head, body

    def _exactly(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while len(data) < size:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            block = os.read(self._descriptor, min(_BLOCK, size - len(data)))
            if not block:
                raise EOFError
            data += block
        return bytes(data)


# What the process may use, set by itself before it sees the first document.

OUT_OF_MEMORY: Final = 77
"""Exit code of a process that was refused memory; ours."""

_PR_SET_PDEATHSIG: Final = 1
"""Of Linux' prctl: the signal that this process gets when the thread that started it ends."""

_FIRST_TO_GO: Final = "1000"
"""The kernel's word for the process to end first when the machine runs out of memory."""


def end_with(parent: int) -> None:
    """Let this process be killed when process ``parent``, which started it, ends in whatever way.

    Elsewhere than on Linux it ends at its next request or reply instead, by the end of its pipes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(0)


def confine(memory_bytes: int) -> None:
    """Bound what this process may add to its address space from here on (on Linux); it can no longer write files.

    An allocation that passes the bound fails: Python raises MemoryError, a library may end the process.
    """
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(what, (0, 0))
    if sys.platform == "linux":
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)


def allow_seconds(seconds: float) -> None:
    """Let this process use ``seconds`` of processor time from here on, rounded up; the kernel ends it after them."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))


def allow_more_seconds(seconds: float) -> None:
    """Let this process use so many seconds of processor time more than it may already."""
    bound, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if bound != resource.RLIM_INFINITY:
        _lower(resource.RLIMIT_CPU, bound + math.ceil(seconds))


def _lower(what: int, bound: int) -> None:
    """Set a soft limit; the hard one stays, since it could not be raised again for the next document."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
