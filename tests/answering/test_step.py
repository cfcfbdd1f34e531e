"""Step-wise reasoning: it looks up what it asks for, stops when it should, and never runs away."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import Scripted, ScriptedTools, analysis, paper_policy

QUESTION = "What is the home town of the chair of Alder?"
FIRST = 'Evidence: [1] "The chair of Alder is Ida Moss"\nQuery: Where did Ida Moss grow up?\nAnswer: none'
FOUND = 'Evidence: [2] "Ida Moss grew up in Tarn"\nQuery: none\nAnswer: Tarn'


def tools_for(
    *steps: Scripted, calculator: bool = False, stronger: dict[str, list[Scripted]] | None = None, **policy: Any
) -> ScriptedTools:
    return ScriptedTools(
        [ALDER, BIRCH],
        {"step": steps, "generate": ["Answer: Tarn, at last"]},
        analysis=analysis("multi-bridge"),
        policy=paper_policy(**policy),
        calculator=calculator,
        stronger=stronger,
        reads=stronger is not None,
        reads_answers=False,
    )


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("okralong")(Question("q1", QUESTION), tools)


def trace(tools: ScriptedTools) -> list[str]:
    return [step for _, step in tools.steps()][3:]


async def test_two_hops_and_an_answer() -> None:
    tools = tools_for(FIRST, FOUND)
    answer = await ask(tools)
    assert trace(tools) == ["retrieve", "step/1/reason", "step/1/retrieve", "step/2/reason"]
    assert tools.of("retrieve")[2].details == {"query": "Where did Ida Moss grow up?", "granularity": 150, "k": 20}
    assert "The chair of Alder is Ida Moss" in tools.prompt("step/1/reason")
    assert "Ida Moss grew up in Tarn" in tools.prompt("step/2/reason")
    assert (answer.status, answer.answer) == ("answered", "Tarn")
    (citation,) = answer.citations
    assert citation.doc_id == BIRCH.doc_id
    assert BIRCH.text[citation.start_char : citation.end_char] == "Ida Moss grew up in Tarn"


async def test_a_formula_of_a_step_is_worked_out() -> None:
    reply = 'Evidence: [1] "41 million"\nQuery: none\nAnswer: =41 - 38 million'
    answer = await ask(tools_for(reply, calculator=True))
    assert (answer.status, answer.answer) == ("answered", "3 million")


async def test_the_bound_holds_and_the_last_find_is_used() -> None:
    numbers = count(1)
    tools = tools_for(lambda _: f"Query: what happened in week {next(numbers) * 14 - 10}, harbour crew?\nAnswer: none")
    answer = await ask(tools)
    assert [step for step in trace(tools) if step.endswith("reason")] == [f"step/{n}/reason" for n in range(1, 5)]
    assert trace(tools)[-2:] == ["step/4/retrieve", "generate"]
    assert answer.answer == "Tarn, at last"


async def test_the_bound_comes_from_the_policy() -> None:
    tools = tools_for(FIRST, FOUND, step__max_steps=1)
    await ask(tools)
    assert trace(tools) == ["retrieve", "step/1/reason", "step/1/retrieve", "generate"]


@pytest.mark.parametrize(
    "reply",
    [
        "Query: none\nAnswer: none",
        f"Query: {QUESTION}\nAnswer: none",
        "Query: what is the home town of the chair of ALDER\nAnswer: none",
        "Answer: unanswerable",
    ],
)
async def test_nothing_new_to_look_up_ends_the_loop(reply: Scripted) -> None:
    tools = tools_for(reply)
    answer = await ask(tools)
    assert trace(tools) == ["retrieve", "step/1/reason", "generate"]
    assert answer.answer == "Tarn, at last"


async def test_a_repeated_query_ends_the_loop() -> None:
    tools = tools_for(FIRST, FIRST)
    await ask(tools)
    assert trace(tools) == ["retrieve", "step/1/reason", "step/1/retrieve", "step/2/reason", "generate"]


async def test_a_look_up_that_finds_nothing_new_is_not_reasoned_over_again() -> None:
    tools = tools_for("Query: What is the home town of the chair of Alder, please?\nAnswer: none")
    await ask(tools)
    assert trace(tools) == ["retrieve", "step/1/reason", "step/1/retrieve", "generate"]


async def test_the_context_of_a_step_stays_inside_the_window() -> None:
    numbers = count(1)
    tools = ScriptedTools(
        [ALDER, BIRCH],
        {"step": [lambda _: f"Query: what happened in week {next(numbers) * 14 - 10}?"], "generate": ["Answer: so"]},
        analysis=analysis("multi-bridge"),
        window=1500,
    )
    await ask(tools)
    for call in tools.of("complete"):
        assert sum(tools.count(message.content) for message in call.details["messages"]) + 256 <= 1500
