"""Training rows of a set: our own primary retrieval over its pooled documents, and the labels that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.types import Candidates, Question, QuestionType
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion
from okralong.pipelines.evaluation.datasets.values import Item
from okralong.pipelines.evaluation.evidence.bench import Bench
from okralong.pipelines.evaluation.evidence.gold_labels import gold_labels
from okralong.pipelines.evaluation.evidence.retrievals import Retrievals
from okralong.pipelines.training.rows import TrainingRow


@dataclass(frozen=True)
class _Lookup:
    """A ``Retriever`` for one question of a bench."""

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]

    async def retrieve(self, step: str, query: str, *, granularity: int, k: int) -> Candidates:
        """See ``Tools``."""
        return await self.retrievals.find(query, self.doc_ids, granularity, k)


async def rows_of(bench: Bench, policy: Policy) -> list[TrainingRow]:
    """A row for each question of a set that is indexed at the policy's chunk sizes."""
    return [await _row(bench, policy, question) for question in bench.pooled.questions]


def questions_only(source: str, items: Iterable[Item]) -> list[TrainingRow]:
    """Rows of questions whose set gives no document: the type is all that can be learned of them."""
    return [
        TrainingRow(
            query_id=item.gold.question.query_id,
            source=source,
            documents=item.documents,
            question=item.gold.question.question,
            passages=(),
            exact_scores=(),
            semantic_scores=(),
            semantic_ranks=(),
            type=_type(item.gold.question),
            pattern=None,
            evidence=None,
        )
        for item in items
    ]


async def _row(bench: Bench, policy: Policy, question: PooledQuestion) -> TrainingRow:
    asked = question.item.gold.question
    tools = _Lookup(bench.retrievals, policy, question.doc_ids)
    chunks, scores = await primary_retrieval(tools, "primary/retrieve", asked.question)
    granularity = policy.primary.granularity
    labels = await gold_labels(bench.retrievals, bench.texts, question, granularity, chunks)
    pattern, evidence = labels or (None, None)
    return TrainingRow(
        query_id=asked.query_id,
        source=bench.name,
        documents=question.item.documents or question.doc_ids,
        question=asked.question,
        passages=tuple(hit.chunk.text for hit in chunks),
        exact_scores=scores.exact,
        semantic_scores=scores.semantic,
        semantic_ranks=scores.semantic_ranks,
        type=_type(asked),
        pattern=pattern,
        evidence=evidence,
    )


def _type(asked: Question) -> QuestionType | None:
    return asked.type if asked.type in TYPES else None
