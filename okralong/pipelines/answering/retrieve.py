"""Retrieval as strategies use it.

The assembled retriever (paper section 3.4, appendix B.3) fuses the ranked lists of BM25 and dense vectors, drops chunks
that score far below the first, and truncates the rest to the plan's size.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Final

from okralong.pipelines.answering.analyzers.words import STOP_WORDS
from okralong.pipelines.answering.policy import MOST_NAMED, NEAR
from okralong.pipelines.answering.rerank import rerank, stretched
from okralong.pipelines.answering.tools import Retriever, Tools
from okralong.pipelines.core.types import Candidates, Chunk, Hit, Plan, RetrieverScores


async def assembled_retrieval(tools: Tools, step: str, query: str, plan: Plan) -> list[Hit]:
    """Return the chunks that ``plan`` shows for ``query``, most important first.

    Steps: ``step`` and, if the policy enables them, ``step/wide`` (larger chunks raise the scores of smaller ones),
    ``step/named`` (a second search in the documents that the query names) and ``step/rerank`` (the cross-encoder).

    Raises:
        QuestionError: The question's scope names no document.
    """
    weights = plan.exact_weight, plan.semantic_weight
    k = max(plan.candidates, plan.count)
    fused, _ = await _ranked(tools, step, query, plan.granularity, k, weights, plan.neighbour_weight)
    return within_tokens(select(fused, plan.count, plan.threshold), plan.max_tokens)


async def dense_retrieval(tools: Retriever, step: str, query: str, plan: Plan) -> list[Hit]:
    """Return the ``plan.count`` best chunks by dense vectors, as most baselines retrieve."""
    found = await tools.retrieve(step, query, granularity=plan.granularity, k=plan.count)
    return list(found.semantic[: plan.count])


async def primary_retrieval(tools: Retriever, step: str, query: str) -> tuple[list[Hit], RetrieverScores]:
    """Return the primary chunks for the analyzer (paper appendix B.3), and the retrievers' scores.

    No threshold applies: the analyzer decides whether the chunks contain the evidence, so it must see weak ones, too.
    """
    primary = tools.policy.primary
    k = max(tools.policy.fusion.candidates, primary.count)
    weights = primary.exact_weight, primary.semantic_weight
    fused, found = await _ranked(tools, step, query, primary.granularity, k, weights)
    return select(fused, primary.count, threshold=0.0), RetrieverScores.of(found)


async def _ranked(
    tools: Retriever,
    step: str,
    query: str,
    granularity: int,
    k: int,
    weights: tuple[float, float],
    neighbours: float = 0.0,
) -> tuple[list[Hit], Candidates]:
    """Return the ranked chunks after fusion, boosts and reranking, and the results of both retrievers."""
    fusion = tools.policy.fusion
    found = await tools.retrieve(step, query, granularity=granularity, k=k)
    fused = fuse(found, *weights)
    if neighbours:
        fused = boost_by_neighbours(fused, neighbours)
    around = fusion.surroundings
    if around is not None and around.granularity > granularity:
        wide = await tools.retrieve(f"{step}/wide", query, granularity=around.granularity, k=k)
        fused = boost_by_wider(fused, fuse(wide, *weights), around.weight)
    meant = meant_documents(tools, query)
    if fusion.named is not None and meant:
        there = await tools.retrieve(f"{step}/named", query, granularity=granularity, k=k, doc_ids=sorted(meant))
        fused = boost_by_named(fused, fuse(there, *weights), meant, fusion.named.weight)
    if granularity <= tools.policy.rerank.largest:
        fused = await rerank(tools, f"{step}/rerank", query, fused)
    return fused, found


def meant_documents(tools: Retriever, query: str) -> dict[str, float]:
    """Return the documents that the query means best, with their shares; none if too many are meant as well."""
    if tools.policy.fusion.named is None or tools.scope_size < 2 or not (shares := tools.named(query)):
        return {}
    best = max(shares.values())
    meant = {doc_id: share for doc_id, share in shares.items() if share >= NEAR * best}
    return meant if len(meant) <= MOST_NAMED else {}


_NAME: Final = re.compile(r"[A-Z][\w&-]*\w")
_PERIOD_WORD: Final = re.compile(
    r"(?:first|second|third|fourth|quarter|Q[1-4]|(?:19|20)\d\d|January|February|March|April|May|June|July|August"
    r"|September|October|November|December|FY\d*|Fiscal)$",
    re.IGNORECASE,
)
"""Words that name a time."""
_LEGAL_FORMS: Final = "inc corp corporation company co ltd limited plc group holdings holding ag sa nv"
"""The last words of companies' names, which many share."""


def names_in(query: str) -> list[str]:
    """Return the capitalized words of a query that are no time, stop word or legal form, without possessive 's."""
    words = [re.sub(r"['\u2019]s?$", "", word) for word in _NAME.findall(query)]
    empty = STOP_WORDS.union(_LEGAL_FORMS.split())
    return [word for word in dict.fromkeys(words) if word.lower() not in empty and not _PERIOD_WORD.match(word)]


