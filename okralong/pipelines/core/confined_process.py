"""Child processes that limit their own memory and processor time before they see untrusted input.

The parent side is ``ConfinedProcess``. The functions under "Inside the process" are for the module that runs as the
child. The two sides exchange frames: a head in JSON and a body of bytes. Neither is pickle, which would execute what
the other side writes.
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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, Generic, Literal, Self, TypeVar, cast

from okralong.pipelines.core.child_process import module_command, module_environment, tail
from okralong.pipelines.core.types import BrokenError

CLOCK_SECONDS_PER_CPU_SECOND: Final = 5
"""Wall-clock seconds allowed for each second of processor time, so that a hanging read ends too, but a busy machine or
slow storage does not count against the input. # project default"""

_START_LIMIT_S: Final = 180.0
"""A start takes 1 to 2 s, or 10 s on a busy machine. # project default"""

_END_LIMIT_S: Final = 10.0
"""Longest wait for the end of a process that closed its output; freeing some GiB takes time. # project default"""

_SMALL_MEMORY: Final = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
"""Avoid reserving address space, which is limited, for rarely used threads and pools."""

How = Literal["processor", "clock", "memory", "crash"]


@dataclass(frozen=True, slots=True)
class Loss:
    """How a process ended: processor or clock time exceeded, out of memory, or a crash, with ``why``."""

    how: How
    why: str = ""

    @property
    def is_certain(self) -> bool:
        """True if the current input alone is to blame, even if the process had handled others before."""
        return self.how in ("processor", "clock")


class ProcessLost(Exception):
    """The process is gone; ``loss`` says how."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.how)
        self.loss = loss


class ConfinedProcess:
    """A running child process that answers requests, each a line of JSON or a frame, with frames.

    ``module`` confines itself, writes a frame when it is ready, and gets this process's id as its last argument. Bodies
    of its frames have at most ``most_body`` bytes.

    Raises:
        BrokenError: The process did not start.
    """

    def __init__(self, module: str, *arguments: str, most_body: int) -> None:
        self._process = subprocess.Popen(
            module_command(module, *arguments, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**module_environment(), **_SMALL_MEMORY},
            start_new_session=True,  # Ctrl-C reaches the parent only, and the child ends with it
        )
        self._frames = FrameReader(_pipe(self._process.stdout).fileno(), most_body)
        try:
            self._frames.read(time.monotonic() + _START_LIMIT_S)
        except (EOFError, TimeoutError, BrokenFrame) as error:
            self._process.kill()
            words = _pipe(self._process.stderr).read().decode(errors="replace")
            self.end()
            raise BrokenError(
                f"The process {module} did not start ({error!r}). The end of its output: {tail(words)}. "
                "Check the free memory and the installation (okralong doctor), then run the same command again."
            ) from error
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def request(self, what: Mapping[str, Any]) -> None:
        """Send a request as a line of JSON. Raises ProcessLost."""
        stream = _pipe(self._process.stdin)
        try:
            stream.write(json.dumps(what).encode() + b"\n")
            stream.flush()
        except BrokenPipeError:
            raise ProcessLost(self._loss()) from None

    def send(self, head: Mapping[str, Any], body: Any = b"") -> None:
        """Send a request as a frame. Raises ProcessLost."""
        try:
            write_frame(cast(BinaryIO, _pipe(self._process.stdin)), dict(head), body)
        except BrokenPipeError:
            raise ProcessLost(self._loss()) from None

    def read(self, deadline: float) -> tuple[Head, bytes]:
        """Return the next frame, waiting until ``deadline`` on the monotonic clock. Raises ProcessLost."""
        try:
            return self._frames.read(deadline)
        except TimeoutError:
            raise ProcessLost(Loss("clock")) from None
        except EOFError:
            raise ProcessLost(self._loss()) from None
        except BrokenFrame as error:
            raise ProcessLost(Loss("crash", f"with {error}")) from None

    def end(self) -> None:
        """Kill the process, wait for it, and close its pipes; a second call is a no-op."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                _pipe(stream).close()

    def _loss(self) -> Loss:
        try:
            return loss_of_exit(self._process.wait(_END_LIMIT_S))
        except subprocess.TimeoutExpired:
            return Loss("crash", "by closing its output")


