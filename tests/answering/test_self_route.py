"""Self-Route's golden trace: the best chunks, and the full text where they do not hold the answer."""

from __future__ import annotations

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.core.types import Answer, Question
from okralong.pipelines.methods.registry import describe, load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
FOUND = "Answer: 41 million"


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("self_route")(Question("q1", QUESTION), tools)


async def test_what_the_chunks_hold_is_answered_from_them() -> None:
    tools = ScriptedTools([ALDER, BIRCH], {"generate": [FOUND]})
    answer = await ask(tools)
    assert tools.steps() == [("record_plan", "plan"), ("retrieve", "retrieve"), ("complete", "generate")]
    assert tools.of("retrieve")[0].details == {"query": QUESTION, "granularity": 512, "k": 5}
    assert (answer.status, answer.answer) == ("answered", "41 million")


async def test_after_unanswerable_the_full_text_is_read_and_the_plan_holds_a_window_for_it() -> None:
    tools = ScriptedTools([ALDER, BIRCH], {"generate": ["Answer: unanswerable"], "full_text": [FOUND]})
    answer = await ask(tools)
    assert [step for _, step in tools.steps()] == ["plan", "retrieve", "generate", "full_text/generate"]
    assert answer.answer == "41 million"
    assert all(document.text.strip()[:40] in tools.prompt("full_text/generate") for document in (ALDER, BIRCH))
    assert answer.plan is not None
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    assert bound.prompt_tokens > tools.window
    assert bound.completion_tokens == 2 * 256


def test_it_needs_the_chunks_of_both_ways() -> None:
    spec = describe("self_route", paper_policy(self_route__granularity=256))
    assert spec.needs.granularities == (256, 512)
    assert spec.needs.unforeseen is None
