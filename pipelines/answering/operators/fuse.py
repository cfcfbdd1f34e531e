"""The assembled retriever's arithmetic: two ranked lists become one (paper section 3.4, appendix B.3).

The scores of BM25 and of cosine similarity live on different scales, so each list is stretched to 0..1 before the
weighted sum S = w_e * exact + w_s * semantic. The alternative looks at ranks alone: S = w_e / (k + rank_e) +
w_s / (k + rank_s), reciprocal rank fusion (Cormack et al. 2009), with weights, which are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.answering.policy import FusionPolicy
from okralong.pipelines.values import Candidates, Hit


def fuse(candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """The union of both lists with fused scores, best first, ties by chunk_id.

    A chunk that one side did not offer counts 0 there.
    """
    return _weighted_sum(
        candidates, normalise(candidates.exact), normalise(candidates.semantic), exact_weight, semantic_weight
    )


def fuse_ranks(
    candidates: Candidates, exact_weight: float, semantic_weight: float, rank_constant: float = 60
) -> list[Hit]:
    """The same union by reciprocal ranks; the default constant is that of Cormack et al. 2009.

    These scores lie close together. With k = 60 and 20 candidates a side even the last of one side has 61/80 of that
    side's top score, so a chunk that only one side of weight w found stays above 0.76 * w / (w_e + w_s) of the best
    score possible: a relative threshold below that drops nothing, and one made for min-max scores means nothing here.
    """
    exact = reciprocal_ranks(candidates.exact, rank_constant)
    semantic = reciprocal_ranks(candidates.semantic, rank_constant)
    return _weighted_sum(candidates, exact, semantic, exact_weight, semantic_weight)


def fuse_by(policy: FusionPolicy, candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """``fuse`` or ``fuse_ranks``, as the policy's ``method`` says."""
    if policy.method == "reciprocal_rank":
        return fuse_ranks(candidates, exact_weight, semantic_weight, policy.rank_constant)
    return fuse(candidates, exact_weight, semantic_weight)


def _weighted_sum(
    candidates: Candidates,
    exact: dict[str, float],
    semantic: dict[str, float],
    exact_weight: float,
    semantic_weight: float,
) -> list[Hit]:
    chunks = {hit.chunk.chunk_id: hit.chunk for hit in (*candidates.exact, *candidates.semantic)}
    ranked = [
        (-(exact_weight * exact.get(chunk_id, 0.0) + semantic_weight * semantic.get(chunk_id, 0.0)), chunk_id)
        for chunk_id in chunks
    ]
    ranked.sort()
    return [Hit(chunks[chunk_id], -negated) for negated, chunk_id in ranked]


def normalise(hits: Sequence[Hit]) -> dict[str, float]:
    """Min-max normalised score by chunk_id. A list whose scores are all equal, or of one hit, counts 1 throughout."""
    if not hits:
        return {}
    scores = [hit.score for hit in hits]
    low, high = min(scores), max(scores)
    if not high > low:
        return {hit.chunk.chunk_id: 1.0 for hit in hits}
    return {hit.chunk.chunk_id: (hit.score - low) / (high - low) for hit in hits}


def reciprocal_ranks(hits: Sequence[Hit], rank_constant: float) -> dict[str, float]:
    """1 / (``rank_constant`` + rank) by chunk_id; ``hits`` are best first, the first has rank 1."""
    return {hit.chunk.chunk_id: 1.0 / (rank_constant + rank) for rank, hit in enumerate(hits, start=1)}


def sort_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Best first; equal scores by chunk_id, so that the same input always gives the same order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))
