"""Putting the finds of several queries together so that each query keeps its evidence.

Fused scores are relative to the best chunk of their own query, so a strong sub-question would crowd out a weak one
if all hits were ranked in one list. Taking turns is fair: first the best of each query, then the second of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from okralong.pipelines.core.types import Hit


def pool(finds: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Every chunk of ``finds`` once, in turns over the queries; a chunk found twice keeps its best score.

    The order is the order of importance: what must go when the window is too small goes from the end.
    """
    best: dict[str, Hit] = {}
    for turn in zip_longest(*finds):
        for hit in turn:
            if hit is None:
                continue
            known = best.get(hit.chunk.chunk_id)
            # A key that is assigned again keeps its place in the dict: the first turn decides the order.
            if known is None or hit.score > known.score:
                best[hit.chunk.chunk_id] = hit
    return list(best.values())
