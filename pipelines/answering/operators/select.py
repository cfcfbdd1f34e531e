"""Which of the ranked chunks are shown: the best few, less those far behind the first (paper appendix B.3)."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.values import Hit


def select(hits: Sequence[Hit], count: int, threshold: float) -> list[Hit]:
    """The first ``count`` of ``hits`` (best first) whose score is at least ``threshold`` times the top score."""
    if not hits:
        return []
    floor = threshold * hits[0].score
    return [hit for hit in hits if hit.score >= floor][:count]
