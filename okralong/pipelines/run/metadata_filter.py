"""Evaluate a question's ``where``: an SQL condition on metadata, such as ``company = 'AMD' and year >= 2022``.

DuckDB evaluates it over an in-memory table in a process with limited memory and time (``filter_process.py``), so that a
filter that exceeds these does not stop the run. Only columns, constants, and listed operators and functions are
allowed. None of them depends on the date or a random number, so a resumed run asks the same documents.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow as pa

from okralong.pipelines.core.confined_process import (
    CLOCK_SECONDS_PER_CPU_SECOND,
    ConfinedProcess,
    Loss,
    ProcessHolder,
    ProcessLost,
)
from okralong.pipelines.core.types import QuestionError

MOST_FILTER_CHARS: Final = 50_000  # project default
"""Most characters of a filter, enough for a list of two thousand ids. Longer lists belong in doc_ids."""

FILTER_SECONDS: Final = 10.0  # project default
"""Processor time per filter, in seconds; a filter over 100,000 documents takes a few hundredths of a second."""
MEMORY_BYTES: Final = 1 << 30  # project default
"""Memory that the process may use in addition to the table: twice the limit that DuckDB is given."""

_CHILD: Final = "okralong.pipelines.run.filter_process"
_SHOWN_CHARS: Final = 200
_MOST_REASON_CHARS: Final = 20_000  # project default
"""The most characters that a message quotes of the process's reason."""


class MetadataFilter(ProcessHolder[ConfinedProcess]):
    """Evaluates filters over a table with a row per document and its ``doc_id``, each distinct filter once.

    The process starts with the first filter and is replaced if a filter kills it. Close this after the last filter; on
    Linux the process also ends with the thread that started it.
    """

    def __init__(self, documents: pa.Table, seconds: float = FILTER_SECONDS, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__()
        self._documents = documents
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._ids: list[str] = documents["doc_id"].to_pylist()
        self._found: dict[str, frozenset[str] | QuestionError] = {}
        self._evaluated = 0

    def doc_ids(self, where: str) -> frozenset[str]:
        """Return the documents that the filter matches (at least one).

        Raises QuestionError, suggesting the nearest column or value, for a filter that is invalid, matches nothing or
        exceeds its memory or time. Raises BrokenError if no process can be started.
        """
        if where not in self._found:
            try:
                self._found[where] = self._matching(where)
            except QuestionError as error:
                self._found[where] = error
        found = self._found[where]
        if isinstance(found, QuestionError):
            raise QuestionError(*found.args)
        return found

    def _matching(self, where: str) -> frozenset[str]:
        if len(where) > MOST_FILTER_CHARS:
            raise QuestionError(
                f"{_named(where)} has {len(where):,} characters, more than the {MOST_FILTER_CHARS:,} of a filter. "
                "Shorten it, or name the documents in doc_ids."
            )
        while True:
            process = self._ready()
            is_fresh = self._evaluated == 0
            try:
                return self._asked(process, where)
            except ProcessLost as lost:
                self.close()
                if is_fresh or lost.loss.is_certain:
                    raise QuestionError(self._paragraph(where, lost.loss)) from None
            except QuestionError:
                raise
            except BaseException:  # the pipe may still hold the reply to this filter
                self.close()
                raise

    def _asked(self, process: ConfinedProcess, where: str) -> frozenset[str]:
        """Evaluate a filter in ``process``. Raises ProcessLost if the process has ended or its reply is malformed."""
        process.send({"where": where})
        head, body = process.read(time.monotonic() + self._seconds * CLOCK_SECONDS_PER_CPU_SECOND)
        self._evaluated += 1
        if head.get("kind") == "refused":
            raise QuestionError(str(head.get("why"))[:_MOST_REASON_CHARS])
        if head.get("kind") != "matches" or len(body) != _mask_bytes(len(self._ids)):
            raise ProcessLost(Loss("crash", "with a malformed reply"))
        mask = np.unpackbits(np.frombuffer(body, np.uint8), count=len(self._ids))
        return frozenset(self._ids[row] for row in np.flatnonzero(mask))

    def _ready(self) -> ConfinedProcess:
        if self._process is None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._documents.schema) as stream:
                stream.write_table(self._documents)
            self._process = ConfinedProcess(
                _CHILD, str(self._seconds), str(self._memory_bytes), most_body=_mask_bytes(len(self._ids))
            )
            self._evaluated = 0
            self._process.send({"kind": "table"}, sink.getvalue())
        return self._process

    def _paragraph(self, where: str, loss: Loss) -> str:
        """Return the message for a filter whose process was lost: the exceeded limit and the remedy."""
        easier = "Write a simpler condition, or name the documents in doc_ids."
        memory = f"the {self._memory_bytes / 2**30:g} GiB of memory that a filter may use"
        if loss.how == "processor":
            return f"{_named(where)} took more than {self._seconds:g} s of processor time and was given up. {easier}"
        if loss.how == "clock":
            return (
                f"{_named(where)} was not evaluated within {self._seconds * CLOCK_SECONDS_PER_CPU_SECOND:g} s and was "
                f"given up: the machine is very busy, or the filter never ends. {easier}"
            )
        if loss.how == "memory":
            return f"{_named(where)} needed more than {memory} and was given up. {easier}"
        return (
            f"{_named(where)} killed the process that evaluates it ({loss.why}), or needed more than {memory}. {easier}"
        )


def _mask_bytes(rows: int) -> int:
    """Return the bytes of a mask with one bit per row."""
    return (rows + 7) // 8


def _named(where: str) -> str:
    shown = where if len(where) <= _SHOWN_CHARS else f"{where[:_SHOWN_CHARS]}…"
    return f"The filter {shown!r}"
