"""Chunks read a few at a time into one summary that grows until it suffices (CompAct, Yoon et al. 2024, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from okralong.pipelines.answering.citations import ask_and_read
from okralong.pipelines.answering.context import fit_passages, passage_of, prompt_fits
from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.prompts.compress import NOTHING_YET, Digest, compress_prompt, read_digest
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Hit, Passage

ROLE = "compress"


async def digest(tools: Tools, question: str, hits: Sequence[Hit], segment: int) -> Digest:
    """What ``hits``, most important first and ``segment`` at a time, say on the question.

    Steps: ``segment/1/compress`` onward (each with ``/repair`` where its reply is of no use), until a summary is
    complete or all are read. Raises ReplyError when a repaired reply holds no summary either.
    """
    so_far = NOTHING_YET
    for number, start in enumerate(range(0, len(hits), segment), start=1):
        part = hits[start : start + segment]
        build = partial(compress_prompt, question, so_far)
        shown = fit_passages([passage_of(hit) for hit in part], part, build, ROLE, tools)
        so_far, _ = await ask_and_read(
            partial(tools.complete, role=ROLE),
            f"segment/{number}/compress",
            build(shown),
            read_digest,
            partial(prompt_fits, role=ROLE, tools=tools),
        )
        if so_far.complete:
            break
    return so_far


async def answer_from_text(tools: Tools, step: str, question: str, text: str) -> Answer:
    """An answer from a text that stands in no document: it is shown as a passage, but it is no source, so the answer
    has neither context nor citations.
    """
    written = Passage("summary", 0, len(text), text, count_tokens(text), 1.0)
    found = await generate(tools, step, question, [written] if text else [])
    return Answer(found.status, found.answer)