P = TypeVar("P", bound=ConfinedProcess)


class ProcessHolder(Generic[P]):
    """A replaceable process that starts on first use; a context manager that leaves no process behind."""

    def __init__(self) -> None:
        self._process: P | None = None

    @property
    def pid(self) -> int | None:
        """The id of the current process."""
        return self._process.pid if self._process else None

    def close(self) -> None:
        """End the process; the next use starts another."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def loss_of_exit(code: int) -> Loss:
    """Return the loss behind an exit code of ``subprocess``, which is negative for a signal."""
    if code == OUT_OF_MEMORY:
        return Loss("memory")
    if code == -signal.SIGXCPU:
        return Loss("processor")
    if code < 0:
        return Loss("crash", f"by signal {signal.strsignal(-code) or -code}")
    return Loss("crash", f"with code {code}")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


# Frames. The sizes come first, so that a frame that is too large is refused before any of it is read.

_SIZES: Final = struct.Struct(">QQ")
_MOST_HEAD_BYTES: Final = 16_000_000
"""The largest head belongs to a document with 1 MB of metadata, 6 bytes of JSON for each byte. # project default"""
_BLOCK: Final = 1 << 20

Head = dict[str, Any]


class BrokenFrame(Exception):
    """The other side sent something other than a frame, or too large a frame."""


def write_frame(stream: BinaryIO, head: Head, body: bytes = b"") -> None:
    """Write one frame and flush it; ``head`` must be JSON-serializable."""
    data = json.dumps(head).encode()
    stream.write(_SIZES.pack(len(data), len(body)) + data)
    stream.write(body)
    stream.flush()


class FrameReader:
    """Reads frames from a pipe and refuses bodies of more than ``most_body`` bytes."""

    def __init__(self, descriptor: int, most_body: int) -> None:
        self._descriptor = descriptor
        self._most_body = most_body

    def read(self, deadline: float) -> tuple[Head, bytes]:
        """Return the next frame, waiting until ``deadline`` on the monotonic clock.

        Raises:
            TimeoutError: The deadline passed.
            EOFError: The other side closed the pipe.
            BrokenFrame: The other side sent something else.
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


# Inside the process.

OUT_OF_MEMORY: Final = 77
"""Exit code of a process that ran out of memory. # project default"""

IDLE_S: Final = 30.0
"""Longest pause between two requests: longer than between two parts, while a start takes 1 to 2 s. # project default"""

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_FIRST_TO_KILL: Final = "1000"
"""``oom_score_adj`` of the process that the kernel should kill first when the machine runs out of memory."""


def end_with_parent(parent: int) -> None:
    """Have this process killed when process ``parent``, which started it, ends.

    On systems other than Linux it ends at its next request or reply, when its pipes close.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call above
        os._exit(0)


def confine(memory_bytes: int) -> None:
    """Forbid this process to write files and, on Linux, limit the address space it may add from now on.

    An allocation beyond the limit fails: Python raises MemoryError, a library may end the process.
    """
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
        resource.setrlimit(what, (0, 0))
    if sys.platform == "linux":
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_KILL)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + memory_bytes)


def allow_seconds(seconds: float) -> None:
    """Let this process use ``seconds`` of processor time from now on, rounded up, before the kernel ends it."""
    _lower(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))


def allow_more_seconds(seconds: float) -> None:
    """Raise the limit on processor time by ``seconds``."""
    bound, _ = resource.getrlimit(resource.RLIMIT_CPU)
    if bound != resource.RLIM_INFINITY:
        _lower(resource.RLIMIT_CPU, bound + math.ceil(seconds))


def _lower(what: int, bound: int) -> None:
    # The soft limit only: a lowered hard limit could not be raised again for the next request.
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))


def silence() -> None:
    """Discard everything that libraries print, so that the parent receives frames only."""
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)


def request_lines() -> Iterator[bytes]:
    """Yield the lines of standard input until it ends or none has come for ``IDLE_S``."""
    pending = b""
    while select.select([0], [], [], IDLE_S)[0]:
        block = os.read(0, 1 << 16)
        if not block:
            return
        *lines, pending = (pending + block).split(b"\n")
        yield from lines
