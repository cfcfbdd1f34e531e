"""FLARE's golden traces: a sentence that is doubted is looked up and written again; one that is not, is kept."""

from __future__ import annotations

import math
from itertools import count

import pytest

from okralong.pipelines.answering.cost_model import plan_bound
from okralong.pipelines.core.types import Answer, Question, Reply, Usage
from okralong.pipelines.methods.flare import conclusion, read_sentence, sentence_end
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.reports import ALDER, BIRCH
from tests.fakes.tools import Scripted, ScriptedTools, paper_policy

QUESTION = "What is the home town of the chair of Alder?"


def tools_for(*sentences: Scripted, doubts: dict[str, float] | None = None, **policy: int | float) -> ScriptedTools:
    return ScriptedTools([ALDER, BIRCH], {"sentence": sentences}, probabilities=doubts, policy=paper_policy(**policy))


async def ask(tools: ScriptedTools) -> Answer:
    return await load_strategy("flare")(Question("q1", QUESTION), tools)


async def test_what_is_sure_is_kept_and_what_is_doubtful_is_looked_up_and_written_again() -> None:
    tools = tools_for(
        "The chair of Alder is Ida Moss. She likes boats.",
        "Ida Moss grew up in Bergen.",
        "Ida Moss grew up in Tarn.",
        "So the answer is: Tarn.",
        doubts={"Bergen.": 0.2, "grew": 0.7, "boats.": 0.01},
    )
    answer = await ask(tools)
    assert tools.steps() == [
        ("record_plan", "plan"),
        ("retrieve", "retrieve"),
        ("complete", "sentence/1/look_ahead"),
        ("complete", "sentence/2/look_ahead"),
        ("retrieve", "sentence/2/retrieve"),
        ("complete", "sentence/2/write"),
        ("complete", "sentence/3/look_ahead"),
    ]
    first, again = tools.of("retrieve")
    assert first.details == {"query": QUESTION, "granularity": 512, "k": 5}
    # 0.7 is under the threshold that doubts a sentence, and above the one that takes a token out of the query.
    assert again.details["query"] == "Ida Moss grew up in"
    assert all(call.details["logprobs"] for call in tools.of("complete"))
    assert "Reasoning so far: The chair of Alder is Ida Moss. Ida Moss grew up in Tarn." in tools.prompt(
        "sentence/3/look_ahead"
    )
    assert (answer.status, answer.answer, answer.citations) == ("answered", "Tarn", ())
    found = (await ScriptedTools([ALDER, BIRCH]).retrieve("x", "Ida Moss grew up in", granularity=512, k=5)).semantic
    assert [passage.text for passage in answer.context] == [hit.chunk.text for hit in found]


async def test_thresholds_come_from_the_policy() -> None:
    doubts = {"Tarn.": 0.5}
    tools = tools_for("So the answer is: Tarn.", doubts=doubts, flare__threshold=0.4)
    await ask(tools)
    assert [step for _, step in tools.steps()] == ["plan", "retrieve", "sentence/1/look_ahead"]
    tools = tools_for("So the answer is: Tarn.", doubts=doubts, flare__mask_below=0.6)
    await ask(tools)
    assert tools.of("retrieve")[1].details["query"] == "So the answer is:"


async def test_a_sentence_that_is_doubted_whole_is_its_own_query() -> None:
    tools = tools_for("Maybe Tarn.", "So the answer is: Tarn.", doubts={"Maybe": 0.1, "Tarn.": 0.1})
    await ask(tools)
    assert tools.of("retrieve")[1].details["query"] == "Maybe Tarn."


async def test_the_bound_holds_and_a_chain_without_a_conclusion_is_the_answer() -> None:
    numbers = count(1)
    tools = tools_for(lambda _: f"Crew {next(numbers)} was praised.", flare__max_sentences=3)
    answer = await ask(tools)
    assert answer.answer == "Crew 1 was praised. Crew 2 was praised. Crew 3 was praised."
    assert [step for _, step in tools.steps()][-1] == "sentence/3/look_ahead"
    assert answer.plan is not None
    assert answer.plan.max_steps == 3
    bound = plan_bound(answer.plan, tools.window, tools.completion_limit)
    assert (bound.completion_tokens, bound.prompt_tokens >= 6 * 5 * 512) == (6 * 256, True)


async def test_a_sentence_that_comes_again_ends_the_answer() -> None:
    tools = tools_for("Crew 1 was praised.")
    assert (await ask(tools)).answer == "Crew 1 was praised."
    assert [step for _, step in tools.steps()][-1] == "sentence/2/look_ahead"


async def test_unanswerable_is_an_answer() -> None:
    assert (await ask(tools_for("So the answer is: unanswerable"))).status == "unanswerable"


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        ("One fact. Two facts.", "One fact."),
        ("  Dr. Moss came in 1999. Then she left.", "  Dr. Moss came in 1999. "),
        ("no mark at all", "no mark at all"),
        ("So the answer is: J. R. Moss. Really.\nMore.", "So the answer is: J. R. Moss. Really."),
        ("It rained. So the answer is: no.", "It rained. "),
    ],
)
def test_the_first_sentence(reply: str, first: str) -> None:
    assert reply[: sentence_end(reply)].strip() == first.strip()


def test_conclusions() -> None:
    assert conclusion("So the answer is: Tarn.") == "Tarn"
    assert conclusion("The answer is 4.2 million") == "4.2 million"
    assert conclusion("Answer: In 1958.") == "In 1958"
    assert conclusion("They gave an answer to the board.") is None
    assert conclusion("Ida grew up in Tarn.") is None


def test_only_tokens_of_the_first_sentence_count() -> None:
    tokens = ("One", " fact", ".", " Two", ".")
    logs = tuple(math.log(p) for p in (0.9, 0.8, 0.95, 0.01, 0.9))
    reply = Reply("One fact. Two.", "m", Usage(), "stop", 0.0, token_logprobs=logs, tokens=tokens)
    sentence = read_sentence(reply)
    assert sentence.text == "One fact."
    assert sentence.confidence == pytest.approx(0.8)
    assert sentence.without_doubtful(0.85) == "One ."
