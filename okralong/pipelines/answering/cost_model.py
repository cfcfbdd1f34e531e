"""Compute upper bounds on the cost of a question, from the calls of its plan and the most tokens of each.

A run reserves this bound before spending anything (``plan_reserve``), so that no question runs out of budget halfway.
What a question is *expected* to cost is estimated from the same ``Forecast`` of its prompts
(``pipelines/run/estimate.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from okralong.pipelines.answering.policy import TABLE_TOKENS
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Plan, Usage
from okralong.pipelines.llm.prices import Price

PROMPT_OVERHEAD: Final = 600  # project default
"""The most tokens of a prompt in addition to the passages: instructions, markup and question."""

ANSWERS: Final = ("generate", "full_text")
"""The roles whose reply is the answer, which may not fit the question's answer type."""

LookUps = Literal["none", "split", "step"]
"""What the number of look-ups depends on: only the plan ("none"), the number of sub-questions, or that of steps."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The size of one prompt, in tokens.

    ``prefix`` has the hash and the number of tokens of the text before the question; None if it is too short to be
    cached.
    """

    role: str
    tokens: int
    prefix: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """The prompts that one question sends under one strategy.

    Attributes:
        certain: Prompts that are sent whatever the replies are.
        looks: What the number of look-ups depends on.
        answer: Tokens of the answer prompt after n + 1 look-ups that each found only new chunks; empty for "none".
        reason: The same for the prompt of a reasoning step.
        full_text: Tokens of the prompt that follows the reply "unanswerable", 0 if none does.
        again: The additional prompts of an escalation, or None.
        typed: Whether the question has an answer type, so that an answer that does not fit it is requested once more.
        longest: The most tokens of an answer of the question's type; None if only the role limits it.
    """

    certain: tuple[Prompt, ...] = ()
    looks: LookUps = "none"
    answer: tuple[int, ...] = ()
    reason: tuple[int, ...] = ()
    full_text: int = 0
    again: Forecast | None = None
    typed: bool = False
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class Spender:
    """The properties of a generator that bound the cost of a plan."""

    price: Price
    window: int
    completion_limit: Callable[[str], int]


def plan_reserve(plan: Plan, generator: Spender, stronger: Spender | None = None, *, typed: bool = False) -> float:
    """Return ``plan_bound`` in US dollars, plus the second answer if the plan escalates.

    The second answer is by the ``stronger`` generator, or by the same one from the full text.
    """
    usd = _usd_at_most(generator, plan_bound(plan, generator.window, generator.completion_limit, typed))
    if plan.escalate_to == "stronger" and stronger is not None:
        second = plan_bound(plan, stronger.window, stronger.completion_limit, typed)
        usd += _usd_at_most(stronger, second)
    if plan.escalate_to == "precise" and not plan.escalate:  # else the bound includes it
        whole = Usage(generator.window, 0, generator.completion_limit("full_text"))
        usd += _usd_at_most(generator, whole) * (2 if typed else 1)
    return usd


def _usd_at_most(generator: Spender, usage: Usage) -> float:
    return generator.price.most(usage.prompt_tokens, usage.completion_tokens)


def plan_bound(plan: Plan, window: int, completion_limit: Callable[[str], int], typed: bool = False) -> Usage:
    """Return the most prompt and completion tokens of a plan; a context has at most ``window`` tokens.

    A bound that the plan states itself (``most``) is returned as it is. With ``typed`` each answer counts twice,
    because it may be requested again with a prompt that shows the misfitting reply. In precise mode a full window is
    added, since the full text may be read. Repairs of malformed replies in other roles are not included: they are rare
    and reserve their own cost.
    """
    if plan.most is not None:
        shown = plan.most.prompt_tokens + completion_limit("generate") + PROMPT_OVERHEAD
        return plan.most + (Usage(min(shown, window), 0, completion_limit("generate")) if typed else Usage())
    widest = max(plan.granularity + 2 * plan.extension_tokens, TABLE_TOKENS if plan.recover_tables else 0)
    forecast = forecast_of_plan(plan, window, PROMPT_OVERHEAD, lambda count, _: count * widest)
    calls = [*forecast.certain, *(Prompt("step", tokens) for tokens in forecast.reason)]
    if forecast.answer:
        calls.append(Prompt("generate", forecast.answer[-1]))
    if plan.escalate:
        calls.append(Prompt("full_text", window))
    if typed:
        calls += [_repair(call, completion_limit(call.role), window) for call in calls if call.role in ANSWERS]
    return sum((Usage(call.tokens, 0, completion_limit(call.role)) for call in calls), Usage())


def _repair(call: Prompt, longest: int, window: int) -> Prompt:
    """Return the size of a prompt that repeats ``call`` and adds a reply of up to ``longest`` tokens and its error."""
    return Prompt(call.role, min(call.tokens + longest + PROMPT_OVERHEAD, window))


def most_of(tools: Tools, calls: Iterable[tuple[str, int]]) -> Usage:
    """Return the most tokens of some calls, each given as (role, tokens of its context)."""
    return sum(
        (Usage(min(shown + PROMPT_OVERHEAD, tools.window), 0, tools.completion_limit(role)) for role, shown in calls),
        Usage(),
    )


def forecast_of_plan(
    plan: Plan, whole: int, overhead: int, shown: Callable[[int, int | None], float] | None = None
) -> Forecast:
    """Return the forecast of a plan, from the chunk sizes and counts in it.

    Args:
        plan: A plan of the method.
        whole: The most tokens of a context: the window, or all text of the scope.
        overhead: Tokens around the passages of each prompt.
        shown: Returns the tokens of a context, given a number of chunks and a bound. By default, all chunks have the
            plan's size.
    """

    def own_size(count: int, bound: int | None) -> float:
        tokens = count * plan.granularity
        return (tokens if bound is None else min(tokens, bound)) + 2 * count * plan.extension_tokens

    def growth(count: int, bound: int | None, look_ups: int) -> tuple[int, ...]:
        one = (shown or own_size)(count, bound)
        return tuple(round(min(number * one, whole)) + overhead for number in range(1, look_ups + 1))

    if plan.workflow == "split":
        answer = growth(plan.sub_question_count, plan.sub_question_tokens, plan.max_sub_questions)
        return Forecast((Prompt("split", overhead),), "split", answer)
    if plan.workflow == "step":
        # One more look-up follows the last step; only the answer prompt contains it.
        answer = growth(plan.count, plan.max_tokens, plan.max_steps + 1)
        return Forecast((), "step", answer, answer[:-1])
    return Forecast((Prompt("generate", growth(plan.count, plan.max_tokens, 1)[0]),))
