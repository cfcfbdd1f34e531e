"""An answer that its limit has cut is asked for once more with more room, and is no answer if that cuts it too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.answering.generate import generate
from okralong.pipelines.answering.prompt_text import repeats_itself
from okralong.pipelines.answering.prompts import ends_within_answer, reply_tokens
from okralong.pipelines.core.types import CutShort, Passage, Reply, ReplyError, Usage
from okralong.pipelines.llm.config import GeneratorConfig
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.fakes.tools import ScriptedTools
from tests.llm.tools import ask, client_over, config_for

PASSAGES = [Passage("report", 0, 60, "Net sales were $34,229 million in 2023, after $35,355 million.", 16, 1.0)]
WHOLE = 'Evidence: [1] "Net sales were $34,229 million in 2023"\nAnswer: $34,229 million'


def cut(text: str) -> Reply:
    return Reply(text, "m", Usage(100, 0, 20), "length", 0.0)


@pytest.mark.parametrize(
    ("reply", "short", "within"),
    [
        ('Evidence: [1] "', False, True),
        ('Evidence: [1] "Net sales were $34,229', False, True),
        ('Evidence: [1] "Net sales"\nAnswer: $34,2', False, True),
        ('Answer: $34,229 million\nEvidence: [1] "Net sa', False, False),
        ("Answer: $34,229 million\n\n\n\n", False, False),
        ("<think>The passage says", False, True),
        ("", False, True),
        ('{"value": "34,2', False, True),
        ('{"value": "34,229", "evidence": []}', False, False),
        ('{"value": "34,229", "evidence": []} and so on and', False, False),
        ("$34,229 mil", True, True),
        ("$34,229 million [1]\nThe question asks for", True, False),
        ("Answer: $34,229 million [1]\n\nQuestion: What", True, False),
    ],
)
def test_where_a_reply_ends(reply: str, short: bool, within: bool) -> None:
    assert ends_within_answer(reply, short=short) is within


async def test_a_cut_answer_is_asked_for_once_more_with_more_room() -> None:
    tools = ScriptedTools([], {"generate": [cut('Evidence: [1] "'), WHOLE]})
    answer = await generate(tools, "generate", "What were net sales?", PASSAGES)
    assert (answer.status, answer.answer) == ("answered", "$34,229 million")
    assert [call.step for call in tools.calls] == ["generate", "generate/longer"]


@pytest.mark.parametrize("answer_type", ["", "amount"])
async def test_an_answer_that_is_cut_twice_is_none(answer_type: str) -> None:
    tools = ScriptedTools([], {"generate": [cut('Evidence: [1] "')]}, answer_type=answer_type)
    with pytest.raises(ReplyError, match=r"more room\. Raise llm\.max_completion_tokens\.generate"):
        await generate(tools, "generate", "What were net sales?", PASSAGES)


@pytest.mark.parametrize("answer_type", ["", "amount"])
async def test_a_reply_that_repeats_itself_is_not_asked_for_again(answer_type: str) -> None:
    said = '{"evidence": [], "value": "' + "2022 2021 " * 40
    tools = ScriptedTools([], {"generate": [cut(said)]}, answer_type=answer_type)
    if answer_type:
        answer = await generate(tools, "generate", "What were net sales?", PASSAGES)
        assert (answer.status, answer.replied_by) == ("invalid_output", ("m",))
        assert "The reply repeats itself until its limit" in answer.error
        assert answer.error.endswith(said)
    else:
        with pytest.raises(ReplyError, match="repeats itself"):
            await generate(tools, "generate", "What were net sales?", PASSAGES)
    assert len(tools.calls) == 1


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("ab " * 300, True),
        ("a" * 400, True),
        ("| 0 | 0 | 0 | 0 |", False),
        ("Net sales were 34 million, and costs 12 million. " * 2, False),
        ("x" * 399 + "y", False),
        ("1, 2 and so on. And so on. And so on.", False),
    ],
)
def test_what_repeats_itself(text: str, repeats: bool) -> None:
    assert repeats_itself(text) is repeats


async def test_the_type_limits_the_length_of_a_reply(tmp_path: Path) -> None:
    for short, limits in ((True, [64, 32, 48, 160, 160, 128]), (False, [160] * 5 + [320])):
        own: dict[str, Any] = {"max_completion_tokens": {"generate": 160}}
        with FakeOpenAI() as server:
            tokens = partial(reply_tokens, short=short)
            async with client_over(tmp_path / str(short), config_for(server, **own), reply_tokens=tokens) as (
                client,
                _,
            ):
                for number, kind in enumerate(("money", "boolean", "date", "list of money", "")):
                    await client.complete("q", str(number), "generate", ask("What?"), answer_type=kind)
                await client.complete("q", "longer", "generate", ask("What?"), answer_type="money", longer=True)
            assert [one.body["max_tokens"] for one in server.received] == limits


def test_a_model_that_thinks_keeps_its_room() -> None:
    thinking = GeneratorConfig(base_url="http://localhost:1/v1", model="gpt-5", max_completion_tokens={"generate": 160})
    assert thinking.completion_limit("generate", 64) == thinking.completion_limit("generate")
    plain = GeneratorConfig(base_url="http://localhost:1/v1", model="gpt-4o", max_completion_tokens={"generate": 400})
    assert (plain.completion_limit("generate", 64), plain.completion_limit("generate")) == (64, 400)


async def test_a_reply_without_a_word_before_its_limit_is_asked_for_once_more() -> None:
    tools = ScriptedTools([], {"generate": [CutShort("It thought until its limit."), WHOLE]})
    assert (await generate(tools, "generate", "What were net sales?", PASSAGES)).status == "answered"


async def test_more_room_is_four_times_the_limit_within_the_window(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"max_completion_tokens": {"generate": 50}, "window": 400}
    with FakeOpenAI(troubles=[Trouble(text='Evidence: [1] "', finish_reason="length")]) as server:
        async with client_over(tmp_path, config_for(server, **limits)) as (client, _):
            await client.complete("q", "generate", "generate", ask("What?"))
            await client.complete("q", "generate/longer", "generate", ask("What?"), longer=True)
            long = ask("word " * 250)
            await client.complete("q", "other/longer", "generate", long, longer=True)
            with pytest.raises(CutShort, match="no room"):
                await client.complete("q", "more/longer", "generate", ask("word " * 340), longer=True)
        first, second, third = (one.body["max_tokens"] for one in server.received)
    assert (first, second) == (50, 200)
    assert 50 < third < 200
