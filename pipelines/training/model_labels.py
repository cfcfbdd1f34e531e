"""Labels by a generator, for rows that their set leaves unlabelled: paid for once, within the cap, in a ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzer import labels_by_generator
from okralong.pipelines.answering.citations import Ask
from okralong.pipelines.core.types import (
    CallFailed,
    EndpointError,
    Message,
    OverBudget,
    QuestionError,
    Reply,
    ReplyError,
)
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.training.rows import TrainingRow

PATH = "train-data/analyze"
"""The step under which labels stand in journal and ledger."""


@dataclass(frozen=True)
class Labelled:
    """Rows in their order, labelled where it could be done; ``counts`` of "labelled", "over_budget", "failed"."""

    rows: list[TrainingRow]
    counts: dict[str, int]


def is_unlabelled(row: TrainingRow) -> bool:
    """Whether a generator could say more of a row than its set does; without passages only the type can be said."""
    return row.type is None or bool(row.passages and (row.pattern is None or row.evidence is None))


async def label_rows(rows: Sequence[TrainingRow], client: LlmClient, at_once: int) -> Labelled:
    """Ask for what is missing, ``at_once`` rows at a time. What a set says itself is never overwritten.

    A reply of no use, a call that failed and a cap that is reached leave a row as it is. Raises EndpointError when the
    endpoint is gone, once the calls in flight have ended; what was labelled until then is in the journal, and costs
    nothing the next time.
    """
    counts: Counter[str] = Counter()
    places = asyncio.Semaphore(at_once)
    gone: list[EndpointError] = []

    async def one(row: TrainingRow) -> TrainingRow:
        if not is_unlabelled(row):
            return row
        ask: Ask = partial(_ask, client, f"{row.source}/{row.query_id}")
        async with places:
            if gone:
                return row
            try:
                said = await labels_by_generator(ask, PATH, AnalysisInput(row.question, row.passages))
            except EndpointError as error:
                gone.append(error)
                return row
            except OverBudget:
                counts["over_budget"] += 1
                return row
            except (ReplyError, CallFailed, QuestionError):
                counts["failed"] += 1
                return row
        counts["labelled"] += 1
        if not row.passages:
            return replace(row, type=said.type)
        return replace(
            row,
            type=row.type or said.type,
            pattern=row.pattern or said.pattern,
            evidence=said.evidence if row.evidence is None else row.evidence,
        )

    found = list(await asyncio.gather(*map(one, rows)))
    if gone:
        raise gone[0]
    return Labelled(found, dict(counts))


async def _ask(client: LlmClient, query_id: str, step: str, messages: Sequence[Message]) -> Reply:
    return await client.complete(query_id, step, ANALYZE, messages)
