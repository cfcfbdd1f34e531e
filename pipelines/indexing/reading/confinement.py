"""What the process that reads documents may use, set by itself before it sees the first one."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Final

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


def _lower(what: int, bound: int) -> None:
    """Set a soft limit; the hard one stays, since it could not be raised again for the next document."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (bound if hard == resource.RLIM_INFINITY else min(bound, hard), hard))
