"""How the time of some work grows with its input: linear work takes as many times as long as the input is longer."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

TIMES = 8
"""How many times as long the longer input is. Quadratic work takes TIMES squared."""

LINEAR = 3 * TIMES
"""Growth that is taken for linear: caches make a long input somewhat dearer."""


def growth(work: Callable[[int], object], size: int) -> float:
    """Processor seconds of ``work(TIMES * size)`` over those of ``work(size)``, the least of up to three tries each.

    The longer one is tried again only where it seems not to be linear, since a try takes up to seconds.
    """
    short = min(_seconds(work, size) for _ in range(3))
    long = _seconds(work, TIMES * size)
    for _ in range(2):
        if long < LINEAR * short:
            break
        long = min(long, _seconds(work, TIMES * size))
    return long / short


def _seconds(work: Callable[[int], object], size: int) -> float:
    gc.collect()
    gc.disable()  # its time depends on what earlier tests left in memory
    try:
        begun = time.process_time()
        work(size)
        return max(time.process_time() - begun, 1e-4)
    finally:
        gc.enable()
