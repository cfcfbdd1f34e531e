"""Milliseconds a question, of several analyzers in one run: the machine's mood falls on all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from okralong.pipelines.answering.analysis import AnalysisInput

ROUNDS: Final = 3
"""Each is timed so often, in turn with the others; the median counts. Ours."""

Analyze = Callable[[Sequence[AnalysisInput]], Any]


def milliseconds(
    analyzers: Mapping[str, Analyze], asked: Sequence[AnalysisInput], batches: Sequence[int]
) -> dict[str, dict[int, float]]:
    """By analyzer and batch size: the median time of a question, after one pass that warms up."""
    for analyze in analyzers.values():
        analyze(asked[:1])
    found: dict[str, dict[int, list[float]]] = {name: {size: [] for size in batches} for name in analyzers}
    for _ in range(ROUNDS):
        for size in batches:
            for name, analyze in analyzers.items():
                found[name][size].append(_pass(analyze, asked, size))
    return {name: {size: statistics.median(times) for size, times in sizes.items()} for name, sizes in found.items()}


def _pass(analyze: Analyze, asked: Sequence[AnalysisInput], size: int) -> float:
    started = time.perf_counter()
    for first in range(0, len(asked), size):
        analyze(asked[first : first + size])
    return 1000 * (time.perf_counter() - started) / len(asked)
