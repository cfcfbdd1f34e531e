"""The most that a plan can cost: what a question must be admitted with, so that it is never left half paid."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from okralong.pipelines.core.types import Plan, Usage
from okralong.pipelines.llm.prices import Price

PROMPT_OVERHEAD = 600
"""Tokens of instructions, frames and question around the passages of one prompt, rounded up. Ours."""


def plan_bound(plan: Plan, table_tokens: int, window: int, completion_limit: Callable[[str], int]) -> Usage:
    """Upper bound of prompt and completion tokens of a plan. No prompt is longer than the ``window``.

    A further call that repairs a malformed reply is not part of it: it is rare, and reserves its own cost.

    With precise mode allowed, a full window is part of it, since the escalation may come. A plan that says itself what
    it may use at ``most`` is taken at its word.
    """
    if plan.most is not None:
        return plan.most
    bound = _workflow_bound(plan, table_tokens, window, completion_limit)
    return bound + Usage(window, 0, completion_limit("full_text")) if plan.escalate else bound


def _workflow_bound(plan: Plan, table_tokens: int, window: int, completion_limit: Callable[[str], int]) -> Usage:
    widest = max(plan.granularity + 2 * plan.extension_tokens, table_tokens if plan.recover_tables else 0)
    context = min(plan.count * widest, window)
    generate, split, step = (completion_limit(role) for role in ("generate", "split", "step"))
    if plan.workflow == "split":
        context = min(plan.max_sub_questions * plan.sub_question_count * widest, window)
        return Usage(context + 2 * PROMPT_OVERHEAD, 0, generate + split)
    if plan.workflow == "step":
        shown = [min(rounds * context, window) for rounds in range(1, plan.max_steps + 1)]
        prompts = sum(shown) + shown[-1] + (plan.max_steps + 1) * PROMPT_OVERHEAD
        return Usage(prompts, 0, generate + plan.max_steps * step)
    return Usage(context + PROMPT_OVERHEAD, 0, generate)


def calls_bound(calls: Iterable[tuple[str, int]], window: int, completion_limit: Callable[[str], int]) -> Usage:
    """Upper bound of some calls, each a role and the tokens that it shows beside its instructions and question."""
    each = (Usage(min(shown + PROMPT_OVERHEAD, window), 0, completion_limit(role)) for role, shown in calls)
    return sum(each, Usage())


def plan_reserve(
    plan: Plan, price: Price, table_tokens: int, window: int, completion_limit: Callable[[str], int]
) -> float:
    """``plan_bound`` in dollars."""
    return price.cost(plan_bound(plan, table_tokens, window, completion_limit))
