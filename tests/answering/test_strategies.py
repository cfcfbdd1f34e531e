"""The golden trace of each strategy: which tools it uses, under which steps, with what, in what order."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.prompts import FORMULA, RESULT
from okralong.pipelines.core.types import Answer, Pattern, Plan, Question, QuestionType
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import Scripted, ScriptedTools, analysis, paper_policy

RESEARCH = "How much did Alder spend on research?"
ANSWERED = 'Answer: 41 million crowns\nEvidence: [1] "Alder spent 41 million crowns on research"'
OPENING = [("retrieve", "primary/retrieve"), ("analyze", "analyze"), ("record_plan", "plan")]


async def ask(name: str, tools: ScriptedTools, question: str = RESEARCH) -> Answer:
    return await load_strategy(name)(Question("q1", question), tools)


def tools_for(
    type_: QuestionType, pattern: Pattern = "same", *, evidence: bool = True, **replies: list[Scripted]
) -> ScriptedTools:
    return ScriptedTools([ALDER, BIRCH], replies, analysis=analysis(type_, pattern, evidence=evidence))


async def test_linear() -> None:
    tools = tools_for("extractive", "exact", generate=[ANSWERED])
    answer = await ask("okralong", tools)
    assert tools.steps() == [*OPENING, ("retrieve", "retrieve"), ("complete", "generate")]
    primary, main = tools.of("retrieve")
    assert primary.details == {"query": RESEARCH, "granularity": 150, "k": 20}
    assert main.details == {"query": RESEARCH, "granularity": 150, "k": 20}
    seen = tools.of("analyze")[0].details["chunks"]
    assert [chunk.granularity for chunk in seen] == [150, 150, 150]
    assert tools.of("full_text") == []
    assert answer.status == "answered"
    assert answer.answer == "41 million crowns"
    (citation,) = answer.citations
    assert ALDER.text[citation.start_char : citation.end_char] == "Alder spent 41 million crowns on research"
    assert 1 <= sum(len(passage.chunk_ids) for passage in answer.context) <= 5
    assert answer.plan == tools.of("record_plan")[0].details["plan"]
    assert answer.analysis == analysis("extractive", "exact")


@pytest.mark.parametrize(("type_", "granularity", "count"), [("extractive", 256, 5), ("abstractive", 400, 8)])
async def test_missing_evidence_coarsens_the_chunks(type_: QuestionType, granularity: int, count: int) -> None:
    # Without the threshold, which may take a few away, exactly so many are shown.
    policy, missing = paper_policy(fusion__threshold=0.0), analysis(type_, evidence=False)
    tools = ScriptedTools([ALDER, BIRCH], {"generate": ["Answer: 41"]}, analysis=missing, policy=policy)
    answer = await ask("okralong", tools)
    assert tools.of("retrieve")[1].details["granularity"] == granularity
    assert sum(len(passage.chunk_ids) for passage in answer.context) == count
    assert answer.citations == ()


async def test_arithmetic_extends_each_passage() -> None:
    tools = tools_for("arithmetic", generate=[ANSWERED])
    answer = await ask("okralong", tools)
    assert tools.steps() == [*OPENING, ("retrieve", "retrieve"), ("complete", "generate")]
    assert {call.step for call in tools.of("full_text")} <= {ALDER.doc_id, BIRCH.doc_id}
    assert "extended" in {passage.origin for passage in answer.context}
    for passage in answer.context:
        document = ALDER if passage.doc_id == ALDER.doc_id else BIRCH
        assert passage.text == document.text[passage.start_char : passage.end_char]


@pytest.mark.parametrize(("name", "step"), [("okralong", "generate"), ("long_context", "full_text/generate")])
@pytest.mark.parametrize("calculator", [False, True])
async def test_a_formula_is_worked_out_and_stays_cited(name: str, step: str, calculator: bool) -> None:
    reply = 'Answer: =(41 - 38) / 38 * 100 %\nEvidence: [1] "Alder spent 41 million crowns on research"'
    tools = ScriptedTools(
        [ALDER, BIRCH],
        {"generate": [reply], "full_text": [reply]},
        analysis=analysis("arithmetic"),
        calculator=calculator,
    )
    answer = await ask(name, tools, "How much more than Birch did Alder spend on research, in percent?")
    # Who was not asked for a formula may quote one that stands in a document.
    assert (answer.status, answer.answer) == ("answered", "7.89%" if calculator else "=(41 - 38) / 38 * 100 %")
    (citation,) = answer.citations
    assert ALDER.text[citation.start_char : citation.end_char] == "Alder spent 41 million crowns on research"
    assert (FORMULA in tools.prompt(step)) is calculator
    assert (RESULT in tools.prompt(step)) is not calculator


async def test_multi_source_splits() -> None:
    replies = "1. How much did Alder spend on research?\n2. How much did Birch spend on research?"
    tools = tools_for("multi-source", split=[replies], generate=["Answer: Alder"])
    answer = await ask("okralong", tools, "Who spent more on research, Alder or Birch?")
    assert tools.steps() == [
        *OPENING,
        ("complete", "split/questions"),
        ("retrieve", "split/1/retrieve"),
        ("retrieve", "split/2/retrieve"),
        ("complete", "generate"),
    ]
    assert tools.of("retrieve")[2].details["query"] == "How much did Birch spend on research?"
    shown = tools.prompt("generate")
    assert "Alder spent 41 million" in shown
    assert "Birch spent 38 million" in shown
    held = [chunk_id for passage in answer.context for chunk_id in passage.chunk_ids]
    assert len(held) == len(set(held))
    assert 5 <= len(held) <= 10


async def test_at_most_four_sub_questions() -> None:
    many = "\n".join(f"What happened in week {week} of the year?" for week in range(1, 9))
    tools = tools_for("multi-source", split=[many], generate=["Answer: much"])
    await ask("okralong", tools)
    assert [step for _, step in tools.steps() if step.startswith("split/")] == [
        "split/questions",
        *(f"split/{number}/retrieve" for number in range(1, 5)),
    ]


async def test_unanswerable_is_an_answer_unless_precise() -> None:
    tools = tools_for("extractive", generate=["Answer: unanswerable"])
    answer = await ask("okralong", tools)
    assert (answer.status, answer.answer, answer.citations) == ("unanswerable", "unanswerable", ())
    assert answer.plan is not None
    assert not answer.plan.escalate
    assert tools.steps()[-1] == ("complete", "generate")


async def test_precise_escalates_to_the_full_text() -> None:
    tools = tools_for("extractive", generate=["unanswerable"], full_text=[ANSWERED])
    answer = await ask("okralong_precise", tools)
    assert tools.steps()[-2:] == [("complete", "generate"), ("complete", "full_text/generate")]
    assert answer.status == "answered"
    assert [passage.text for passage in answer.context] == [ALDER.text, BIRCH.text]
    assert answer.plan is not None
    assert answer.plan.escalate


async def test_precise_does_not_escalate_an_answer() -> None:
    tools = tools_for("extractive", generate=[ANSWERED])
    await ask("okralong_precise", tools)
    assert tools.steps()[-1] == ("complete", "generate")


async def test_std_rag() -> None:
    tools = ScriptedTools([ALDER, BIRCH], {"generate": [ANSWERED]})
    answer = await ask("std_rag", tools)
    assert tools.steps() == [("record_plan", "plan"), ("retrieve", "retrieve"), ("complete", "generate")]
    assert tools.of("retrieve")[0].details == {"query": RESEARCH, "granularity": 512, "k": 5}
    dense = (await ScriptedTools([ALDER, BIRCH]).retrieve("again", RESEARCH, granularity=512, k=5)).semantic
    assert [passage.text for passage in answer.context] == [hit.chunk.text for hit in dense]
    assert answer.analysis is None


async def test_long_context_shows_everything_that_fits() -> None:
    tools = ScriptedTools([BIRCH, ALDER], {"full_text": [ANSWERED]})
    answer = await ask("long_context", tools)
    assert tools.steps() == [("record_plan", "plan"), ("complete", "full_text/generate")]
    assert [passage.origin for passage in answer.context] == ["full", "full"]
    assert answer.citations[0].doc_id == ALDER.doc_id


@pytest.mark.parametrize("window", [1600, 5000, 3000])
async def test_long_context_falls_back_to_the_best_chunks_that_fit(window: int) -> None:
    tools = ScriptedTools([ALDER, BIRCH], {"full_text": ["Answer: 41"]}, window=window)
    answer = await ask("long_context", tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "full_text/retrieve"),
        ("complete", "full_text/generate"),
    ]
    assert tools.of("retrieve")[0].details == {"query": RESEARCH, "granularity": 512, "k": 200}
    used = tools.count(tools.prompt("full_text/generate"))
    assert window - 1000 < used + tools.completion_limit("full_text") <= window
    places = [(passage.doc_id, passage.start_char) for passage in answer.context]
    assert len(set(places)) == len(places)


async def test_a_changed_policy_changes_the_trace() -> None:
    policy = paper_policy(primary__count=2, std_rag__count=3, fusion__candidates=7)
    tools = ScriptedTools([ALDER], {"generate": ["Answer: 41"]}, analysis=analysis("extractive"), policy=policy)
    await ask("okralong", tools)
    assert len(tools.of("analyze")[0].details["chunks"]) == 2
    assert tools.of("retrieve")[0].details["k"] == 7


async def test_the_recorded_plan_is_followed() -> None:
    class Resumed(ScriptedTools):
        async def record_plan(self, step: str, plan: Plan) -> Plan:
            await super().record_plan(step, plan)
            return recorded

    recorded = plain_plan(512, 3, "planned by an earlier run")
    tools = Resumed([ALDER], {"generate": ["Answer: 41"]}, analysis=analysis("abstractive"))
    answer = await ask("okralong", tools)
    assert tools.of("retrieve")[1].details["granularity"] == 512
    assert answer.plan == recorded
