"""A chunk in its surroundings: ranked higher where the text around it fits the query too. Ours, not in the papers.

Small chunks show evidence for few tokens, but have few words to be found by: the row of a table does not say which
company and which year it is about, the page around it does. The larger chunks are indexed anyway, and cost no token,
since they are only looked up and never shown. Talk about one topic in a meeting runs on over several chunks of any
size; there it is the neighbours of the same size that tell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from okralong.pipelines.answering.operators.fuse import sort_hits
from okralong.pipelines.core.types import Chunk, Hit


def lift(hits: Sequence[Hit], wide: Sequence[Hit], weight: float) -> list[Hit]:
    """``hits`` with ``weight`` times the score of their surroundings added, best first.

    A chunk's surroundings are the chunks of ``wide`` that it overlaps, each counted by its share of the chunk's
    characters; a part that none of them covers counts 0.
    """
    around: dict[str, list[Hit]] = {}
    for hit in sorted(wide, key=lambda hit: hit.chunk.start_char):
        around.setdefault(hit.chunk.doc_id, []).append(hit)
    return sort_hits([Hit(h.chunk, h.score + weight * _score(h.chunk, around.get(h.chunk.doc_id, []))) for h in hits])


def _score(chunk: Chunk, wide: Sequence[Hit]) -> float:
    """``wide`` are chunks of one granularity in one document, by position: they do not overlap each other."""
    last = bisect_right(wide, chunk.end_char - 1, key=lambda hit: hit.chunk.start_char)
    total = 0.0
    for hit in reversed(wide[:last]):
        if hit.chunk.end_char <= chunk.start_char:
            break
        shared = min(hit.chunk.end_char, chunk.end_char) - max(hit.chunk.start_char, chunk.start_char)
        total += hit.score * shared
    return total / max(1, chunk.end_char - chunk.start_char)


def beside(hits: Sequence[Hit], weight: float) -> list[Hit]:
    """``hits``, chunks of one granularity, each with ``weight`` times the score of its better neighbour added.

    A neighbour that is not among ``hits`` counts 0. Best first.
    """
    scores = {(hit.chunk.doc_id, hit.chunk.ordinal): hit.score for hit in hits}

    def better(chunk: Chunk) -> float:
        return max(scores.get((chunk.doc_id, chunk.ordinal + step), 0.0) for step in (-1, 1))

    return sort_hits([Hit(hit.chunk, hit.score + weight * better(hit.chunk)) for hit in hits])
