"""The golden trace of a question over many documents: task, cells, table, answer; and what is refused or missing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.types import Answer, Document, Message, Question, QuestionError
from okralong.pipelines.methods.registry import describe, load_strategy, names
from tests.fakes.tools import ScriptedTools, analysis, paper_policy

QUESTION = "Which company had the highest revenue in 2021?"
TASK = "Ask: What was the revenue in 2021?\nType: money\nDo: max"
SAID = {
    "alder": "Revenue of Alder in 2021 was $41 million.",
    "birch": "Revenue of Birch in 2021 was $9,500 in thousands.",
    "cedar": "Cedar does not say what it sold in 2021, and its revenue stays a secret.",
}


def documents(**said: str) -> list[Document]:
    return [Document(name, f"{text}\n") for name, text in (SAID | said).items()]


def reads(messages: Sequence[Message]) -> str:
    """Answers with the amount of the one passage that is shown, or not at all."""
    shown = messages[1].content
    line = next(line for line in shown.splitlines() if "evenue" in line)
    if " was " not in line:
        return "Answer: unanswerable"
    return f'Evidence: [1] "{line}"\nAnswer: {line.partition(" was ")[2].rstrip(".")}'


async def ask(
    question: Question | str = QUESTION,
    *,
    tools: ScriptedTools | None = None,
    task: str = TASK,
    policy: Policy | None = None,
    strategy: str = "over_documents",
    generate: object = reads,
    **said: str,
) -> tuple[Answer, ScriptedTools]:
    replies = {"documents": [task], "generate": [generate], "split": ["What?"]}
    tools = tools or ScriptedTools(
        documents(**said), replies, analysis=analysis("extractive"), policy=policy or paper_policy()
    )
    question = Question("q1", question) if isinstance(question, str) else question
    return await load_strategy(strategy)(question, tools), tools


async def test_each_document_is_asked_by_itself_and_code_compares() -> None:
    answer, tools = await ask()
    cells = [
        (tool, f"cells/{number}/{step}")
        for number in (1, 2, 3)
        for tool, step in (
            ("retrieve", "primary/retrieve"),
            ("analyze", "analyze"),
            ("record_plan", "plan"),
            ("retrieve", "retrieve"),
            ("complete", "generate"),
        )
    ]
    steps = tools.steps()
    assert steps[:2] == [("record_plan", "plan"), ("complete", "task")]
    assert sorted(steps[2:-1]) == sorted(cells)
    assert steps[-1] == ("remember", "table")
    assert "over 3 documents: Which company" in tools.prompt("task")
    for number, name in enumerate(SAID, start=1):
        shown = tools.prompt(f"cells/{number}/generate")
        assert shown.count("<passage ") == 1
        assert f'doc="{name}"' in shown
        assert "What was the revenue in 2021?" in shown
    assert answer.status == "answered"
    assert answer.answer == "alder: 41,000,000 USD (2021) (no value found: cedar)"
    assert [each.quote for each in answer.citations] == [SAID[name].rstrip(".") for name in ("alder", "birch")]
    assert {passage.doc_id for passage in answer.context} == set(SAID)
    assert answer.plan is not None
    assert (answer.plan.workflow, answer.plan.max_sub_questions) == ("documents", 3)
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    calls = [step for tool, step in steps if tool == "complete"]
    assert sum(tools.count(tools.prompt(step)) for step in calls) < bound.prompt_tokens
    assert bound.completion_tokens >= 256 * len(calls)


async def test_the_generator_answers_from_the_table_and_to_cite_a_row_is_to_cite_its_source() -> None:
    def answers(messages: Sequence[Message]) -> str:
        if "Which company" not in messages[-1].content:
            return reads(messages)
        return "Evidence: [2]\nAnswer: Birch, for it is smaller"

    task = TASK.replace("Do: max", "Do: language model")
    answer, tools = await ask(task=task, generate=answers)
    table = tools.prompt("generate")
    assert (
        f'<passage id="1" doc="alder">\nalder: 41,000,000 USD (2021)\n{SAID["alder"].rstrip(".")}\n</passage>' in table
    )
    assert table.count("<passage ") == 2, "a document without a value has no row"
    assert answer.answer == "Birch, for it is smaller (no value found: cedar)"
    assert [(each.doc_id, each.quote) for each in answer.citations] == [("birch", SAID["birch"].rstrip("."))]


async def test_values_that_cannot_be_brought_together_stand_in_the_answer() -> None:
    answer, _ = await ask(birch="Revenue of Birch in 2021 was €9 million.")
    assert answer.status == "answered"
    assert answer.answer.startswith("alder: 41,000,000 USD (2021) and birch: 9,000,000 EUR (2021) have different units")
    assert answer.answer.endswith("birch: 9,000,000 EUR (2021) (no value found: cedar)")
    assert len(answer.citations) == 2


async def test_no_cell_stops_the_others_and_no_value_at_all_is_unanswerable() -> None:
    nothing = dict.fromkeys(SAID, "Nothing is known of the revenue.")
    answer, _ = await ask(**nothing)
    assert (answer.status, answer.answer, answer.citations) == ("unanswerable", "unanswerable", ())
    two = "Revenue of Birch in 2021 was $5 million or $7 million."
    answer, _ = await ask(birch=two)
    assert answer.answer.endswith("(no value found: birch, cedar)"), "two values for one cell are none"


async def test_a_task_that_cannot_be_read_is_asked_for_again_and_then_read_by_rules() -> None:
    answer, tools = await ask(task="I cannot say.")
    assert [step for tool, step in tools.steps() if tool == "complete"][:2] == ["task", "task/repair"]
    assert answer.answer.startswith("alder: 41,000,000 USD")
    answer, tools = await ask("Tell me of the revenue of these.", task="I cannot say.")
    assert "Tell me of the revenue of these." in tools.prompt("cells/1/generate")


async def test_the_answer_has_the_type_that_the_question_asks_for() -> None:
    asked = Question("q1", QUESTION, answer_type="money")
    answer, _ = await ask(asked)
    assert answer.value is not None
    assert (answer.value.value, answer.value.currency) == ("41000000", "USD")
    answer, _ = await ask()
    assert answer.value is None


async def test_only_the_documents_that_the_question_chooses_between_are_asked() -> None:
    answer, tools = await ask("Which company had the higher revenue in 2021, Birch or Alder?")
    assert "over 2 documents" in tools.prompt("task")
    assert answer.answer == "Alder: 41,000,000 USD (2021)"


async def test_more_documents_than_the_policy_allows_are_refused_before_anything_is_asked() -> None:
    tools = ScriptedTools(documents(), {}, policy=paper_policy(over_documents__most=2))
    with pytest.raises(
        QuestionError, match=r"asked of 3 documents.*allows 2 \(over_documents.most\).*Nothing was asked"
    ):
        await ask(tools=tools)
    assert tools.calls == []


@pytest.mark.parametrize(("kind", "do", "count"), [("money", "max", 2), ("text", "list", 5)])
async def test_a_document_that_is_asked_for_an_amount_shows_as_many_chunks_as_the_policy_says(
    kind: str, do: str, count: int
) -> None:
    task = f"Ask: What was the revenue in 2021?\nType: {kind}\nDo: {do}"
    _, tools = await ask(task=task, policy=paper_policy(over_documents__count=2))
    plans = [call.details["plan"] for call in tools.calls if call.tool == "record_plan" and "cells/" in call.step]
    assert [plan.count for plan in plans] == [count] * 3
    assert all(any("asked for an amount" in reason for reason in plan.reasons) == (count == 2) for plan in plans)


@pytest.mark.parametrize("rows", [False, True])
async def test_the_row_that_code_finds_is_shown_beside_few_chunks(rows: bool) -> None:
    filler = "What the revenue in 2021 was is what the board asked, and what was the revenue, in 2021. " * 200
    table = "Figures in thousands of dollars\n                2021      2020\nRevenue       41,000    40,000\n"
    policy = paper_policy(over_documents__count=1, over_documents__rows=rows)
    _, tools = await ask(policy=policy, generate="Answer: unanswerable", alder=f"{filler}\n{table}")
    asked = [call for call in tools.calls if (call.tool, call.step) == ("complete", "cells/1/generate")]
    shown = "".join(message.content for call in asked for message in call.details["messages"])
    assert len(asked) == 1
    assert ("Revenue       41,000    40,000" in shown) == rows
    assert "what the board asked" in shown


async def test_the_method_goes_this_way_where_the_policy_says_so() -> None:
    replies = {"documents": [TASK], "generate": [reads], "split": ["What was the revenue of Alder?"]}

    def tools_of(**policy: object) -> ScriptedTools:
        many = analysis("multi-source")
        return ScriptedTools(documents(), replies, analysis=many, policy=paper_policy(**policy))

    answer, _ = await ask(tools=tools_of(over_documents__more_than=2), strategy="okralong")
    assert answer.plan is not None
    assert answer.plan.workflow == "documents"
    assert answer.answer.startswith("alder: 41,000,000 USD")
    assert any(reason.startswith("3 documents, each asked by itself") for reason in answer.plan.reasons)
    for policy in ({}, {"over_documents__more_than": 3}, {"over_documents__more_than": 1, "over_documents__most": 2}):
        answer, _ = await ask(tools=tools_of(**policy), strategy="okralong")
        assert answer.plan is not None
        assert answer.plan.workflow == "split"
    told, _ = await ask("Is revenue all that counts?", tools=tools_of(over_documents__more_than=2), strategy="okralong")
    assert told.plan is not None
    assert told.plan.workflow == "split", "the rules read no task"


def test_it_is_a_strategy_like_any_other() -> None:
    assert "over_documents" in names()
    needs = describe("over_documents", paper_policy()).needs
    assert needs.granularities == (150, 256, 400)
    assert needs.unforeseen is None
