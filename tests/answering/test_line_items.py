"""Metrics that no statement prints are looked up by the line items that they are worked out from."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.line_items import FILE, Metrics, line_item_queries
from okralong.pipelines.answering.policy import LineItemsPolicy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Document, Question, QuestionType
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.tools import ScriptedTools, analysis, paper_policy


def test_the_line_item_stands_in_the_metrics_place() -> None:
    assert line_item_queries("What was Alder's operating margin in 2024?") == [
        "What was Alder's operating income income from operations in 2024?",
        "What was Alder's total revenue net sales in 2024?",
    ]


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("Compare the EBITDA margins of both years.", 3),  # not EBITDA, which has two
        ("Is Alder a capital-intensive business?", 4),
        ("What is the debt to  equity ratio?", 2),
        ("What were net sales?", 0),
        ("How much of the marginal cost fell?", 0),
    ],
)
def test_the_longest_name_counts_in_any_spelling(question: str, count: int) -> None:
    assert len(line_item_queries(question)) == count


def test_no_name_stands_for_two_metrics() -> None:
    names = [name.lower() for metric in load_config(Metrics, FILE).metrics for name in metric.names]
    assert len(set(names)) == len(names) > 60


TEXT = [
    "The operating margin of the trade is a figure that analysts like to name in their notes about the operating year.",
    "Statement of income: total revenue net sales 900, as audited and signed by the board in the spring of the year.",
    "Statement of income: operating income from operations 90, after wages, rents and the wear of ovens and carts.",
    "The bakery keeps forty ovens and a mill, bakes at night, and sells from carts at the gates of the town at dawn.",
]


@pytest.mark.parametrize(("type_", "looked_up"), [("arithmetic", 3), ("extractive", 1)])
async def test_an_arithmetic_question_is_looked_up_for_each_line_item(type_: QuestionType, looked_up: int) -> None:
    base = paper_policy()
    small = base.factoid.model_copy(update={"granularity_present": 32, "count": 3})
    policy = base.model_copy(update={"line_items": LineItemsPolicy(types=["arithmetic"], count=1), "factoid": small})
    document = Document("alder", "\n\n".join(TEXT), sha256="a" * 64, n_tokens=100)
    tools = ScriptedTools([document], {"generate": ["Answer: 10 %"]}, analysis=analysis(type_), policy=policy)
    answer = await load_strategy("okralong")(Question("q", "What was the operating margin?"), tools)
    steps = [call.step for call in tools.calls if call.tool == "retrieve" and not call.step.startswith("primary")]
    assert steps == ["retrieve", "items/1/retrieve", "items/2/retrieve"][:looked_up]
    shown = " ".join(passage.text for passage in answer.context)
    assert answer.plan is not None
    if looked_up > 1:
        assert "net sales 900" in shown
        assert "from operations 90" in shown
        assert answer.plan.reasons[-1].startswith("it names a metric")
