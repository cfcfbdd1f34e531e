"""The process that reads documents: requests come on its standard input, frames go to its standard output.

    python -m okralong.pipelines.indexing.sandbox_process LIMITS PARENT

A request is a line of JSON with a source and how many of its readings to skip. The process ends when its input ends,
when nothing was asked of it for a while, when its parent does, and with ``OUT_OF_MEMORY`` when a document needed more
than it may have: after that no library in it can be trusted to be whole.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

from okralong.pipelines.indexing.documents import BadRow, Limits, Source
from okralong.pipelines.indexing.sandbox import (
    OUT_OF_MEMORY,
    Begun,
    Head,
    Step,
    allow_seconds,
    confine,
    end_with,
    ocr_under,
    steps,
    write_frame,
)

IDLE_S: Final = 30.0
"""Ours: longer than the pause between two parts; a fresh process takes one to two seconds."""

_MOST_MESSAGE_CHARS: Final = 2000
"""Ours: what a library says of a file may quote all of it."""


def main() -> None:
    """Take limits and the parent's process id from the command line and serve until there is nothing more to do."""
    limits = Limits(**json.loads(sys.argv[1]))
    end_with(int(sys.argv[2]))
    with os.fdopen(os.dup(1), "wb") as out:
        confine(limits.memory_bytes)
        silence()
        try:
            _serve(limits, out)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def silence() -> None:
    """From here on only frames go to the parent, whatever a library prints."""
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)


def _serve(limits: Limits, out: BinaryIO) -> None:
    write_frame(out, {"kind": "ready"})
    ocr = ocr_under(limits, lambda: write_frame(out, {"kind": "page"}))
    for line in requests():
        request = json.loads(line)
        allow_seconds(limits.seconds)
        for step in steps(Source(**request["source"]), limits, request["skip"], ocr):
            head, body = _frame(step)
            write_frame(out, head, body)
            if not isinstance(step.what, Begun):
                allow_seconds(limits.seconds)
        write_frame(out, {"kind": "done"})


def requests() -> Iterator[bytes]:
    """The lines of standard input, until it ends or none has come for ``IDLE_S``."""
    pending = b""
    while select.select([0], [], [], IDLE_S)[0]:
        block = os.read(0, 1 << 16)
        if not block:
            return
        *lines, pending = (pending + block).split(b"\n")
        yield from lines


def _frame(step: Step) -> tuple[Head, bytes]:
    what = step.what
    if isinstance(what, Begun):
        return {"kind": "begun", "number": step.number, "doc_id": what.doc_id, "where": what.where}, b""
    if isinstance(what, BadRow):
        message = what.message[:_MOST_MESSAGE_CHARS]
        return {"kind": "bad", "number": step.number, "doc_id": what.doc_id, "message": message}, b""
    head, body = what.frame()
    return {"kind": "document", "number": step.number, **head}, body


if __name__ == "__main__":
    main()
