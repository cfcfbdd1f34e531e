"""The processes of one command, told by a mark in their environment, which children inherit wherever they end up."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "OKRALONG_FAULT_RUN"
"""The environment variable whose value marks a command and all that it starts."""

PARTS: Final = {
    "planner": "ray::Planner",
    "gateway": "ray::GatewayActor",
    "embedder": "ray::ServeReplica:okralong-embedder",
    "analyzer": "ray::ServeReplica:okralong-analyzer",
    "shard": "ray::IndexShard",
}
"""How the title of a part's process begins; Ray adds the method that it is in."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was there a moment ago. ``parent`` is its parent's id."""

    pid: int
    parent: int
    title: str


def marked(value: str) -> list[Process]:
    """The living processes whose environment has this mark."""
    wanted = f"{MARK}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:  # gone meanwhile
            continue
        if state != "Z":
            found.append(Process(int(folder.name), int(parent), title))
    return found


def parts(value: str, part: str) -> list[Process]:
    """The living processes of a part of the run, in order of their ids."""
    return sorted((one for one in marked(value) if one.title.startswith(PARTS[part])), key=lambda one: one.pid)


def kill(process: Process) -> None:
    """``kill -9``; one that has gone by itself is fine."""
    try:
        os.kill(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def signal_until_it_ends(process: subprocess.Popen[str], number: int) -> None:
    """Send a signal again and again: those that reach a stalled machine's process within half a second count as one."""
    while process.poll() is None:
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2.0)


def left_over(value: str, seconds: float) -> list[Process]:
    """Those that are still there when they have had so many seconds to go."""
    deadline = time.monotonic() + seconds
    while (left := marked(value)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left
