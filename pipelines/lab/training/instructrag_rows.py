"""InstructRAG's training rows (Wei et al. 2025, section 3.2): the answer rows of the reader, each with a rationale that
a generator has written, which was told the answer.

A row's prompt is the method's own without examples, its reply the rationale and then the contract's lines. Who learned
them needs no examples: `llm.reader` with the strategy ``instructrag`` and ``instructrag.examples: 0``. Calls are made
through the ledger's client, so they are counted, capped and never paid for twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from okralong.pipelines.answering.citations import Ask, ask_and_read
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
from okralong.pipelines.core.types import Message, Reply, ReplyError
from okralong.pipelines.lab.training.asking import ask_each
from okralong.pipelines.lab.training.rows import RATIONALE, ReadingRow
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.methods.instructrag import (
    ROLE,
    Example,
    rationale_prompt,
    read_rationale,
    synthesis_prompt,
)

PATH: Final = "train-data/rationale"
"""The step under which rationales stand in journal and ledger, each with a hash of the prompt that it is for."""

NOT_HELD: Final = f"{UNANSWERABLE}, since none of the passages holds it"
"""The answer that the generator is told where the evidence was held back. Ours: the authors' questions all have one."""


@dataclass(frozen=True)
class Explained:
    """Rows with a rationale, in their order; ``counts`` of "explained", "over_budget", "failed"."""

    rows: list[ReadingRow]
    counts: dict[str, int]


async def explain_rows(rows: Sequence[ReadingRow], client: LlmClient, at_once: int) -> Explained:
    """The answer rows of ``rows`` as InstructRAG's, ``at_once`` asked at a time; other rows are left out.

    Left out is also a row whose rationale could not be had: the reply was of no use, also when it was asked for once
    more, or would be read as another answer, the call failed, or the cap is reached. Raises EndpointError as
    ``ask_each`` does.
    """

    async def explained(row: ReadingRow) -> ReadingRow:
        said = await _rationale(row, client)
        system, user = rationale_prompt(row.question, (), row.passages)
        reply = f"{said}\n{row.reply}"
        return replace(row, role=RATIONALE, system=system.content, user=user.content, reply=reply)

    # A formula is no part of the method's contract.
    asked = [row for row in rows if row.role == "generate" and not row.calculator]
    found, counts = await ask_each(asked, explained, at_once, "explained")
    return Explained([row for row in found if row is not None], counts)


async def _rationale(row: ReadingRow, client: LlmClient) -> str:
    told = row.answers[0] if row.answerable else NOT_HELD
    example = Example(row.question, tuple(passage.text for passage in row.passages), 1, "", told)
    step = f"{PATH}/{hashlib.sha256(row.user.encode()).hexdigest()[:16]}"
    ask: Ask = partial(_ask, client, f"{row.source}/{row.query_id}")
    said, _ = await ask_and_read(ask, step, synthesis_prompt(example), partial(_read, row))
    return said


def _read(row: ReadingRow, reply: str) -> str:
    said = read_rationale(reply)
    behind = parse_answer(f"{said}\n{row.reply}", row.question)
    if behind != parse_answer(row.reply, row.question):
        raise ReplyError("The explanation holds lines of the answer's own form. Sentences alone were asked for.", reply)
    return said


async def _ask(client: LlmClient, query_id: str, step: str, messages: Sequence[Message]) -> Reply:
    return await client.complete(query_id, step, ROLE, messages)
