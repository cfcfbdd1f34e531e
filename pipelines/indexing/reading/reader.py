"""Reading documents one file after the other in a process that is replaced when a document brings it down.

One process reads many documents, so that a start is paid once. What it says of a document never depends on those before
it: a process that had read others is not believed when it runs out of memory, and the document is tried in a fresh one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Final, Self

from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.limits import Limits
from okralong.pipelines.indexing.readers.raw import BadRow, Source
from okralong.pipelines.indexing.reading.frames import BrokenFrame, Head
from okralong.pipelines.indexing.reading.losses import Loss, paragraph
from okralong.pipelines.indexing.reading.process import Lost, ReaderProcess
from okralong.pipelines.indexing.reading.taken_in import document_of_frame

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
    """One file on its way: how many of its readings are settled, and which document is being made now."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._settled = 0
        self._losses = 0
        self._begun: Head | None = None
        self.done = False

    def go_on(self, process: ReaderProcess) -> Iterator[Found | BadRow]:
        """Settle reading after reading, until the file is read. Raises Lost."""
        self._begun = None
        process.ask(self._source, self._settled)
        deadline = process.deadline()
        while True:
            head, body = process.read(deadline)
            try:
                if head["kind"] == "done":
                    self.done = True
                    return
                if head["kind"] == "begun":
                    self._begun = head
                    continue
                outcome = self._outcome(head, body)
                self._settled = int(head["number"]) + 1
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
            place = f"{self._source.uri}, after {self._settled} documents," if self._settled else self._source.uri
            return BadRow(self._source.doc_id, paragraph(loss, place, limits))
        doc_id, place = str(self._begun["doc_id"]), self._place(self._begun)
        self._settled = int(self._begun["number"]) + 1
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
