"""An answer names the model whose reply it is, the cross-encoder that read it, or the rules that did."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.types import Document, Question
from okralong.pipelines.methods.adaptive_rag import answer_closed_book
from okralong.pipelines.methods.registry import load_strategy
from tests.answering.test_escalate import CITED, ask, tools_for
from tests.answering.test_over_documents import ask as ask_all
from tests.answering.test_statement_reading import REVENUE
from tests.answering.test_step import FIRST, FOUND, QUESTION
from tests.answering.test_step import ask as ask_in_steps
from tests.answering.test_step import tools_for as steps_for
from tests.fakes.reports import ALDER
from tests.fakes.tools import ScriptedTools, analysis


async def test_the_model_of_the_reply_that_is_the_answer() -> None:
    answer = await ask(tools_for(0.01, "precise", generate=[CITED]))
    assert answer.replied_by == ("scripted",)
    nowhere = await ask(tools_for(0.01, "precise", generate=["Answer: unanswerable"]))
    assert (nowhere.status, nowhere.replied_by) == ("unanswerable", ("scripted",))


async def test_the_stronger_generator_where_its_reply_replaced_the_first() -> None:
    again = await ask(tools_for(1.0, "stronger", stronger={"generate": [CITED]}, generate=["Answer: 41"]))
    assert (again.escalated, again.replied_by) == ("stronger", ("stronger",))
    kept = await ask(tools_for(1.0, "stronger", stronger={"generate": [""]}, generate=["Answer: 41"]))
    assert (kept.escalated, kept.replied_by) == ("", ("scripted",)), "though the stronger one replied last"


async def test_the_cross_encoder_where_it_read_the_answer() -> None:
    answer = await ask(tools_for(0.01, "precise", reads=True))
    assert answer.replied_by == ("scripted-cross-encoder",)


async def test_the_rules_where_code_read_it_off_a_sentence() -> None:
    alder = Document("alder", "The bakery keeps an oven. Our revenue for 2023 was $12 million. It bakes at night.")
    tools = ScriptedTools([alder], {}, analysis=analysis("arithmetic"), reads_answers=True, answer_type="money")
    answer = await load_strategy("okralong")(Question("q", REVENUE, answer_type="money"), tools)
    assert (answer.answer, answer.replied_by) == ("$12 million", ("statement-rules",))


async def test_of_a_table_over_documents_those_who_filled_its_cells() -> None:
    answer, _ = await ask_all()
    assert answer.replied_by == ("scripted",)


async def test_the_model_of_the_reasoning_step_that_answered() -> None:
    answer = await ask_in_steps(steps_for(FIRST, FOUND))
    assert (answer.answer, answer.replied_by) == ("Tarn", ("scripted",))
    tools = steps_for(
        FIRST, FOUND, escalate={"under": 1.0, "to": "stronger"}, stronger={"step": [""], "generate": [""]}
    )
    kept = await ask_in_steps(tools)
    assert (kept.escalated, kept.replied_by) == ("", ("scripted",)), "though the stronger one replied last"


async def test_a_reply_of_no_fitting_value_names_its_model_too() -> None:
    tools = ScriptedTools([ALDER], {"generate": ["Answer: a lot", "Answer: plenty"]}, answer_type="money")
    answer = await load_strategy("std_rag")(Question("q", REVENUE, answer_type="money"), tools)
    assert (answer.status, answer.replied_by) == ("invalid_output", ("scripted",))


@pytest.mark.parametrize("reply", ["Answer: Tarn", "Answer: unanswerable"])
async def test_an_answer_from_memory(reply: str) -> None:
    tools = ScriptedTools([ALDER], {"generate": [reply]})
    assert (await answer_closed_book(tools, "generate", QUESTION)).replied_by == ("scripted",)
