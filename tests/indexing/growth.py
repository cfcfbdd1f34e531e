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
    """Processor seconds of ``work(TIMES * size)`` over those of ``work(size)``, the least of three tries each."""
    return _least(work, TIMES * size) / _least(work, size)


def _least(work: Callable[[int], object], size: int) -> float:
    spent = []
    for _ in range(3):
        gc.collect()
        gc.disable()  # its time depends on what earlier tests left in memory
        try:
            begun = time.process_time()
            work(size)
            spent.append(time.process_time() - begun)
        finally:
            gc.enable()
    return max(min(spent), 1e-4)
