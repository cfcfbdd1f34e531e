"""Measure processor time and peak private memory of this process per stage, and the slope of growth."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

EVERY_S: Final = 0.02
"""Interval between memory samples: at most a hundredth of a stage's processor time."""


class Meter:
    """``seconds`` of processor time per stage, and ``peaks``: the process's peak private memory in it, in MiB.

    A nested stage counts only as itself. Private memory is the kernel's ``RssAnon``, without mapped file pages, which
    the kernel may drop.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.peaks: defaultdict[str, float] = defaultdict(float)
        self.at_start = private_mib()
        self._stages: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what the block spends, except in nested stages."""
        self._charge()
        self._stages.append(name)
        try:
            yield
        finally:
            self._charge()
            self._stages.pop()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch memory until the block ends."""
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(EVERY_S):
                for name in self._stages[-1:]:
                    self.peaks[name] = max(self.peaks[name], private_mib())

        watch = threading.Thread(target=look)
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _charge(self) -> None:
        now = time.process_time()
        for name in self._stages[-1:]:
            self.seconds[name] += now - self._since
        self._since = now


def private_mib() -> float:
    """Return this process's private memory in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent of ``values`` over ``sizes`` by least squares on logarithms: 1 is linear, 0 is constant."""
    pairs = [(size, value) for size, value in zip(sizes, values, strict=True) if value > 0]
    if len(pairs) < 2:
        return float("nan")
    logarithms = np.log(np.array(pairs, dtype=np.float64))
    return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])
