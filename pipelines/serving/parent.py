"""A server must not outlive the process that started it, however that one ended.

The child watches two things: its standard input, a pipe whose other end only the parent holds, and its parent's process
id. The pipe ends at once even when the parent is killed with no chance to clean up; the id covers a parent whose pipe
was inherited by a fork. (Linux's parent-death signal is no use here: it fires when the *thread* that started the child
ends.)
"""

from __future__ import annotations

import os
import select
import sys
import threading
from typing import Final

POLL_S: Final = 1.0
"""Seconds between two looks at the parent's process id; ours."""


def die_with_parent(parent: int) -> None:
    """End this process at once when process ``parent`` does. Call it in the child, before the slow work."""
    threading.Thread(target=_watch, args=(parent,), name="parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    pipe = sys.stdin.fileno()
    while os.getppid() == parent:
        readable, _, _ = select.select([pipe], [], [], POLL_S)
        if readable and not os.read(pipe, 1):
            break
    os._exit(0)
