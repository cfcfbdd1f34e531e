"""The tools of one question in the bench: real retrieval, real operators, a writer instead of the generator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from okralong.pipelines.answering.citations import REPAIR
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import with_demonstration
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.search import stored_vectors
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    NO_SCORES,
    Analysis,
    Candidates,
    ConfigError,
    Document,
    Hit,
    Message,
    NobodyAsked,
    Plan,
    QuestionError,
    Reply,
    RetrieverScores,
    TokenVectors,
    Usage,
)
from okralong.pipelines.evaluation.evidence.retrievals import Retrievals
from okralong.pipelines.evaluation.evidence.writers import WRITTEN, Writer
from okralong.pipelines.sara.artifact import ArrayCompressor

COMPLETION_LIMIT = 512
"""Tokens kept free for a reply; ours."""

Analyze = Callable[[str, Sequence[Hit], RetrieverScores], Awaitable[Analysis]]
"""Analyses a question with its primary chunks and their retrievers' scores."""

Likelihood = Callable[[str, Sequence[str]], list[list[float]]]
"""See ``LikelihoodModel.score``."""


@dataclass
class BenchTools:
    """``Tools`` for one question over one archive. ``doc_ids`` is its resolved scope.

    Nothing is journaled and nothing is paid. ``queries`` collects what was looked up, in order; ``calls`` counts the
    prompts that the writer had to write queries for, ``prompt_tokens`` the o200k tokens of all prompts, the answer's
    too. ``likelihood`` and ``compressor`` are None where no policy of the sweep needs them. ``path`` leads from the
    question to this branch.
    """

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]
    gold_queries: tuple[str, ...]
    analyzer: Analyze
    writer: Writer
    likelihood: Likelihood | None = None
    query_prefix: str = ""
    compressor: ArrayCompressor | None = None
    path: str = ""
    queries: list[str] = field(default_factory=list)
    calls: int = 0
    prompt_tokens: int = 0

    @property
    def window(self) -> int:
        """See ``Tools``: the writer's."""
        return self.writer.window

    def count(self, text: str) -> int:
        """See ``Tools``: the writer's own tokens."""
        return self.writer.count(text)

    def completion_limit(self, role: str) -> int:
        """See ``Tools``."""
        return COMPLETION_LIMIT

    @property
    def calculator(self) -> bool:
        """See ``Tools``: no answer is written, so none is a formula."""
        return False

    async def retrieve(self, step: str, query: str, *, granularity: int, k: int) -> Candidates:
        """See ``Tools``."""
        self.queries.append(query)
        return await self.retrievals.find(query, self.doc_ids, granularity, k, self.query_prefix)

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis:
        """See ``Tools``."""
        return await self.analyzer(question, chunks, scores)

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        """See ``Tools``: every plan may go ahead."""
        return plan

    async def complete(self, step: str, messages: Sequence[Message], *, role: str, logprobs: bool = False) -> Reply:
        """See ``Tools``; the writer replies, once: first replies are measured. Raises NobodyAsked for a second one."""
        if step.endswith(f"/{REPAIR}"):
            raise NobodyAsked("The bench asks for nothing twice.")
        self.calls += role in WRITTEN
        self.prompt_tokens += prompt_size(messages)
        shown = with_demonstration(messages, role) if self.writer.demonstrate else messages
        text = await self.writer.write(self.gold_queries, f"{self.path}{step}", role, shown)
        return Reply(text, self.writer.name, Usage(), "stop", 0.0)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        vectors: list[list[float]] = self.retrievals.encoder.encode(list(texts)).tolist()
        return vectors

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        """See ``Tools``: nothing is kept, so it is always chosen anew."""
        return await pick()

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        """See ``Tools``."""
        held = await stored_vectors(self.retrievals.archive.clients, [hit.chunk for hit in hits])
        vectors: list[list[float]] = held.tolist()
        return vectors

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """See ``Tools``."""
        if self.compressor is None:
            raise ConfigError(
                f"The policy {self.policy.name!r} selects evidence in the compressor's space, and the bench was given "
                "none. Name one under compressor in the sweep file, or set selection.space to encoder."
            )
        made: list[list[float]] = self.compressor.pooled(np.asarray(vectors, dtype=np.float32)).tolist()
        return made

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        """See ``Tools``: the bench shows texts only. Raises ConfigError."""
        raise ConfigError("The bench has no strategy that shows vectors; run it with `okralong answer`.")

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """See ``Tools``."""
        if self.likelihood is None:
            raise ConfigError(
                f"The policy {self.policy.name!r} selects evidence by csi, and the bench was given no model to measure "
                "it with. Name one under scorer in the sweep file, or set selection.method to none or novelty."
            )
        return self.likelihood(prefix, texts)

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """See ``Tools``: the bench measures whole chunks only. Raises ConfigError."""
        raise ConfigError("The bench has no strategy that compresses; run it with `okralong answer`.")

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """See ``Tools``: nothing is kept."""
        return await make()

    async def artifact(self, name: str, doc_id: str, branch: Branch) -> Any:
        """See ``Tools``. Raises ConfigError: only a run keeps any."""
        raise ConfigError(f"The bench keeps no artifact such as {name!r}; run the strategy with `okralong answer`.")

    async def documents(self) -> list[tuple[str, int]]:
        """See ``Tools``."""
        return self.retrievals.archive.document_tokens(self.doc_ids)

    async def full_text(self, doc_id: str) -> Document:
        """See ``Tools``."""
        if doc_id not in self.doc_ids:
            raise QuestionError(f"The document {doc_id!r} is outside the question's scope.")
        return self.retrievals.archive.document(doc_id)

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        """See ``Tools``; one branch after the other."""
        results = []
        for branch in branches:
            child = replace(self, path=f"{self.path}{branch.path}/", queries=[], calls=0, prompt_tokens=0)
            results.append(await branch.operator(child, **branch.arguments))
            self.queries += child.queries
            self.calls += child.calls
            self.prompt_tokens += child.prompt_tokens
        return results


def prompt_size(messages: Sequence[Message]) -> int:
    """The o200k tokens of a prompt, without what a chat template puts around its messages."""
    return sum(count_tokens(message.content) + message.vector_rows for message in messages)
