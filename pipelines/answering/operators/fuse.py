"""The assembled retriever's arithmetic: two ranked lists become one (paper section 3.4, appendix B.3).

The scores of BM25 and of cosine similarity live on different scales, so each list is stretched to 0..1 before the
weighted sum S = w_e * exact + w_s * semantic.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.values import Candidates, Hit


def fuse(candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """The union of both lists with fused scores, best first, ties by chunk_id.

    A chunk that one side did not offer counts 0 there.
    """
    exact = normalise(candidates.exact)
    semantic = normalise(candidates.semantic)
    chunks = {hit.chunk.chunk_id: hit.chunk for hit in (*candidates.exact, *candidates.semantic)}
    fused = [
        Hit(chunk, exact_weight * exact.get(chunk_id, 0.0) + semantic_weight * semantic.get(chunk_id, 0.0))
        for chunk_id, chunk in chunks.items()
    ]
    return sort_hits(fused)


def normalise(hits: Sequence[Hit]) -> dict[str, float]:
    """Min-max normalised score by chunk_id. A list whose scores are all equal, or of one hit, counts 1 throughout."""
    if not hits:
        return {}
    low = min(hit.score for hit in hits)
    high = max(hit.score for hit in hits)
    if not high > low:
        return {hit.chunk.chunk_id: 1.0 for hit in hits}
    return {hit.chunk.chunk_id: (hit.score - low) / (high - low) for hit in hits}


def sort_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Best first; equal scores by chunk_id, so that the same input always gives the same order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))
