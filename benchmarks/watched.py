"""Run a command and measure its time and the memory of all its processes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psutil

EVERY_S: Final = 0.2


@dataclass
class Watched:
    """Wall-clock ``seconds`` and ``processor_s`` of all processes.

    ``peak`` is their most memory at one time and ``own`` the command's own process's, in MiB of proportional set size
    (shared pages count once).
    """

    seconds: float = 0.0
    processor_s: float = 0.0
    peak: float = 0.0
    own: float = 0.0


def watched(command: Sequence[str]) -> Watched:
    """Run ``command``, sampling every 0.2 s. Raises SystemExit if it fails."""
    found, started = Watched(), time.perf_counter()
    job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watching = threading.Thread(target=_watch, args=(job, found))
    watching.start()
    code = job.wait()
    found.seconds = time.perf_counter() - started
    watching.join()
    if code:
        raise SystemExit(f"{' '.join(command[:6])} ended with {code}.")
    return found


def _watch(job: subprocess.Popen[bytes], found: Watched) -> None:
    root = psutil.Process(job.pid)
    spent: dict[int, float] = {}
    while job.poll() is None:
        sizes = {}
        try:
            for process in [root, *root.children(recursive=True)]:
                try:
                    times = process.cpu_times()
                    spent[process.pid] = times.user + times.system
                    sizes[process.pid] = process.memory_full_info().pss / 2**20
                except psutil.Error:
                    continue
        except psutil.Error:
            continue
        found.peak = max(found.peak, sum(sizes.values()))
        found.own = max(found.own, sizes.get(job.pid, 0.0))
        found.processor_s = sum(spent.values())
        time.sleep(EVERY_S)
