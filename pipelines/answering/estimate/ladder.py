"""How a prompt grows with the look-ups behind it, where their queries are not known because no model has written them.

The question itself is looked up, deeper than a plan would: what n look-ups find if each finds new chunks is taken to
be as long as the first n times ``count`` chunks for the question. How much of it later look-ups find anew is left to
the priors, where it was measured with the public sets' own sub-questions (``python -m benchmarks.estimate.priors``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from okralong.pipelines.answering.context import fit_passages, process_context
from okralong.pipelines.answering.estimate.silent import prompt_tokens
from okralong.pipelines.answering.prompts import answer_prompt, step_prompt, with_demonstration
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Hit, Message, Passage, Plan

Sized = Callable[[Sequence[Message], str], int]
"""The tokens of a role's prompt."""


async def ladder(tools: Tools, question: str, plan: Plan, demonstrate: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """``(answer, reason)`` of a ``Forecast`` for a plan that splits or goes step by step; no reasoning in a split.

    ``tools`` must not choose chunks one by one. Raises QuestionError when the question leaves no room for a passage.
    """

    def sized(messages: Sequence[Message], role: str) -> int:
        return prompt_tokens(with_demonstration(messages, role) if demonstrate else messages, tools.count)

    split = plan.workflow == "split"
    # After the last step there is one look-up more, which only the answer sees.
    rungs = plan.max_sub_questions if split else plan.max_steps + 1
    count = plan.sub_question_count if split else plan.count
    tokens = plan.sub_question_tokens if split else plan.max_tokens
    deep = replace(
        plan,
        count=rungs * count,
        candidates=max(plan.candidates, rungs * count),
        max_tokens=None if tokens is None else rungs * tokens,
    )
    hits = await assembled_retrieval(tools, "retrieve", question, deep)
    answers, reasons = [], []
    for rung in range(1, rungs + 1):
        shown = hits[: rung * count]
        passages = await process_context(shown, plan, tools)
        answers.append(_answer(tools, question, passages, shown, sized))
        if not split and rung <= plan.max_steps:
            reasons.append(_reason(tools, question, passages, shown, sized))
    return tuple(answers), tuple(reasons)


def _answer(tools: Tools, question: str, passages: Sequence[Passage], hits: Sequence[Hit], sized: Sized) -> int:
    build = partial(answer_prompt, question, calculator=tools.calculator)
    return sized(build(fit_passages(passages, hits, build, "generate", tools)), "generate")


def _reason(tools: Tools, question: str, passages: Sequence[Passage], hits: Sequence[Hit], sized: Sized) -> int:
    build = partial(step_prompt, question)
    return sized(build(fit_passages(passages, hits, build, "step", tools)), "step")