def fuse(candidates: Candidates, exact_weight: float, semantic_weight: float) -> list[Hit]:
    """Return the union of both lists by S = w_e * exact + w_s * semantic, best first, ties by chunk_id.

    BM25 scores and cosine similarities have different scales, so each list is stretched to 0..1 first. A chunk that a
    retriever did not return has the score 0 there. If the archive has no vectors, chunks are ranked by BM25, whatever
    the weights.
    """
    if not candidates.semantic:
        exact_weight = exact_weight or 1.0
    chunks: dict[str, Chunk] = {}
    fused: dict[str, float] = defaultdict(float)
    for hits, weight in ((candidates.exact, exact_weight), (candidates.semantic, semantic_weight)):
        for hit, share in zip(hits, stretched([hit.score for hit in hits]), strict=True):
            chunks[hit.chunk.chunk_id] = hit.chunk
            fused[hit.chunk.chunk_id] += weight * share
    return sort_hits([Hit(chunks[chunk_id], score) for chunk_id, score in fused.items()])


def sort_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Sort hits, best first. Equal scores are sorted by chunk_id, so that the order is deterministic."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.chunk_id))


# Boosts: the score of a small chunk is raised if the text around it also fits the query. Not in the papers.
#
# Small chunks show evidence with few tokens, but they have few words that a query can match: a table row does not name
# its company and year, while the page around it does. The larger chunks are indexed anyway, and cost no prompt tokens,
# since they are not shown. In transcripts of meetings, a topic extends over several chunks of any size, so there
# adjacent chunks of the same size help.


def boost_by_wider(hits: Sequence[Hit], wide: Sequence[Hit], weight: float) -> list[Hit]:
    """Add ``weight`` times the score of the larger chunks around each hit to its own; return hits best first.

    A larger chunk's score is multiplied by the share of the smaller chunk's characters that it covers.
    """
    around: dict[str, list[Hit]] = {}
    for hit in sorted(wide, key=lambda hit: hit.chunk.start_char):
        around.setdefault(hit.chunk.doc_id, []).append(hit)
    return sort_hits([Hit(h.chunk, h.score + weight * _score(h.chunk, around.get(h.chunk.doc_id, []))) for h in hits])


def _score(chunk: Chunk, wide: Sequence[Hit]) -> float:
    last = bisect_right(wide, chunk.end_char - 1, key=lambda hit: hit.chunk.start_char)
    total = 0.0
    for hit in reversed(wide[:last]):
        if hit.chunk.end_char <= chunk.start_char:
            break
        shared = min(hit.chunk.end_char, chunk.end_char) - max(hit.chunk.start_char, chunk.start_char)
        total += hit.score * shared
    return total / max(1, chunk.end_char - chunk.start_char)


def boost_by_named(hits: Sequence[Hit], there: Sequence[Hit], shares: Mapping[str, float], weight: float) -> list[Hit]:
    """Add the scores of hits ``there`` (found in the documents of ``shares``) to ``hits``; return hits best first.

    Each added score is multiplied by ``weight`` and the document's share.
    """
    found = {hit.chunk.chunk_id: hit for hit in hits}
    for hit in there:
        known = found.get(hit.chunk.chunk_id)
        score = 0.0 if known is None else known.score
        found[hit.chunk.chunk_id] = Hit(hit.chunk, score + weight * shares[hit.chunk.doc_id] * hit.score)
    return sort_hits(list(found.values()))


def boost_by_neighbours(hits: Sequence[Hit], weight: float) -> list[Hit]:
    """Add ``weight`` times the score of the better adjacent chunk to each hit's own; return hits best first.

    The hits must be of one chunk size. An adjacent chunk that is not among them has the score 0.
    """
    scores = {(hit.chunk.doc_id, hit.chunk.ordinal): hit.score for hit in hits}

    def better(chunk: Chunk) -> float:
        return max(scores.get((chunk.doc_id, chunk.ordinal + step), 0.0) for step in (-1, 1))

    return sort_hits([Hit(hit.chunk, hit.score + weight * better(hit.chunk)) for hit in hits])


def select(hits: Sequence[Hit], count: int, threshold: float) -> list[Hit]:
    """Return the first ``count`` of ``hits`` (best first) that score at least ``threshold`` times the top score."""
    if not hits:
        return []
    floor = threshold * hits[0].score
    return [hit for hit in hits if hit.score >= floor][:count]


def within_tokens(hits: Sequence[Hit], max_tokens: int | None) -> list[Hit]:
    """Return the first of ``hits`` (most important first) that have at most ``max_tokens`` tokens together.

    The first one is always kept. The list ends before the first chunk that does not fit, so that no worse but shorter
    chunk replaces it. Text that the context processor adds later is not counted.
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


def pool(finds: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Return every chunk once, taking turns between the queries; a chunk found twice keeps its best score.

    Fused scores are relative to the best chunk of the same query, so the chunks of all queries cannot be ranked by
    score: those of one sub-question might displace those of another. The order matters because chunks are dropped from
    the end.
    """
    best: dict[str, Hit] = {}
    for turn in zip_longest(*finds):
        for hit in turn:
            if hit is None:
                continue
            known = best.get(hit.chunk.chunk_id)
            # A key that is assigned again keeps its place in the dict, so the first turn determines the order.
            if known is None or hit.score > known.score:
                best[hit.chunk.chunk_id] = hit
    return list(best.values())
