"""Sections that the generator chooses by their titles: what is offered, and which replies are taken."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.choose_sections import choose_sections, list_sections
from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.answering.organizer import choosing_sections, organize
from okralong.pipelines.answering.policy import SectionsPolicy
from okralong.pipelines.answering.prompts import TREE_TOKENS, read_sections
from okralong.pipelines.core.outline import OutlineNode
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Question, ReplyError, Usage
from okralong.pipelines.llm.config import CompletionLimits
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.tools import Scripted, ScriptedTools, analysis, paper_policy
from tests.statements.test_outline import SECTIONS, TEXT

REPORT = Document("a", TEXT, title="Quill 10-K", sections=SECTIONS)
POLICY = paper_policy().model_copy(update={"sections": SectionsPolicy(by="generator")})


def tools_for(reply: str, *documents: Document) -> ScriptedTools:
    return ScriptedTools(documents or [REPORT], {"sections": [reply]}, policy=POLICY)


async def test_titles_are_numbered_with_their_pages_before_the_question() -> None:
    tools = tools_for("[2], 3.")
    found = await choose_sections(tools, "Who works there?")
    assert found is not None
    assert [(each.doc_id, each.node.title, each.score) for each in found] == [
        ("a", "Item 1. Business", 1.0),
        ("a", "Human Capital", 1.0),
    ]
    shown = tools.prompt("sections")
    assert "Document: Quill 10-K\n[1] PART I (p. 3-5)\n[2]   Item 1. Business (p. 3)\n" in shown
    assert shown.endswith("\n\nQuestion: Who works there?")
    assert "Table of contents" not in shown
    assert "at most 3" in shown


@pytest.mark.parametrize("reply", ["", "None of them.", "0", "99", "2, 3 and 4", "Section 2", "-2", "I cannot help."])
async def test_any_other_reply_leaves_it_to_the_words_after_one_call(reply: str) -> None:
    tools = tools_for(reply)
    assert await choose_sections(tools, "Who works there?") is None
    assert [call.step for call in tools.of("complete")] == ["sections"]


async def test_too_many_documents_or_none_with_titles_ask_nobody() -> None:
    many = tools_for("1", *(Document(f"d{n}", TEXT, sections=SECTIONS) for n in range(5)))
    assert await choose_sections(many, "Who works there?") is None
    bare = tools_for("1", Document("b", "no heading here\n"))
    assert await choose_sections(bare, "Who works there?") is None
    assert many.of("complete") == bare.of("complete") == []


def test_a_reply_is_a_list_of_numbers() -> None:
    assert read_sections("<think>5?</think>3, 1, 3 2", 4, 2) == [3, 1]
    with pytest.raises(ReplyError, match="from 1 to 4"):
        read_sections("3, 5", 4, 2)


def test_the_deepest_levels_are_left_out_of_long_trees_first() -> None:
    def tree(*counts: int) -> list[OutlineNode]:
        levels = [level for level, count in enumerate(counts, 1) for _ in range(count)]
        return [OutlineNode(f"Heading number {at}", level, "body", at, at + 1) for at, level in enumerate(levels)]

    def offered(*counts: int) -> list[int]:
        (lines,) = list_sections([REPORT], [tree(*counts)], count_tokens)
        assert sum(count_tokens(line) for _, line in lines) <= TREE_TOKENS
        return [node.level for node, _ in lines]

    assert offered(2, 20, 30) == [1] * 2 + [2] * 20 + [3] * 30
    assert offered(2, 20, 900) == [1] * 2 + [2] * 20
    top = offered(900, 20)
    assert set(top) == {1}
    assert 100 < len(top) < 900


async def test_the_parts_and_the_second_attempt_use_what_was_chosen_once() -> None:
    policy = paper_policy(sections={"by": "generator"}, escalate={"under": 1.0, "to": "stronger"})
    replies: dict[str, list[Scripted]] = {
        "split": ["What is said of staff?\nWhat is said of leases?"],
        "generate": ["Answer: unanswerable"],
    }
    said = analysis("multi-source")
    first: dict[str, list[Scripted]] = {**replies, "sections": ["3"]}
    tools = ScriptedTools([REPORT], first, analysis=said, policy=policy, reads=True, stronger=replies)
    answer = await load_strategy("okralong")(Question("q1", "Compare staff and leases."), tools)
    asked = [call.step for call in tools.of("complete")]
    assert asked == ["sections", "split/questions", "generate", "escalated/split/questions", "escalated/generate"]
    assert answer.plan is not None
    assert answer.plan.sections is not None
    assert [each.node.title for each in answer.plan.sections] == ["Human Capital"]
    parts = [f"split/{n}/retrieve/sections" for n in (1, 2)]
    within = [call.step for call in tools.of("retrieve") if call.step.endswith("/retrieve/sections")]
    assert sorted(within) == sorted(["primary/retrieve/sections", *parts, *(f"escalated/{step}" for step in parts)])


def test_the_reserve_has_room_for_the_call() -> None:
    plan = organize(analysis("extractive"), POLICY, precise=False)
    limits = CompletionLimits()
    more = [plan_bound(each, 600, 128_000, limits.of) for each in (plan, choosing_sections(plan, paper_policy()))]
    assert more[0] == more[1]
    asking = choosing_sections(plan, POLICY)
    assert "the generator chooses" in asking.reasons[-1]
    assert plan_bound(asking, 600, 128_000, limits.of) == more[0] + Usage(TREE_TOKENS + 600, 0, 64)


def test_the_limit_of_its_reply_leaves_fingerprints_as_they_were() -> None:
    assert "sections" not in CompletionLimits().model_dump()
    assert CompletionLimits(sections=20).model_dump()["sections"] == 20
