"""Look at questions and answer them in this process without Ray, with the product's tools, client and journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from okralong.lab.evidence.retrievals import reader_of
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.models import FunctionModels, Generator, GeneratorCall
from okralong.pipelines.answering.offline import OfflineGenerator
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import Analysis, Answer, CallFailed, Plan, QuestionError, Reading, Reply, ReplyError
from okralong.pipelines.indexing.job import Encode
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.gateway import Gateway
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.run.dry_run import Outlook, dry_run
from okralong.pipelines.run.prepare import Scoped
from okralong.pipelines.run.rows import answer_row

IN_FLIGHT = 8
Read = Callable[[str, list[str]], Awaitable[list[Reading]]]


@dataclass(frozen=True)
class Desk:
    """An archive and what is needed to answer questions over it.

    ``encode`` must be the archive's own encoder, ``read`` are the readings of a cross-encoder (None: those of the
    shipped one, where the policy wants any).
    """

    archive: Archive
    encode: Encode
    analyzer: Analyzer
    policy: Policy
    llm: LlmConfig
    read: Read | None = None

    async def look(self, asked: Sequence[Scoped], strategies: Sequence[str]) -> list[Outlook]:
        """Return the outlook of each question."""
        return [await dry_run(each.question, each.doc_ids, self.ports(), strategies) for each in asked]

    async def answer(self, asked: Sequence[Scoped], strategy: str, run: Path) -> None:
        """Answer questions into a run folder, a few at a time."""
        ledger = RunLedger(Folder.of(run), None)
        client = LlmClient(self.llm, Gateway(ledger, [LocalLimiter(Limits(None, None, IN_FLIGHT))]), grammar=grammar)
        ports = replace(self.ports(), generator=ClientGenerator(client))
        places = asyncio.Semaphore(IN_FLIGHT)

        async def carry(scoped: Scoped) -> None:
            async with places:
                await ledger.finish(await _answered(scoped, strategy, ports, ledger))

        try:
            await asyncio.gather(*map(carry, asked))
        finally:
            await client.aclose()
            await ledger.close()

    def ports(self) -> Ports:
        """Return what the tools of all questions share, with a generator that is never called."""

        async def embed(texts: list[str]) -> Any:
            return self.encode(texts)

        async def analyze(asked: AnalysisInput) -> Analysis:
            return self.analyzer.analyze([asked])[0]

        reader = reader_of(self.policy) if self.read is None else None
        return Ports(
            models=FunctionModels(
                self.archive, embed=embed, analyze=analyze, read=self.read if reader is None else reader.port
            ),
            generator=OfflineGenerator(),
            policy=self.policy,
            window=self.llm.window,
            count=token_counter(self.llm.tokenizer),
            completion_limit=self.llm.completion_limit,
        )


async def _answered(scoped: Scoped, strategy: str, ports: Ports, ledger: RunLedger) -> dict[str, Any]:
    question = scoped.question
    tools = QuestionTools.in_process(ports, question, scoped.doc_ids, _Steps(ledger, question.query_id))
    try:
        answer = await load_strategy(strategy)(question, tools)
    except (QuestionError, ReplyError, CallFailed) as error:
        answer = Answer("failed", "", error=str(error))
    return answer_row(question, scoped.doc_ids, answer, strategy, {})


@dataclass(frozen=True)
class ClientGenerator(Generator):
    """An LLM client as the generator of tools."""

    client: LlmClient

    async def complete(self, call: GeneratorCall) -> Reply:
        """See ``Generator``."""
        options = {"logprobs": call.logprobs, "answer_type": call.answer_type, "longer": call.longer}
        return await self.client.complete(call.query_id, call.path, call.role, call.messages, **options)


@dataclass(frozen=True)
class _Steps:
    ledger: RunLedger
    query_id: str

    def recorded(self, path: str, kind: str) -> str | None:
        return None

    async def record(self, path: str, kind: str, body: str) -> None:
        await self.ledger.record([JournalRow(self.query_id, path, kind, body)])

    async def admit(self, plan: Plan) -> None:
        """Admit every plan."""
