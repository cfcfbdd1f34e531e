"""Each constant of the papers, read back from the plans that the shipped policy makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from okralong.pipelines.answering.analyzers.analysis import PATTERNS, TYPES
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Pattern, QuestionType, Workflow
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.tools import analysis, paper_policy

POLICY = paper_policy()


@pytest.mark.parametrize(
    ("type_", "workflow"),
    [
        ("extractive", "linear"),
        ("abstractive", "linear"),
        ("arithmetic", "extend"),
        ("multi-source", "split"),
        ("multi-bridge", "step"),
    ],
)
def test_workflow_follows_the_type(type_: QuestionType, workflow: Workflow) -> None:
    plan = organize(analysis(type_), POLICY, precise=False)
    assert plan.workflow == workflow
    assert (plan.extension_tokens > 0) == (workflow == "extend")
    assert f"question is {type_} → {workflow}" in plan.reasons[0]


@pytest.mark.parametrize(
    ("type_", "evidence", "count", "granularity"),
    [
        ("extractive", True, 5, 150),
        ("extractive", False, 5, 256),
        ("multi-bridge", False, 5, 256),
        ("arithmetic", True, 5, 150),
        ("abstractive", True, 8, 150),
        ("abstractive", False, 8, 400),
    ],
)
def test_scope_and_granularity(type_: QuestionType, evidence: bool, count: int, granularity: int) -> None:
    plan = organize(analysis(type_, evidence=evidence), POLICY, precise=False)
    assert (plan.count, plan.granularity) == (count, granularity)
    assert f"{count} chunks of {granularity} tokens" in plan.reasons[1]


@pytest.mark.parametrize(
    ("pattern", "weights"), [("exact", (3.0, 2.0)), ("semantic", (2.0, 3.0)), ("same", (1.0, 1.0))]
)
def test_weights_follow_the_pattern(pattern: Pattern, weights: tuple[float, float]) -> None:
    plan = organize(analysis("extractive", pattern), POLICY, precise=False)
    assert (plan.exact_weight, plan.semantic_weight) == weights


def test_only_labels_that_can_change_a_plan_are_used() -> None:
    """The default policy has one chunk size, whether or not the evidence is there; the paper's has two."""
    default = load_config(FullPolicy, "policy/default.yaml")
    assert (POLICY.uses_pattern, POLICY.uses_evidence) == (True, True)
    assert (default.uses_pattern, default.uses_evidence) == (True, False)
    for type_ in TYPES:
        plans = [organize(analysis(type_, evidence=held), default, precise=False) for held in (True, False)]
        plans.append(organize(replace(analysis(type_), evidence=None), default, precise=False))
        assert plans[0] == plans[1] == plans[2]
        assert "whether or not the primary chunks have the evidence" in plans[0].reasons[1]


@pytest.mark.parametrize(
    "changes", [{"fusion__only": "exact"}, {"fusion__preferred_weight": 1.0, "fusion__other_weight": 1.0}]
)
def test_a_pattern_that_decides_no_weight_is_not_used(changes: dict[str, Any]) -> None:
    policy = paper_policy(**changes)
    assert not policy.uses_pattern
    plans = [
        organize(replace(analysis("extractive"), pattern=each), policy, precise=False) for each in (*PATTERNS, None)
    ]
    assert all(plan == plans[0] for plan in plans)


def test_bounds_come_from_the_policy() -> None:
    plan = organize(analysis("multi-source"), POLICY, precise=True)
    assert (plan.candidates, plan.threshold) == (20, 0.1)
    assert (plan.max_sub_questions, plan.sub_question_count, plan.max_steps) == (4, 5, 4)
    assert plan.recover_tables
    assert plan.escalate
    assert "precise mode" in plan.reasons[-1]


def test_without_an_analysis_the_plan_is_plain_and_careful() -> None:
    plan = organize(None, POLICY, precise=False)
    assert (plan.workflow, plan.count, plan.granularity) == ("linear", 5, 256)
    assert plan.exact_weight == plan.semantic_weight
    assert not plan.escalate


def test_a_changed_policy_changes_the_plan() -> None:
    policy = paper_policy(factoid__count=7, fusion__threshold=0.4, workflow__extractive="step")
    plan = organize(analysis("extractive"), policy, precise=False)
    assert (plan.count, plan.threshold, plan.workflow) == (7, 0.4, "step")


def test_token_budgets_are_off_until_the_policy_sets_them() -> None:
    plain = organize(analysis("extractive"), POLICY, precise=False)
    assert (plain.max_tokens, plain.sub_question_tokens) == (None, None)
    policy = paper_policy(factoid__tokens=700, contextual__tokens=2000, split__tokens=450)
    plan = organize(analysis("multi-source"), policy, precise=False)
    assert (plan.max_tokens, plan.sub_question_tokens) == (700, 450)
    assert "700 tokens at most" in plan.reasons[1]
    assert organize(analysis("abstractive"), policy, precise=False).max_tokens == 2000
