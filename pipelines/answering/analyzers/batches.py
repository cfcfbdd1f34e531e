"""Batches of like length: little is spent on padding, and what comes out stands in the order of what went in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def by_length(items: Sequence[T], length: Callable[[T], int], size: int, work: Callable[[list[T]], list[R]]) -> list[R]:
    """What ``work`` gives for each item, asked for at most ``size`` items of like length at a time."""
    order = sorted(range(len(items)), key=lambda index: length(items[index]))
    found: dict[int, R] = {}
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found.update(zip(part, work([items[index] for index in part]), strict=True))
    return [found[index] for index in range(len(items))]
