"""Have a generator complete training rows: missing labels, and InstructRAG's rationales.

Calls are made by ``LlmClient``, so they are counted, capped and never paid twice. A rationale (Wei et al. 2025, section
3.2) explains an answer that is given to the generator.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, TypeVar

from okralong.lab.training.rows.tables import RATIONALE, ReadingRow, TrainingRow
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import labels_by_generator
from okralong.pipelines.answering.citations import CallStep, ask_and_read
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
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
from okralong.pipelines.methods.instructrag import ROLE, Example, rationale_prompt, read_rationale, synthesis_prompt

R = TypeVar("R")
S = TypeVar("S")

LABEL_STEP: Final = "train-data/analyze"
RATIONALE_STEP: Final = "train-data/rationale"
"""The step paths of labels and rationales in journal and ledger. That of a rationale ends with a hash of its prompt."""

NOT_HELD: Final = f"{UNANSWERABLE}, since none of the passages holds it"
"""The answer that is given to the generator if the evidence was held back. The authors have no such questions. #
project default"""


@dataclass(frozen=True)
class Labelled(Generic[R]):
    """Rows that the generator completed, and ``counts`` of "labelled" or "explained", "over_budget" and "failed"."""

    rows: list[R]
    counts: dict[str, int]


def is_unlabelled(row: TrainingRow) -> bool:
    """Return whether a generator could add labels to a row. Without passages, it can add only the type."""
    return row.type is None or bool(row.passages and (row.pattern is None or row.evidence is None))


async def label_rows(rows: Sequence[TrainingRow], client: LlmClient, at_once: int) -> Labelled[TrainingRow]:
    """Ask the generator for missing labels, ``at_once`` rows at a time, and return the rows in order.

    A set's own labels are never overwritten. A row stays unchanged if the reply is unusable, the call fails or the cap
    is reached. Raises EndpointError if the endpoint cannot be reached.
    """

    async def labelled(row: TrainingRow) -> TrainingRow:
        ask = partial(_ask, client, f"{row.source}/{row.query_id}", ANALYZE)
        said = await labels_by_generator(ask, LABEL_STEP, AnalysisInput(row.question, row.passages))
        typed = replace(row, type=row.type or said.type)
        if not row.passages:
            return typed
        held = said.evidence if row.evidence is None else row.evidence
        return replace(typed, pattern=row.pattern or said.pattern, evidence=held)

    found, counts = await _ask_each([row for row in rows if is_unlabelled(row)], labelled, at_once, "labelled")
    said = iter(found)
    return Labelled([next(said) or row if is_unlabelled(row) else row for row in rows], counts)


async def explain_rows(rows: Sequence[ReadingRow], client: LlmClient, at_once: int) -> Labelled[ReadingRow]:
    """Turn the answer rows of ``rows`` into InstructRAG's rows, each with a rationale. Other rows are left out.

    At most ``at_once`` calls run at a time. The prompt of a row is that of the method without examples, its reply is
    the rationale followed by the lines of the answer format. A reader adapter that was trained on such rows needs no
    examples: use it as `llm.reader` with the strategy ``instructrag`` and ``instructrag.examples: 0``.

    A row is left out if its rationale is unusable even after a repair, if it would be parsed as another answer, if the
    call fails, or if the cap is reached. Raises EndpointError if the endpoint cannot be reached.
    """

    async def explained(row: ReadingRow) -> ReadingRow:
        said = await _rationale(row, client)
        system, user = rationale_prompt(row.question, (), row.passages)
        reply = f"{said}\n{row.reply}"
        return replace(row, role=RATIONALE, system=system.content, user=user.content, reply=reply)

    # The method's answer format has no formulas.
    asked = [row for row in rows if row.role == "generate" and not row.calculator]
    found, counts = await _ask_each(asked, explained, at_once, "explained")
    return Labelled([row for row in found if row is not None], counts)


async def _rationale(row: ReadingRow, client: LlmClient) -> str:
    told = row.answers[0] if row.answerable else NOT_HELD
    example = Example(row.question, tuple(passage.shown_text for passage in row.passages), 1, "", told)
    step = f"{RATIONALE_STEP}/{hashlib.sha256(row.user.encode()).hexdigest()[:16]}"
    ask: CallStep = partial(_ask, client, f"{row.source}/{row.query_id}", ROLE)
    said, _ = await ask_and_read(ask, step, synthesis_prompt(example), partial(_read, row))
    return said


def _read(row: ReadingRow, reply: str) -> str:
    said = read_rationale(reply)
    behind = parse_answer(f"{said}\n{row.reply}", row.question)
    if behind != parse_answer(row.reply, row.question):
        raise ReplyError("The explanation holds lines of the answer's own form. Sentences alone were asked for.", reply)
    return said


async def _ask_each(
    rows: Sequence[R], ask: Callable[[R], Awaitable[S]], at_once: int, done: str
) -> tuple[list[S | None], dict[str, int]]:
    """Return the results of ``ask`` for each row, in order, and counts of ``done``, "over_budget" and "failed".

    At most ``at_once`` calls run at a time. The result for a row without a usable reply is None. If the endpoint cannot
    be reached, raises EndpointError after the calls in flight have ended; their replies are kept in the journal and
    reused the next time.
    """
    counts: Counter[str] = Counter()
    places = asyncio.Semaphore(at_once)
    gone: list[EndpointError] = []

    async def one(row: R) -> S | None:
        async with places:
            if gone:
                return None
            try:
                found = await ask(row)
            except EndpointError as error:
                gone.append(error)
                return None
            except OverBudget:
                counts["over_budget"] += 1
                return None
            except (ReplyError, CallFailed, QuestionError):
                counts["failed"] += 1
                return None
        counts[done] += 1
        return found

    found = await asyncio.gather(*map(one, rows))
    if gone:
        raise gone[0]
    return list(found), dict(counts)


async def _ask(client: LlmClient, query_id: str, role: str, step: str, messages: Sequence[Message]) -> Reply:
    return await client.complete(query_id, step, role, messages)
