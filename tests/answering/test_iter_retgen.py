"""Iter-RetGen's golden trace: each answer is part of the next look-up's query, and the last one counts."""

from __future__ import annotations

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH, report
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "Where did the chair of Alder grow up?"
FIRST = 'Evidence: [1] "The chair of Alder is Ida Moss."\nAnswer: Ida Moss'
SMALL = {"iter_retgen__granularity": 64, "iter_retgen__count": 2}


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("iter_retgen")(Question("q1", QUESTION), tools)


async def test_an_answer_with_its_words_leads_to_the_next_look_up() -> None:
    tools = ScriptedTools([ALDER, BIRCH], {"generate": [FIRST, "Answer: Tarn"]}, policy=paper_policy(**SMALL))
    answer = await ask(tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "iteration/1/retrieve"),
        ("complete", "iteration/1/generate"),
        ("retrieve", "iteration/2/retrieve"),
        ("complete", "iteration/2/generate"),
    ]
    first, second = (call.details for call in tools.of("retrieve"))
    assert first == {"query": QUESTION, "granularity": 64, "k": 2}
    assert second["query"].startswith(f"{QUESTION} Ida Moss The chair of Alder")
    assert (answer.status, answer.answer) == ("answered", "Tarn")
    assert answer.plan is not None
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    assert bound.completion_tokens == 2 * 256


async def test_it_ends_where_nothing_new_is_found_or_said() -> None:
    tools = ScriptedTools([ALDER], {"generate": ["Answer: unanswerable"]}, policy=paper_policy(**SMALL))
    assert (await ask(tools)).status == "unanswerable"
    assert len(tools.of("complete")) == 1
    # A scope of two chunks: each look-up finds both.
    tiny = ScriptedTools([report("Alder", {}, weeks=2)], {"generate": ["Answer: so"]}, policy=paper_policy(**SMALL))
    assert (await ask(tiny)).answer == "so"
    assert len(tiny.of("complete")) == 1


async def test_the_number_of_iterations_is_the_policys() -> None:
    numbers = iter(range(100))
    say = {"generate": [lambda _: f"Answer: week {next(numbers)} harbour crew number {next(numbers)}"]}
    tools = ScriptedTools([ALDER, BIRCH], say, policy=paper_policy(**SMALL, iter_retgen__iterations=4))
    await ask(tools)
    assert 2 <= len(tools.of("complete")) <= 4
