"""The workflow "split": the question splitter and a retrieval for each sub-question (paper section 3.3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.citations import ask_for
from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.prompts import read_split, split_prompt
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.types import ReplyError


async def retrieve_for_parts(ask: Ask) -> Finds:
    """Retrieve for each sub-question in a separate branch.

    Steps: ``split/questions``, then ``split/1/retrieve``, ``split/2/retrieve`` and so on.
    """
    plan = ask.plan
    parts = await split_question(ask.tools, "split/questions", ask.question, plan.max_sub_questions)
    of_one = replace(plan, count=plan.sub_question_count, max_tokens=plan.sub_question_tokens)
    branches = [
        Branch(f"split/{number}", assembled_retrieval, {"step": "retrieve", "query": part, "plan": of_one})
        for number, part in enumerate(parts, start=1)
    ]
    return list(zip(parts, await ask.tools.gather(branches), strict=True))


async def split_question(tools: Tools, step: str, question: str, limit: int) -> list[str]:
    """Return at most ``limit`` sub-questions; the question itself if the prompt does not fit or no reply is usable.

    Steps: ``step``, and ``step/repair`` if the reply has no question.
    """
    messages = split_prompt(question, limit, tools.language)
    if not prompt_fits(messages, "split", tools):
        return [question]
    try:
        return await ask_for(tools, "split", step, messages, partial(read_split, limit=limit))
    except ReplyError:  # NobodyAsked is one
        return [question]
