"""One process that reads documents, as the side sees it that asks it to."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from dataclasses import asdict
from typing import IO, Final

from okralong.pipelines.core.types import BrokenError
from okralong.pipelines.indexing.limits import Limits
from okralong.pipelines.indexing.readers.raw import Source
from okralong.pipelines.indexing.reading.frames import BrokenFrame, FrameReader, Head
from okralong.pipelines.indexing.reading.losses import CLOCK_SECONDS_A_SECOND, Loss, loss_of
from okralong.pipelines.indexing.reading.parsed import BODY_BYTES_A_TEXT_BYTE
from okralong.pipelines.models.weights import module_command, module_environment, tail

_CHILD: Final = "okralong.pipelines.indexing.reading.child"

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


class ReaderProcess:
    """A running reader. ``readings`` counts what it has read, so that one with 0 is fresh; its user keeps it.

    Raises BrokenError when it does not come up.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.readings = 0
        self._process = subprocess.Popen(
            module_command(_CHILD, json.dumps(asdict(limits)), str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**module_environment(), **_PLAIN_MEMORY},
            start_new_session=True,  # Ctrl-C is for its parent, whose end it follows
        )
        self._frames = FrameReader(_pipe(self._process.stdout).fileno(), BODY_BYTES_A_TEXT_BYTE * limits.document_bytes)
        try:
            self._frames.read(time.monotonic() + _START_LIMIT_S)
        except (EOFError, TimeoutError, BrokenFrame) as error:
            self._process.kill()
            words = _pipe(self._process.stderr).read().decode(errors="replace")
            self.end()
            raise BrokenError(
                f"The process that reads documents did not start ({error!r}). Its last words were: {tail(words)}. "
                "Check the free memory and the installation (okralong doctor), then run the same command again."
            ) from error
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, source: Source, skip: int) -> None:
        """Ask for the documents of ``source`` but for its first ``skip`` readings. Raises Lost when it is gone."""
        line = json.dumps({"source": asdict(source), "skip": skip}).encode() + b"\n"
        stream = _pipe(self._process.stdin)
        try:
            stream.write(line)
            stream.flush()
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

    def deadline(self) -> float:
        """When a document that begins now is given up, on the monotonic clock."""
        return time.monotonic() + self._limits.seconds * CLOCK_SECONDS_A_SECOND

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


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
