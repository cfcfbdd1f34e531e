"""The plan of a method that plans nothing: it lets a baseline be admitted to the budget and shown like any other."""

from __future__ import annotations

from okralong.pipelines.values import Plan


def plain_plan(granularity: int, count: int, reason: str) -> Plan:
    """One dense retrieval of ``count`` chunks of ``granularity`` tokens and one answer."""
    return Plan(
        workflow="linear",
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
        max_steps=0,
        escalate=False,
        reasons=(reason,),
    )
