"""The plan of a method that plans nothing: it lets a baseline be admitted to the budget and shown like any other."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.answering.policy import calls_bound
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Plan, Usage, Workflow


def plain_plan(
    granularity: int,
    count: int,
    reason: str,
    *,
    workflow: Workflow = "linear",
    max_steps: int = 0,
    most: Usage | None = None,
) -> Plan:
    """Dense retrieval of ``count`` chunks of ``granularity`` tokens, once and for one answer unless a method says
    otherwise: ``workflow`` and ``max_steps`` tell the reader how it goes on, ``most`` the budget what it can use.
    """
    return Plan(
        workflow=workflow,
        granularity=granularity,
        count=count,
        candidates=count,
        exact_weight=0.0,
        semantic_weight=1.0,
        threshold=0.0,
        extension_tokens=0,
        recover_tables=False,
        max_sub_questions=1,
        sub_question_count=0,
        max_steps=max_steps,
        escalate=False,
        reasons=(reason,),
        most=most,
    )


def most_of(tools: Tools, calls: Sequence[tuple[str, int]]) -> Usage:
    """The most that some calls can use, each a role and the tokens of what it is shown."""
    return calls_bound(calls, tools.window, tools.completion_limit)
