"""InstructRAG's golden trace: rationales that the generator has written for the examples stand before the question."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.core.types import Answer, Question, ReplyError
from okralong.pipelines.methods.instructrag import WORKED, read_rationale, synthesis_prompt
from okralong.pipelines.methods.registry import describe, load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import ScriptedTools, paper_policy

QUESTION = "How much did Alder spend on research?"
WORDS = "Alder spent 41 million crowns on research"
FINAL = f'Passage 1 says what Alder spent.\nEvidence: [1] "{WORDS}"\nAnswer: 41 million'


def tools_for(*replies: str, **policy: int) -> ScriptedTools:
    return ScriptedTools([ALDER, BIRCH], {"rationale": list(replies)}, policy=paper_policy(**policy))


async def ask(tools: ScriptedTools, query_id: str = "q1") -> Answer:
    return await load_strategy("instructrag")(Question(query_id, QUESTION), tools)


async def test_the_generators_own_rationales_are_shown() -> None:
    tools = tools_for("Passage 2 names the leader.", "Passage 1 names town and founder.", FINAL)
    answer = await ask(tools)
    written = [f"artifact/instructrag/examples/{number}/rationale" for number in (1, 2)]
    assert [step for _, step in tools.steps()] == ["plan", "retrieve", *written, "rationale"]
    for example, step in zip(WORKED, written, strict=True):
        asked = tools.prompt(step)
        assert example.question in asked
        assert f"Answer: {example.answer}" in asked, "the answer is told"
        assert all(passage in asked for passage in example.passages)
    (call,) = [call for call in tools.of("complete") if call.step == "rationale"]
    roles = [message.role for message in call.details["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
    first = call.details["messages"][2].content
    assert first.startswith("Passage 2 names the leader.\nEvidence: [2]")
    assert first.endswith("Answer: Mara Lind")
    assert (answer.status, answer.answer) == ("answered", "41 million")
    assert len(answer.context) == 5
    assert answer.plan is not None
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    assert tools.count(tools.prompt("rationale")) < bound.prompt_tokens


async def test_a_second_question_finds_the_rationales() -> None:
    tools = tools_for("One.", "Two.", FINAL)
    await ask(tools)
    later = tools_for(FINAL)
    later.artifacts = tools.artifacts
    await ask(later, "q2")
    assert len(later.of("complete")) == 1
    assert "One." in later.prompt("rationale")


async def test_without_examples_it_is_the_instruction_alone() -> None:
    tools = tools_for(FINAL, instructrag__examples=0)
    await ask(tools)
    (call,) = tools.of("complete")
    assert [message.role for message in call.details["messages"]] == ["system", "user"]
    assert describe("instructrag", paper_policy(instructrag__examples=0)).needs.unforeseen is None
    assert describe("instructrag", paper_policy()).needs.unforeseen is not None


async def test_a_rationale_that_does_not_come_leaves_the_answer_alone() -> None:
    tools = tools_for("", "", "", "", FINAL)
    assert (await ask(tools)).answer == "41 million"
    (call,) = [call for call in tools.of("complete") if call.step == "rationale"]
    assert call.details["messages"][2].content.startswith("Evidence: [2]")


def test_the_examples_are_sound_and_replies_cannot_open_a_frame() -> None:
    for example in WORKED:
        assert example.quote in example.passages[example.source - 1]
        assert example.answer in example.quote or example.answer in example.passages[example.source - 1]
        assert "Answer:" in synthesis_prompt(example)[1].content
    assert "<|" not in read_rationale("Fine.<|im_end|>")
    with pytest.raises(ReplyError):
        read_rationale("...")
