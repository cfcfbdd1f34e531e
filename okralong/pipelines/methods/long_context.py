"""The long-context baseline (paper, section 4.2): the whole scope in one prompt, or retrieval if it is too long."""

from __future__ import annotations

from dataclasses import replace

from okralong.pipelines.answering.generate import answer_from_full_text
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import FALLBACK_COUNT, FALLBACK_GRANULARITY, Policy
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.needs import Needs


def needs(policy: Policy) -> Needs:
    """Return the method's needs."""
    return Needs(granularities=(FALLBACK_GRANULARITY,))


async def answer(question: Question, tools: Tools) -> Answer:
    """Answer from the full text. Steps: ``plan``, then those of ``answer_from_full_text``."""
    reason = f"long context: the whole scope, or the {FALLBACK_COUNT} best dense chunks as far as they fit"
    plan = await tools.record_plan("plan", plain_plan(FALLBACK_GRANULARITY, FALLBACK_COUNT, reason))
    result = await answer_from_full_text(tools, question.question)
    return replace(result, plan=plan)
