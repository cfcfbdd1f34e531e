"""What a dry run counts of a question is what the endpoint then counts: to the token where no reply decides."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.estimate.manner import Manner
from okralong.pipelines.answering.cost_model import Forecast
from okralong.pipelines.answering.policy import EscalatePolicy
from okralong.pipelines.answering.question_tools import Ports
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import ConfigError, Question, WordKept
from okralong.pipelines.methods import llmlingua2, longllmlingua
from okralong.pipelines.run.dry_run import PRECISE, Outlook, dry_run, side_by_side
from okralong.pipelines.run.observed import asked_in
from tests.answering.estimate.conftest import Made
from tests.fakes.openai_server import FakeOpenAI

STRATEGIES = side_by_side("okralong")
ROLE = {"okralong": "generate", "std_rag": "generate", "long_context": "full_text"}


def test_the_strategy_asked_for_comes_first_beside_the_method_and_the_baselines() -> None:
    assert side_by_side("okralong") == ("okralong", "std_rag", "long_context")
    assert side_by_side("long_context") == ("long_context", "okralong", "std_rag")
    assert side_by_side("okralong_precise") == ("okralong_precise", "std_rag", "long_context")
    assert side_by_side("somebodys_own") == ("somebodys_own", "okralong", "std_rag", "long_context")


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_what_no_reply_decides_is_known_to_the_token(made: Made, tmp_path: Path, strategy: str) -> None:
    manner = Manner.drawn(6)
    with FakeOpenAI(rules=[(lambda _: True, manner.reply)], models=["gpt-4o-2024-08-06"]) as server:
        desk = made.desk(server)
        outlooks = await desk.look(made.asked, STRATEGIES)
        assert server.received == [], "nobody was asked"
        await desk.answer(made.asked, strategy, tmp_path)
    actual = asked_in(Folder.of(tmp_path), count_tokens)
    workflows = defaultdict(list)
    for outlook in outlooks:
        forecast = outlook.forecasts[strategy]
        workflows[forecast.looks].append(outlook.query_id)
        calls = actual[outlook.query_id].calls
        certain = [prompt.tokens for prompt in forecast.certain]
        assert [call.usage.prompt_tokens for call in calls][: len(certain)] == certain
        assert all(call.counted == call.usage.prompt_tokens for call in calls), "the fake counts as OpenAI does"
        if forecast.looks == "none":
            assert len(calls) == len(certain) == 1
        elif forecast.looks == "split":
            assert [call.role for call in calls] == ["split", "generate"]
            assert len(forecast.answer) == made.policy.split.max_sub_questions
        else:
            reasoned = [call.usage.prompt_tokens for call in calls if call.role == "step"]
            assert reasoned[0] == forecast.reason[0]
            assert len(forecast.answer) == len(forecast.reason) + 1 == made.policy.step.max_steps + 1
        for growth in (forecast.answer, forecast.reason):
            assert list(growth) == sorted(growth), "more look-ups show more"
    assert set(workflows) == ({"none", "split", "step"} if strategy == "okralong" else {"none"})


async def test_groups_are_the_methods_own_whatever_the_strategy(made: Made) -> None:
    with FakeOpenAI() as server:
        outlooks = await made.desk(server).look(made.asked, ("std_rag", "okralong"))
        (alone,) = await made.desk(server).look(made.asked[:1], ("std_rag",))
    assert (alone.type, alone.workflow) == ("unknown", "linear"), "an archive may lack what the method needs"
    assert {outlook.workflow for outlook in outlooks} == {"linear", "extend", "split", "step"}
    assert {"arithmetic", "multi-source"} < {outlook.type for outlook in outlooks}
    assert all(set(outlook.forecasts) == {"std_rag", "okralong"} for outlook in outlooks)


def having(ports: Ports, **functions: Any) -> Ports:
    """The ports with other functions of their models."""
    return replace(ports, models=ports.models.having(**functions))


async def test_precise_mode_is_the_method_and_then_the_long_context(made: Made) -> None:
    with FakeOpenAI() as server:
        desk = made.desk(server)
        (plain,) = await desk.look(made.asked[:1], STRATEGIES)
        (precise,) = await desk.look(made.asked[:1], side_by_side(PRECISE))
    (whole,) = plain.forecasts["long_context"].certain
    assert precise.forecasts[PRECISE] == replace(plain.forecasts["okralong"], full_text=whole.tokens)


async def test_what_is_asked_again_is_counted_in_the_stronger_ones_prompts(made: Made) -> None:
    policy = made.policy.model_copy(update={"escalate": EscalatePolicy(under=0.5, to="stronger")})
    with FakeOpenAI() as server:
        ports = replace(made.desk(server).ports(), policy=policy)
        ports = replace(ports, stronger=replace(ports, window=2048, reads_answers=False))
        off = await dry_run(made.asked[0].question, made.asked[0].doc_ids, made.desk(server).ports(), STRATEGIES)
        on = await dry_run(made.asked[0].question, made.asked[0].doc_ids, ports, (PRECISE, *STRATEGIES))
        whole = replace(ports, policy=policy.model_copy(update={"escalate": EscalatePolicy(under=0.5, to="precise")}))
        read = await dry_run(made.asked[0].question, made.asked[0].doc_ids, whole, STRATEGIES)
    first, (full,) = off.forecasts["okralong"], off.forecasts["long_context"].certain
    assert on.forecasts["okralong"] == replace(first, again=first)
    again = on.forecasts[PRECISE].again
    assert again is not None
    assert 0 < again.full_text < full.tokens, "as much as its window holds"
    assert read.forecasts["okralong"].again == Forecast((replace(full, prefix=None),))
    assert full.prefix is not None, "whole documents stand before the question, and are cached"
    assert on.forecasts["std_rag"] == off.forecasts["std_rag"], "a baseline is asked once"


async def test_where_the_generator_analyses_its_call_is_counted_and_the_rules_speak(made: Made) -> None:
    with FakeOpenAI() as server:
        desk = made.desk(server)
        by_rules = await desk.look(made.asked, STRATEGIES)
        ports = having(desk.ports(), analyze=None)
        for asked, ruled in zip(made.asked, by_rules, strict=True):
            outlook = await dry_run(asked.question, asked.doc_ids, ports, STRATEGIES)
            assert (outlook.type, outlook.workflow) == (ruled.type, ruled.workflow)
            analysis, *others = outlook.forecasts["okralong"].certain
            assert analysis.role == "analyze"
            assert analysis.tokens > 3 * 100, "it reads the three primary chunks"
            assert tuple(others) == ruled.forecasts["okralong"].certain


async def test_a_question_that_leaves_no_room_is_a_problem_and_no_cost(made: Made) -> None:
    long = Question("long", "Why? " * 400)
    with FakeOpenAI() as server:
        outlook: Outlook = await dry_run(long, (), made.desk(server, window=512).ports(), STRATEGIES)
    assert outlook.forecasts == {}
    assert set(outlook.problems) == set(STRATEGIES)
    assert "leaves no room" in outlook.problems["std_rag"]


async def test_a_full_text_that_follows_unanswerable_is_no_certain_prompt(made: Made) -> None:
    with FakeOpenAI() as server:
        outlook = await dry_run(
            made.asked[0].question, made.asked[0].doc_ids, made.desk(server).ports(), ("self_route",)
        )
    forecast = outlook.forecasts["self_route"]
    assert [prompt.role for prompt in forecast.certain] == ["generate"]
    assert forecast.full_text > forecast.certain[0].tokens


async def test_a_prompt_that_a_local_model_shortens_is_counted(made: Made) -> None:
    async def score(prefix: str, texts: list[str]) -> list[list[float]]:
        return [[-1.0 - place % 7 * bool(prefix) for place, _ in enumerate(text.split())] for text in texts]

    async def token_ends(texts: list[str]) -> list[list[int]]:
        return [[match.end() for match in re.finditer(r"\S+", text)] for text in texts]

    asked = made.asked[0]
    tokens = {}
    with FakeOpenAI() as server:
        for target in (200, 100_000):
            section = made.policy.section(longllmlingua.Section).model_copy(update={"target_tokens": target})
            policy = made.policy.model_copy(update={"longllmlingua": section})
            ports = having(replace(made.desk(server).ports(), policy=policy), score=score, token_ends=token_ends)
            outlook = await dry_run(asked.question, asked.doc_ids, ports, ("longllmlingua",))
            (prompt,) = outlook.forecasts["longllmlingua"].certain
            assert prompt.role == "generate"
            tokens[target] = prompt.tokens
    assert tokens[200] < 700 < tokens[100_000]


async def test_a_prompt_that_a_token_classifier_shortens_is_counted(made: Made) -> None:
    async def keep(texts: list[str]) -> list[list[WordKept]]:
        return [[WordKept(*match.span(), len(match[0]) / 99) for match in re.finditer(r"\S+", text)] for text in texts]

    asked = made.asked[0]
    tokens = {}
    with FakeOpenAI() as server:
        for target in (200, 100_000):
            section = made.policy.section(llmlingua2.Section).model_copy(update={"target_tokens": target})
            policy = made.policy.model_copy(update={"llmlingua2": section})
            ports = having(replace(made.desk(server).ports(), policy=policy), keep=keep)
            outlook = await dry_run(asked.question, asked.doc_ids, ports, ("llmlingua2",))
            (prompt,) = outlook.forecasts["llmlingua2"].certain
            tokens[target] = prompt.tokens
        with pytest.raises(ConfigError, match=r"Needs\(token_classifier=True\)"):
            await dry_run(asked.question, asked.doc_ids, made.desk(server).ports(), ("llmlingua2",))
    assert tokens[200] < 700 < tokens[100_000]


async def test_a_typed_question_is_counted_in_its_own_prompt(made: Made) -> None:
    asked = made.asked[0]
    typed = replace(asked.question, answer_type="money")
    with FakeOpenAI() as server:
        ports = made.desk(server).ports()
        plain = await dry_run(asked.question, asked.doc_ids, ports, ("std_rag",))
        more = await dry_run(typed, asked.doc_ids, ports, ("std_rag",))
    (one,), (other,) = plain.forecasts["std_rag"].certain, more.forecasts["std_rag"].certain
    assert one.role == other.role == "generate"
    assert 40 < other.tokens - one.tokens < 150
    assert (plain.forecasts["std_rag"].typed, more.forecasts["std_rag"].typed) == (False, True)
