"""The form of a typed reply on the wire: sent where the endpoint takes it, left out where it refuses it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.pipelines.answering.prompts import reply_schema
from okralong.pipelines.core.types import CallFailed
from okralong.pipelines.llm.config import LlmConfig
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import ask, client_over, config_for, further, rows

OWN = json.dumps({"type": "object", "properties": {"buyer": {"type": "string"}}})


async def asked(run: Path, config: LlmConfig, *answer_types: str) -> None:
    async with client_over(run, config, reply_schema=reply_schema) as (client, _):
        for number, answer_type in enumerate(answer_types):
            await client.complete(f"q{number}", "generate", "generate", ask("how much"), answer_type=answer_type)


def formats(server: FakeOpenAI) -> list[str]:
    """Of each request the schema's value, "" for none."""
    sent = [one.body.get("response_format") for one in server.received]
    return ["" if each is None else json.dumps(each["json_schema"]["schema"]["properties"]["value"]) for each in sent]


async def test_the_schema_is_sent_with_typed_calls_and_only_with_them(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        await asked(tmp_path, config_for(server), "", "money", "boolean")
        assert [one.body.get("response_format", {}).get("type") for one in server.received] == [
            None, "json_schema", "json_schema",
        ]  # fmt: skip
        named = server.received[2].body["response_format"]["json_schema"]
        assert (named["name"], named["strict"]) == ("answer", True)
        assert named["schema"]["properties"]["value"]["enum"] == ["yes", "no", None]
        await asked(tmp_path, config_for(server), "", "money", "boolean")
        assert len(server.received) == 3, "a run that goes on takes the replies that it has"
        await asked(tmp_path, config_for(server, json_schema="never"), "", "money")
        assert len(server.received) == 4, "another form of the reply is another request"


async def test_an_endpoint_that_refuses_it_is_asked_without_from_then_on(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.takes_schemas = False
        await asked(tmp_path, config_for(server), "money", "money", OWN)
        assert [bool(each) for each in formats(server)] == [True, False, False, False]
        assert [one.status for one in server.received] == [400, 200, 200, 200]
        ledger = rows(tmp_path, "ledger")
        assert [(row["attempt"], row["status"], row["cost_usd"] > 0) for row in ledger] == [
            (1, "failed", False), (2, "ok", True), (1, "ok", True), (1, "ok", True),
        ]  # fmt: skip
        assert sum(row["cost_usd"] for row in ledger) == pytest.approx(server.bill_usd, abs=1e-12)
        await asked(tmp_path, config_for(server), "money", "money", OWN)
        assert len(server.received) == 4, "replies are known whether or not the schema was sent"


async def test_the_refusal_of_a_questions_own_schema_is_of_that_one_alone(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[Trouble(400, "", "Invalid schema for response_format 'answer': no.")]) as server:
        await asked(tmp_path, config_for(server), OWN, OWN, "money")
        assert [bool(each) for each in formats(server)] == [True, False, False, True]


async def test_each_endpoint_is_told_apart(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        first.takes_schemas = False
        config = config_for(first, endpoints=[further(second)])
        await asked(tmp_path, config, "money")
        assert [bool(each) for each in formats(first)] == [True, False]
        assert second.received == []


@pytest.mark.parametrize(("how", "message"), [("always", "response_format"), ("auto", "max_tokens is too large")])
async def test_a_refusal_that_is_not_the_formats_or_must_not_be_fails_the_question(
    tmp_path: Path, how: str, message: str
) -> None:
    with FakeOpenAI(troubles=[Trouble(400, "", message)]) as server:
        with pytest.raises(CallFailed, match=message):
            await asked(tmp_path, config_for(server, json_schema=how), "money")
        assert len(server.received) == 1


def test_a_schema_that_points_at_its_own_top_is_not_sent() -> None:
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert reply_schema(json.dumps(tree)) is None
    shared = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}, "$defs": {"B": {"type": "string"}}}
    sent = json.loads(reply_schema(json.dumps(shared)) or "")
    assert sent["schema"]["$defs"] == {"B": {"type": "string"}}
    assert sent["strict"] is False
    assert reply_schema("") is reply_schema("money", short=True) is None
    assert reply_schema(OWN, short=True) is not None
