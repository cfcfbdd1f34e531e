"""The query splitter: one retrieval for each sub-question, beside each other, and one context from all (paper 3.3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from okralong.pipelines.answering.operators.pool import pool
from okralong.pipelines.answering.operators.retrieve import assembled_retrieval
from okralong.pipelines.answering.operators.window import prompt_fits
from okralong.pipelines.answering.prompts.split import read_split, split_prompt
from okralong.pipelines.answering.repair import ask_and_read
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.core.types import Hit, NobodyAsked, Plan


async def split_question(tools: Tools, step: str, question: str, limit: int) -> list[str]:
    """At most ``limit`` sub-questions; the question itself where there is no room to ask for any.

    Steps: ``step``, and ``step/repair`` when the reply is of no use. Raises ReplyError when that one is neither.
    """
    messages = split_prompt(question, limit)
    if not prompt_fits(messages, "split", tools):
        return [question]
    try:
        found, _ = await ask_and_read(
            partial(tools.complete, role="split"),
            step,
            messages,
            lambda text: read_split(text, limit),
            lambda prompt: prompt_fits(prompt, "split", tools),
        )
    except NobodyAsked:
        return [question]
    return found


async def split_retrieval(tools: Tools, question: str, plan: Plan) -> list[Hit]:
    """The chunks of all sub-questions in turns, so that each keeps its evidence. Steps: ``split/questions``, and
    ``split/1/retrieve`` onward, one branch for each sub-question.
    """
    sub_questions = await split_question(tools, "split/questions", question, plan.max_sub_questions)
    of_one = replace(plan, count=plan.sub_question_count, max_tokens=plan.sub_question_tokens)
    branches = [
        Branch(
            f"split/{number}",
            assembled_retrieval,
            {"step": "retrieve", "query": sub_question, "plan": of_one},
        )
        for number, sub_question in enumerate(sub_questions, start=1)
    ]
    return pool(await tools.gather(branches))
