"""A call that brought no reply fails its question; a split of no use leaves it whole."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.workflows.split import split_question
from okralong.pipelines.core.types import CallFailed, Question, QuestionType, ReplyError
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import Scripted, ScriptedTools, analysis, paper_policy


def tools_for(type_: QuestionType, role: str, reply: Scripted) -> ScriptedTools:
    replies = {"generate": ["Answer: Tarn"], role: [reply]}
    return ScriptedTools([ALDER, BIRCH], replies, analysis=analysis(type_), policy=paper_policy())


@pytest.mark.parametrize(
    ("type_", "role"), [("multi-bridge", "step"), ("multi-source", "split"), ("extractive", "generate")]
)
async def test_no_operator_goes_on_without_a_reply_that_never_came(type_: QuestionType, role: str) -> None:
    tools = tools_for(type_, role, CallFailed("No reply. Tried 6 times."))
    with pytest.raises(CallFailed, match="6 times"):
        await load_strategy("okralong")(Question("q", "Where did Ida Moss and the chair of Birch grow up?"), tools)


async def test_a_split_that_came_twice_and_is_of_no_use_leaves_the_question_whole() -> None:
    tools = tools_for("multi-source", "split", ReplyError("empty"))
    assert await split_question(tools, "split/questions", "Who and where?", 4) == ["Who and where?"]
