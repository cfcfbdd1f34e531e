"""The assembled retriever's arithmetic: two ranked lists become one (paper section 3.4, appendix B.3).

The scores of BM25 and of cosine similarity live on different scales, so each list is stretched to 0..1 before the
weighted sum S = w_e * exact + w_s * semantic. The alternative looks at ranks alone: S = w_e / (k + rank_e) +
w_s / (k + rank_s), reciprocal rank fusion (Cormack et al. 2009), with weights, which are ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.answering.policy import FusionPolicy
from okralong.pipelines.core.types import Candidates, Chunk, Hit


def fuse(candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """The union of both lists with fused scores, best first, ties by chunk_id.

    A chunk that one side did not offer counts 0 there.
    """
    exact, semantic = normalised(candidates.exact), normalised(candidates.semantic)
    return _weighted_sum(candidates, exact, semantic, exact_weight, semantic_weight)


def fuse_ranks(
    candidates: Candidates, exact_weight: float, semantic_weight: float, rank_constant: float = 60
) -> list[Hit]:
    """The same union by reciprocal ranks; the default constant is that of Cormack et al. 2009.

    These scores lie close together. With k = 60 and 20 candidates a side even the last of one side has 61/80 of that
    side's top score, so a chunk that only one side of weight w found stays above 0.76 * w / (w_e + w_s) of the best
    score possible: a relative threshold below that drops nothing, and one made for min-max scores means nothing here.
    """
    exact = reciprocal_ranks(len(candidates.exact), rank_constant)
    semantic = reciprocal_ranks(len(candidates.semantic), rank_constant)
    return _weighted_sum(candidates, exact, semantic, exact_weight, semantic_weight)


def fuse_by(policy: FusionPolicy, candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """``fuse`` or ``fuse_ranks``, as the policy's ``method`` says."""
    if policy.method == "reciprocal_rank":
        return fuse_ranks(candidates, exact_weight, semantic_weight, policy.rank_constant)
    return fuse(candidates, exact_weight, semantic_weight)


def _weighted_sum(
    candidates: Candidates,
    exact: Sequence[float],
    semantic: Sequence[float],
    exact_weight: float,
    semantic_weight: float,
) -> list[Hit]:
    chunks: dict[str, Chunk] = {}
    fused: dict[str, float] = {}
    for hit, share in zip(candidates.exact, exact, strict=True):
        chunk = hit.chunk
        chunks[chunk.chunk_id] = chunk
        fused[chunk.chunk_id] = exact_weight * share
    for hit, share in zip(candidates.semantic, semantic, strict=True):
        chunk = hit.chunk
        chunks[chunk.chunk_id] = chunk
        fused[chunk.chunk_id] = fused.get(chunk.chunk_id, 0.0) + semantic_weight * share
    ranked = sorted([(-score, chunk_id) for chunk_id, score in fused.items()])
    return [Hit(chunks[chunk_id], -negated) for negated, chunk_id in ranked]


def normalised(hits: Sequence[Hit]) -> list[float]:
    """The hits' scores, stretched to 0..1. Of a list whose scores are all equal, or of one hit, 1 throughout."""
    scores = [hit.score for hit in hits]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if not high > low:
        return [1.0] * len(scores)
    width = high - low
    return [(score - low) / width for score in scores]


def reciprocal_ranks(count: int, rank_constant: float) -> list[float]:
    """1 / (``rank_constant`` + rank) of so many hits, best first; the first has rank 1."""
    return [1.0 / (rank_constant + rank) for rank in range(1, count + 1)]


def sort_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Best first; equal scores by chunk_id, so that the same input always gives the same order."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))
