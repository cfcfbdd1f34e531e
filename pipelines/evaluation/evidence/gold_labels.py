"""Pattern and evidence of a question as our own retrievers make them: the labels that no set annotates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.core.types import Hit, Pattern
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.evidence.measure import measure
from okralong.pipelines.evaluation.evidence.retrievals import Retrievals
from okralong.pipelines.evaluation.labels import PATTERN_CHUNKS, evidence_label, pattern_label


async def gold_labels(
    retrievals: Retrievals, texts: Mapping[str, str], question: PooledQuestion, granularity: int, chunks: Sequence[Hit]
) -> tuple[Pattern, bool] | None:
    """Which retriever's chunks of ``granularity`` tokens hold more of the evidence, and whether ``chunks`` hold it all.

    None where the set says nothing to look for: neither evidence nor parts of the answer. ``texts`` are the documents
    by their ids.
    """
    asked = question.item.gold.question.question
    found = await retrievals.find(asked, question.doc_ids, granularity, PATTERN_CHUNKS)
    shares = [_share(texts, question, hits) for hits in (found.exact, found.semantic, chunks)]
    if any(share is None for share in shares):
        return None
    exact, semantic, at_hand = (share or 0.0 for share in shares)
    return pattern_label(exact, semantic), evidence_label(at_hand)


def _share(texts: Mapping[str, str], question: PooledQuestion, hits: Sequence[Hit]) -> float | None:
    """The share of the gold evidence, or else of the answer's parts, that chunks hold; None where neither is known."""
    shown = measure(question, [passage_of(hit) for hit in hits], texts)
    return shown.answer_recall if shown.evidence_recall is None else shown.evidence_recall
