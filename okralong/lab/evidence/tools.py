"""The tools of a run for a question of the bench, with local retrieval, and a writer instead of the generator."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from okralong.lab.datasets.gold import PATTERN_CHUNKS, evidence_label, pattern_label
from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.evidence.config import GOLD, LabelField
from okralong.lab.evidence.measure import shown_share
from okralong.lab.evidence.retrievals import RememberedReader, Retrievals, reader_of
from okralong.lab.evidence.writers import WRITTEN, Writer
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.citations import REPAIR
from okralong.pipelines.answering.models import FunctionModels, GeneratorCall, Vectors
from okralong.pipelines.answering.offline import MemoryLog, OfflineGenerator
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import DEMONSTRATIONS
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    Analysis,
    Candidates,
    Hit,
    Message,
    NobodyAsked,
    Pattern,
    Question,
    Reading,
    Reply,
    Usage,
)

COMPLETION_LIMIT: Final = 512  # project default
"""Tokens of the window that are kept free for a reply."""

LOOK_UP: Final = "retrieval"
"""The journal's kind of a retrieval step (see ``QuestionTools``)."""

Analyze = Callable[[AnalysisInput], Awaitable[Analysis]]
"""A function that analyzes a question with its primary chunks and the retrievers' scores."""


class BenchTools(QuestionTools):
    """The tools of one question. ``doc_ids`` is its resolved scope; ``gold_queries`` are the set's own queries.

    ``calls`` is the number of prompts for
    which the writer wrote queries, ``prompt_tokens`` that of o200k tokens in all prompts, including the answer prompt
    but without worked examples.
    """

    def __init__(
        self,
        retrievals: Retrievals,
        policy: Policy,
        doc_ids: tuple[str, ...],
        gold_queries: tuple[str, ...],
        analyze: Analyze,
        writer: Writer,
        query_prefix: str = "",
        reader: RememberedReader | None = None,
    ) -> None:
        async def embed(texts: list[str]) -> Vectors:
            return retrievals.encoder.encode([query_prefix + text for text in texts])

        found = reader or reader_of(policy)
        # Escalation is off: the bench measures what is shown, not answers.
        policy = policy.model_copy(update={"escalate": None})

        offline = OfflineGenerator(self._reply)
        ports = Ports(
            models=FunctionModels(
                retrievals.archive,
                shards=retrievals.shards,
                embed=embed,
                analyze=analyze,
                read=None if found is None else found.port,
            ),
            generator=offline,
            policy=policy,
            window=writer.window,
            count=writer.count,
            completion_limit=lambda role: COMPLETION_LIMIT,
            demonstrate=writer.demonstrate,
        )
        self.calls = 0
        self.prompt_tokens = 0
        self._writer = writer
        self._gold_queries = gold_queries
        self._steps = MemoryLog()
        super().__init__(ports, Question("", ""), doc_ids, self._steps, self._branch)

    @property
    def queries(self) -> list[str]:
        """The queries, in order."""
        return [json.loads(body)["wanted"]["query"] for (_, kind), body in self._steps.kept.items() if kind == LOOK_UP]

    def again(self, path: str = "") -> QuestionTools:
        """Return new tools for the question, or for its branch at ``path``, with the same recorded steps."""
        return QuestionTools(self.ports, self.question, self.doc_ids, self.log, self.fan_out, path)

    async def _branch(self, branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        question, doc_ids = branch.posed(self.question, self.doc_ids)
        tools = QuestionTools(self.ports, question, doc_ids, self.log, self.fan_out, path)
        return await branch.operator(tools, **branch.arguments), {}

    async def _reply(self, call: GeneratorCall) -> Reply:
        """Return the writer's reply. Raises NobodyAsked for a repair, because only first replies are measured."""
        if call.path.endswith(f"/{REPAIR}"):
            raise NobodyAsked("The bench requests only first replies.")
        self.calls += call.role in WRITTEN
        example = DEMONSTRATIONS.get(call.role, ()) if self._writer.demonstrate else ()
        self.prompt_tokens += prompt_size(call.messages) - prompt_size(example)
        text = await self._writer.write(self._gold_queries, call.path, call.role, call.messages)
        return Reply(text, self._writer.name, Usage(), "stop", 0.0)


def given(analysis: Analysis) -> Analyze:
    """Return an analyze function that returns a known analysis."""

    async def analyze(asked: AnalysisInput) -> Analysis:
        return analysis

    return analyze


def analyzed_by(analyzer: Analyzer) -> Analyze:
    """Return an analyze function that calls ``analyzer`` with one question at a time."""

    async def analyze(asked: AnalysisInput) -> Analysis:
        return analyzer.analyze([asked])[0]

    return analyze


def relabelled(analyzer: Analyzer, labels: Mapping[LabelField, str], gold: Analysis | None) -> Analyze:
    """Return an analyze function that replaces labels of ``analyzer``, but not its probabilities, which no plan uses.

    Args:
        analyzer: The analyzer.
        labels: The new label by field (type, pattern, evidence), or ``GOLD``.
        gold: The gold labels, if ``labels`` names them.
    """
    new: dict[str, Any] = {
        field: getattr(gold, field) if label == GOLD else label == "yes" if field == "evidence" else label
        for field, label in labels.items()
    }

    async def analyze(asked: AnalysisInput) -> Analysis:
        return replace(analyzer.analyze([asked])[0], **new)

    return analyze


def prompt_size(messages: Iterable[Message]) -> int:
    """Return the o200k tokens of a prompt, without those that a chat template adds."""
    return sum(count_tokens(message.content) + message.vector_rows for message in messages)


async def gold_labels(
    retrievals: Retrievals, texts: Mapping[str, str], question: PooledQuestion, granularity: int, chunks: Sequence[Hit]
) -> tuple[Pattern, bool] | None:
    """Return the gold pattern and evidence: the better retriever, and whether ``chunks`` contain all evidence.

    The retrievers are compared by their chunks of ``granularity`` tokens. Returns None if the question has neither
    evidence nor parts of its answer. ``texts`` are the documents by doc_id.
    """
    asked = question.item.gold.question.question
    found = await retrievals.find(asked, question.doc_ids, granularity, PATTERN_CHUNKS)
    shares = [shown_share(texts, question, hits) for hits in (found.exact, found.semantic, chunks)]
    if any(share is None for share in shares):
        return None
    exact, semantic, at_hand = (share or 0.0 for share in shares)
    return pattern_label(exact, semantic), evidence_label(at_hand)


@dataclass(frozen=True)
class Lookup:
    """A ``Retriever`` for one question, for primary retrieval."""

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]
    prefix: str = ""
    reader: RememberedReader | None = None

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        """See ``Tools``."""
        return await self.retrievals.find(query, tuple(doc_ids) or self.doc_ids, granularity, k, self.prefix)

    @property
    def scope_size(self) -> int:
        """See ``Tools``."""
        return len(self.doc_ids) or self.retrievals.archive.n_documents

    def named(self, query: str) -> dict[str, float]:
        """See ``Tools``."""
        return {} if self.scope_size < 2 else self.retrievals.archive.names.named(query, self.doc_ids)

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """See ``Tools``."""
        found = self.reader or reader_of(self.policy)
        return found.read(query, passages) if found else []
