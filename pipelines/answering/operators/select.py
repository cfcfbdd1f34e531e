"""Which of the ranked chunks are shown: the best few, less those far behind the first (paper appendix B.3)."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.types import Hit


def select(hits: Sequence[Hit], count: int, threshold: float) -> list[Hit]:
    """The first ``count`` of ``hits`` (best first) whose score is at least ``threshold`` times the top score."""
    if not hits:
        return []
    floor = threshold * hits[0].score
    return [hit for hit in hits if hit.score >= floor][:count]


def within_tokens(hits: Sequence[Hit], max_tokens: int | None) -> list[Hit]:
    """The first of ``hits`` (most important first) that hold at most ``max_tokens`` tokens together; None: all.

    The first one is kept whatever its size. The list ends at the first chunk that does not fit: a shorter one behind
    it would be shown in place of a better one. What the context processor adds afterwards is not counted.
    """
    if max_tokens is None:
        return list(hits)
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        used += hit.chunk.n_tokens
        if kept and used > max_tokens:
            break
        kept.append(hit)
    return kept
