"""An answer that is not trusted is asked for again: of a stronger generator, or from the full text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.answering.confidence import AROUND_CITATION, with_confidence
from okralong.pipelines.answering.cost_model import PROMPT_OVERHEAD, Spender, plan_bound, plan_reserve
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Answer, CallFailed, Citation, ConfigError, Passage, Question, QuestionType
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.methods.registry import FullPolicy, describe, load_strategy
from okralong.pipelines.run.config import RunConfig, fingerprint
from okralong.pipelines.run.prepare import check_cross_encoder
from tests.fakes.confidence import written
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import Scripted, ScriptedTools, analysis, paper_policy

RESEARCH = "How much did Alder spend on research?"
CITED = 'Answer: 41 million crowns\nEvidence: [1] "Alder spent 41 million crowns on research"'
STRONGER = {"base_url": "http://strong/v1", "model": "gpt-4o"}


def tools_for(
    under: float,
    to: str,
    type_: QuestionType = "extractive",
    stronger: dict[str, list[Scripted]] | None = None,
    **own: Any,
) -> ScriptedTools:
    policy = paper_policy(escalate={"under": under, "to": to}, read__types=["extractive"] if "reads" in own else [])
    read = own.pop("reads", False)
    return ScriptedTools(
        [ALDER, BIRCH], own, analysis=analysis(type_), policy=policy, reads=True, reads_answers=read, stronger=stronger
    )


async def ask(tools: ScriptedTools, strategy: str = "okralong") -> Answer:
    return await load_strategy(strategy)(Question("q1", RESEARCH), tools)


async def test_under_the_threshold_the_stronger_generator_follows_the_plan() -> None:
    tools = tools_for(1.0, "stronger", stronger={"generate": [CITED]}, generate=["Answer: unanswerable"])
    answer = await ask(tools)
    asked = [("retrieve", "retrieve"), ("complete", "generate"), ("read", "check")]
    again = [("retrieve", "escalated/retrieve"), ("complete", "escalated/generate"), ("read", "escalated/check")]
    assert tools.steps()[3:] == asked + again
    assert (answer.answer, answer.escalated) == ("41 million crowns", "stronger")
    assert answer.first_confidence is not None
    assert answer.first_confidence < 1.0
    assert answer.plan is not None
    assert "the stronger generator follows the plan" in " ".join(answer.plan.reasons)


async def test_what_is_trusted_stays_and_is_judged_once() -> None:
    tools = tools_for(0.01, "stronger", stronger={}, generate=[CITED])
    answer = await ask(tools)
    assert (answer.answer, answer.escalated, answer.first_confidence) == ("41 million crowns", "", None)
    assert answer.confidence is not None
    assert [step for tool, step in tools.steps() if tool == "read"] == ["check"]


async def test_a_question_that_was_read_off_is_answered_by_the_stronger_generator() -> None:
    tools = tools_for(1.0, "stronger", stronger={"generate": [CITED]}, reads=True)
    tools.by_doc_id = {BIRCH.doc_id: BIRCH}
    answer = await ask(tools)
    assert [call.step for call in tools.of("complete")] == ["escalated/generate"]
    assert answer.escalated == "stronger"


async def test_steps_are_taken_again_by_the_stronger_generator() -> None:
    stronger: dict[str, list[Scripted]] = {
        "split": ["What did Alder spend?\nWhat did Birch spend?"],
        "generate": [CITED],
    }
    tools = tools_for(1.0, "stronger", "multi-source", stronger, split=["What?"], generate=["Answer: 1"])
    await ask(tools)
    steps = {step for tool, step in tools.steps() if tool == "retrieve"}
    assert {"split/1/retrieve", "escalated/split/1/retrieve", "escalated/split/2/retrieve"} <= steps


@pytest.mark.parametrize("strategy", ["okralong", "okralong_precise"])
async def test_the_full_text_is_read_once(strategy: str) -> None:
    tools = tools_for(1.0, "precise", generate=["Answer: unanswerable"], full_text=[CITED])
    answer = await ask(tools, strategy)
    precise = strategy == "okralong_precise"
    path = "full_text/generate" if precise else "escalated/full_text/generate"
    assert [call.step for call in tools.of("complete")] == ["generate", path]
    assert (answer.answer, answer.escalated) == ("41 million crowns", "" if precise else "precise")


async def test_a_reply_of_no_use_leaves_the_first_answer_and_a_lost_call_fails_the_question() -> None:
    answer = await ask(tools_for(1.0, "stronger", stronger={"generate": [""]}, generate=["Answer: 41"]))
    assert (answer.answer, answer.escalated) == ("41", "")
    lost: list[Scripted] = [CallFailed("no reply")]
    with pytest.raises(CallFailed):
        await ask(tools_for(1.0, "stronger", stronger={"generate": lost}, generate=["Answer: 41"]))


async def test_a_long_passage_is_judged_around_what_is_cited() -> None:
    text = "Nothing here. " * 400 + RESEARCH + " Nothing here." * 400
    at = text.index(RESEARCH)
    passage = Passage("d", 100, 100 + len(text), text, 3000, 1.0, origin="full")
    cited = Citation("d", 100 + at, 100 + at + len(RESEARCH), RESEARCH)
    tools = ScriptedTools([ALDER], reads=True)
    found = await with_confidence(tools, RESEARCH, Answer("answered", "yes", (cited,), context=(passage,)), "one")
    none = await with_confidence(tools, RESEARCH, Answer("answered", "yes", context=(passage,)), "two")
    assert (found.signals["support"], none.signals["support"]) == (1.0, 0.0)
    assert len(text) > 4 * AROUND_CITATION


def test_the_reserve_holds_both_answers_each_at_its_price() -> None:
    limit = {"generate": 100, "full_text": 200}.__getitem__
    weak = Spender(Price(input=1.0, cached_input=1.0, output=1.0), 8000, limit)
    strong = Spender(Price(input=50.0, cached_input=50.0, output=100.0), 100_000, limit)

    def reserve(precise: bool = False, **escalate: Any) -> float:
        policy = paper_policy(**({"escalate": escalate} if escalate else {}))
        return plan_reserve(organize(analysis("extractive"), policy, precise=precise), weak, strong)

    plan = organize(analysis("extractive"), paper_policy(), precise=False)
    own, second = (each.price.cost(plan_bound(plan, each.window, limit)) for each in (weak, strong))
    assert reserve() == own
    assert reserve(under=0.5, to="stronger") == pytest.approx(own + second)
    assert reserve(under=0.5, to="precise") == pytest.approx(own + (8000 + 200) / 1e6)
    assert reserve(precise=True, under=0.5, to="precise") == reserve(precise=True)


def test_the_reserve_of_a_typed_question_holds_each_answer_twice() -> None:
    limit = {"generate": 100, "full_text": 200, "split": 10}.__getitem__
    price = Price(input=1.0, cached_input=1.0, output=1.0)
    for kind, precise in (("extractive", False), ("multi-source", False), ("extractive", True)):
        plan = organize(analysis(kind), paper_policy(), precise=precise)  # type: ignore[arg-type]
        plain, typed = (plan_bound(plan, 100_000, limit, typed) for typed in (False, True))
        answers = [plain.prompt_tokens - 100_000 * precise - (PROMPT_OVERHEAD if kind == "multi-source" else 0)]
        more = typed.prompt_tokens - plain.prompt_tokens
        assert more == answers[0] + 100 + PROMPT_OVERHEAD + 100_000 * precise, "the window holds no more"
        assert typed.completion_tokens - plain.completion_tokens == 100 + 200 * precise
        spender = Spender(price, 100_000, limit)
        assert plan_reserve(plan, spender, typed=True) > plan_reserve(plan, spender)


def known(policy: Policy, strategy: str = "okralong", **given: Any) -> str:
    config = load_config(RunConfig, "answer.yaml", {"strategy": strategy, **given})
    return fingerprint(config, policy, describe(strategy, policy), {})


def test_a_run_is_known_by_its_stronger_generator_where_it_may_ask_it(tmp_path: Path) -> None:
    off, on = (load_config(FullPolicy, "policy/default.yaml", given) for given in (
        {}, {"escalate": {"under": 0.3, "to": "stronger"}}
    ))  # fmt: skip
    given = {"llm.stronger": STRONGER}
    assert known(off) == known(off, **given), "nobody asks it"
    assert known(on, **given) == known(on, **{"llm.stronger": {**STRONGER, "max_in_flight": 3, "api_key_env": "OTHER"}})
    others = [known(off), known(on, **given), known(on, **{"llm.stronger": {**STRONGER, "model": "gpt-4o-mini"}})]
    assert len(set(others)) == 3
    assert known(on, "std_rag", **given) == known(on, "std_rag"), "a baseline asks nobody twice"
    judged = known(on, **given, **{"reranker.precision": "float32"})
    assert judged != known(on, **given), "what an answer is judged by decides who answers"
    mine = {"confidence": written(tmp_path, "gpt-4o")}
    assert known(on, **given, **mine) != known(on, **given)
    assert known(off, **mine) == known(off), "otherwise it does not"


@pytest.mark.parametrize(
    ("given", "policy", "said"),
    [
        ({"reranker.answers": "always", "reranker.model": "BAAI/any"}, {}, "answers is always.*can only rank"),
        ({"reranker.model": "BAAI/any"}, {"escalate": {"under": 0.3, "to": "precise"}}, "BAAI/any only ranks"),
        ({"confidence": "none"}, {"escalate": {"under": 0.3, "to": "precise"}}, "confidence is none"),
    ],
)
def test_a_cross_encoder_that_cannot_judge_is_refused_where_it_must(
    given: dict[str, Any], policy: dict[str, Any], said: str
) -> None:
    config = load_config(RunConfig, "answer.yaml", given)
    rules = load_config(FullPolicy, "policy/default.yaml", policy)
    with pytest.raises(ConfigError, match=said):
        check_cross_encoder(config, rules, describe("okralong", rules))
    # One that only ranks is no error where nobody relies on more: then answers have no confidence.
    check_cross_encoder(load_config(RunConfig, "answer.yaml", {"reranker.model": "BAAI/any"}), *plain())


def plain() -> tuple[Policy, Any]:
    policy = load_config(FullPolicy, "policy/default.yaml")
    return policy, describe("okralong", policy)


@pytest.mark.parametrize(
    ("stronger", "said"),
    [
        ({"model": "gpt-4o"}, "needs a base_url and a model"),
        ({"base_url": "http://strong/v1"}, "needs a base_url and a model"),
        ({**STRONGER, "mode": "batch"}, "called in real time"),
    ],
)
def test_a_stronger_generator_is_an_endpoint_of_its_own(stronger: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config(RunConfig, "answer.yaml", {"llm.stronger": stronger})
    found = LlmConfig(stronger=load_config(RunConfig, "answer.yaml", {"llm.stronger": STRONGER}).llm.stronger)
    assert found.stronger is not None
    assert replace(found.stronger.limits).max_in_flight == 64


async def test_the_policy_without_its_generator_says_what_to_do(tmp_path: Path) -> None:
    from okralong.pipelines.answering.question_tools import QuestionTools
    from tests.answering.test_choice_kept import KeptLog, fan_out, ports

    tools = QuestionTools(ports(tmp_path), Question("q1", "q"), (), KeptLog(), fan_out)
    with pytest.raises(ConfigError, match=r"Name one under llm\.stronger"):
        assert tools.stronger
