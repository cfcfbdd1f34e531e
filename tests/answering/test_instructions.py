"""Instructions within questions: what to answer without evidence, and where to search."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.instructions import Instructed, instructed, with_default
from okralong.pipelines.core.types import Answer


@pytest.mark.parametrize(
    ("question", "plain", "default"),
    [
        (
            "According to the annual report, what is the total revenue (in USD) for Alder Inc. (at the end of the last "
            "period)? If data is not available, return 'N/A'.",
            "What is the total revenue (in USD) for Alder Inc. (at the end of the last period)?",
            "N/A",
        ),
        (
            "What was the margin of Alder according to the annual report (within the last period or at the end of the "
            "last period)? If data is not available, return 'N/A'.",
            "What was the margin of Alder?",
            "N/A",
        ),
        (
            "Did Alder announce a merger in the annual report? If there is no mention, return False.",
            "Did Alder announce a merger?",
            "False",
        ),
        (
            "For Alder Inc., what was the value of Number of depots at the end of the period listed in annual report? "
            "If data is not available, return 'N/A'.",
            "What was the Number of depots for Alder Inc.?",
            "N/A",
        ),
        ("Who leads Alder? If it isn't stated, please answer with unknown.", "Who leads Alder?", "unknown"),
    ],
)
def test_instructions_are_separated(question: str, plain: str, default: str) -> None:
    assert instructed(question) == Instructed(plain, default)


@pytest.mark.parametrize(
    "question",
    [
        "What happens if Alder does not pay the rent?",
        "Should the lessee, if the roof is not repaired, give notice of 30 days?",
        "Did Alder say in the annual report what happens if data is lost?",
        "",
    ],
)
def test_other_questions_are_unchanged(question: str) -> None:
    assert instructed(question) == Instructed(question)


def test_the_default_answers_where_nothing_else_does() -> None:
    asked = Instructed("Did Alder announce a merger?", "False")
    nothing = Answer("unanswerable", "unanswerable", confidence=0.9)
    typed = with_default(asked, nothing, "boolean")
    assert typed.value is not None
    assert (typed.status, typed.answer, typed.value.value, typed.confidence) == ("answered", "False", "no", 0.9)
    assert "False" in typed.error
    assert with_default(asked, Answer("answered", "True"), "boolean").answer == "True"
    assert with_default(Instructed("What?", "N/A"), nothing, "number") == nothing
    assert with_default(Instructed("What?", "zero"), nothing, "number") == nothing
