"""Errors as real servers publish them: what is left out and goes on, and what a message quotes where nothing helps."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.types import CallFailed, CutShort, EndpointError, OkraError, ReplyError
from okralong.pipelines.llm.error_body import READ_CHARS, SHOWN_CHARS, WORDS_CHARS, read_error
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import ask, client_over, config_for, rows

FORBIDDEN = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 7}]
VLLM = "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 7}]"
UPSTREAM = {"error": {"message": "Unsupported parameter: seed", "type": "invalid_request_error", "param": "seed"}}
LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5001 tokens."

SEEDLESS: dict[str, tuple[int, Any]] = {
    "OpenAI": (400, {"error": {"message": "Unsupported parameter: 'seed'.", "param": "seed", "code": "unsupported"}}),
    "Azure": (400, {"error": {"message": "Unrecognized request argument supplied: seed", "code": None, "param": None}}),
    "FastAPI": (422, {"detail": FORBIDDEN}),
    "FastAPI, text": (400, {"detail": "The field seed is not supported by this deployment."}),
    "Mistral": (422, {"object": "error", "message": {"detail": FORBIDDEN}, "type": "invalid_request_error"}),
    "vLLM": (400, {"object": "error", "message": VLLM, "type": "BadRequestError", "param": None, "code": 400}),
    "vLLM, newer": (400, {"error": {"message": VLLM, "type": "BadRequestError", "param": None, "code": 400}}),
    "Groq": (400, {"error": {"message": "property 'seed' is unsupported", "type": "invalid_request_error"}}),
    "Cerebras": (400, {"message": "property 'seed' is unsupported", "type": "invalid_request_error", "param": "seed"}),
    "Together": (400, {"id": "o", "error": {"message": "seed is not allowed for this model", "param": None}}),
    "Fireworks": (400, {"error": {"object": "error", "message": "Extra inputs are not permitted, field: 'seed'"}}),
    "OpenRouter": (
        400,
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps(UPSTREAM)}}},
    ),
    "LiteLLM": (
        400,
        {
            "error": {
                "message": "litellm.UnsupportedParamsError: groq does not support parameters: ['seed'], for model=m. To"
                " drop these, set `litellm.drop_params=True`",
                "type": "None",
                "param": "None",
                "code": "400",
            }
        },
    ),
    "LiteLLM, nested": (400, {"error": {"message": f"openai.BadRequestError: Error code: 400 - {UPSTREAM!r}"}}),
    "Gemini": (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
                    "status": "INVALID_ARGUMENT",
                    "details": [{"@type": "t/BadRequest", "fieldViolations": [{"description": "Unknown name"}]}],
                }
            }
        ],
    ),
    "Anthropic": (
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "seed: Extra inputs are not permitted"},
        },
    ),
    "Bedrock": (400, {"message": "Malformed input request: #: extraneous key [seed] is not permitted, reformat it."}),
    "SageMaker": (400, {"ErrorCode": "CLIENT_ERROR", "OriginalMessage": json.dumps({"error": VLLM})}),
    "xAI": (400, {"code": "Client specified an invalid argument", "error": "Argument not supported: seed"}),
    "Ollama": (400, {"error": 'json: unknown field "seed"'}),
    "ASP.NET": (400, {"title": "One or more errors occurred.", "status": 400, "errors": {"seed": ["Is not allowed."]}}),
    "JSON:API": (422, {"errors": [{"detail": "is not a known attribute", "source": {"pointer": "/data/seed"}}]}),
    "AJV": (400, [{"keyword": "additionalProperties", "params": {"additionalProperty": "seed"}, "message": "NOT so"}]),
    "Django": (400, {"seed": ["Unknown field."]}),
    "Pydantic": (
        400,
        "1 validation error for ChatRequest\nseed\n  Extra inputs are not permitted [type=extra_forbidden]",
    ),
    "transformers": (500, {"detail": "generate() got an unexpected keyword argument 'seed'"}),
    "Zhipu": (400, {"error": {"code": "1210", "message": "参数seed不支持"}}),
    "events": (400, 'data: {"error": {"message": "Unsupported parameter: seed"}}'),
    "plain text": (400, "the parameter seed is unknown"),
    "a status in 200": (200, {"error": {"code": 400, "message": "Unknown argument: seed"}}),
}


@pytest.mark.parametrize("server_is", SEEDLESS)
async def test_a_refused_field_is_left_out_and_logged_once(
    tmp_path: Path, server_is: str, caplog: pytest.LogCaptureFixture
) -> None:
    status, body = SEEDLESS[server_is]
    with FakeOpenAI() as server, caplog.at_level(logging.WARNING):
        server.refuses = {"seed": Trouble(status, raw=body, content_type="text/plain")}
        async with client_over(tmp_path, config_for(server, seed=7, temperature=0.5)) as (client, _):
            for number in range(2):
                await client.complete(f"q{number}", "generate", "generate", ask("how much"))
    assert [("seed" in one.body, "temperature" in one.body) for one in server.received] == [
        (True, True),
        (False, True),
        (False, True),
    ]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "does not accept seed" in said
    assert not LIBRARY.search(said)


LIBRARY = re.compile(r"Error\(|<[^>]*>|ClientResponse|\{'|Error code:|input_value")
"""What a library prints of its objects."""


@pytest.mark.parametrize(
    ("trouble", "kind", "said"),
    [
        (Trouble(400, raw={"detail": "Bad prompt template"}), CallFailed, r"\(400: Bad prompt template\)\.$"),
        (Trouble(422, raw={"detail": [{"loc": ["body", "messages", 0], "msg": "Field required"}]}), CallFailed,
         r"422: messages: Field required"),
        (Trouble(400, raw={"error": {"message": LONG, "code": 400}}), CallFailed, r"llm\.window"),
        (Trouble(400, raw={"error": {"code": 400, "message": "the request exceeds the available context size",
                                     "type": "exceed_context_size_error"}}), CallFailed, r"llm\.window"),
        (Trouble(400, raw={"message": "The provided model fake-model is invalid"}), EndpointError, r"llm\.model\.$"),
        (Trouble(400, raw={"error": {"message": "fake-model is not a valid model ID"}}), EndpointError, r"\.model\.$"),
        (Trouble(404, raw={"error": 'model "fake-model" not found, try pulling it first'}), EndpointError,
         r"try pulling it first\)\. Correct llm\.model\.$"),
        (Trouble(404, raw="404 page not found", content_type="text/plain"), EndpointError, r"llm\.base_url"),
        (Trouble(405, raw={"detail": "Method Not Allowed"}), EndpointError, r"llm\.base_url"),
        (Trouble(402, raw={"error": {"message": "Insufficient Balance"}}), EndpointError, "Add credit"),
        (Trouble(403, raw="<html><title>Attention Required! | Cloudflare</title><body>Sorry, you have been blocked"),
         EndpointError, r"Cloudflare\. Sorry, you have been blocked\).*HTTPS_PROXY"),
        (Trouble(401, raw={"message": "Unauthorized", "request_id": "r"}), EndpointError, "OPENAI_API_KEY.*Unauth"),
        (Trouble(200, raw="<!DOCTYPE html><html><script>alert(1)</script><body>Please <b>sign in</b></body></html>"),
         CallFailed, r"web page in place of a reply \(Please\. sign in\).*llm\.base_url"),
        (Trouble(200, raw={"error": {"message": "Provider returned error"}}), CallFailed,
         r"an error in place of a reply \(200: Provider returned error\)\. Tried"),
        (Trouble(200, raw={"object": "error", "message": "CUDA out of memory"}), CallFailed, "200: CUDA out of memory"),
        (Trouble(200, raw={"error": {"message": "Overloaded", "code": 502}}), CallFailed, "answered 502 .*Overloaded"),
        (Trouble(200, raw={"choices": [{"error": {"message": "Upstream died", "code": 502}, "message": None}]}),
         CallFailed, "Upstream died"),
        (Trouble(200, raw={"error": {"code": "context_length_exceeded", "message": LONG}}), CallFailed, r"llm\.window"),
        (Trouble(200, raw={"base_resp": {"status_code": 1004, "status_msg": "login fail"}}), CallFailed, "login fail"),
        (Trouble(403, raw={"error": {"code": 403, "message": "Your input was flagged for violence.",
                                     "metadata": {"flagged_input": "secret words"}}}), CallFailed, "content filter"),
        (Trouble(407, raw="Proxy login required", content_type="text/plain"), EndpointError, "407 .*HTTPS_PROXY"),
        (Trouble(413, raw="<html><title>413 Request Entity Too Large</title></html>"), CallFailed, r"llm\.window"),
        (Trouble(200, raw={"choices": [], "object": "chat.completion"}), CallFailed, "no choice with a message, so"),
        (Trouble(200, raw={"message": {"content": "Paris"}, "done": True}), CallFailed, r"its body is .*llm\.base_url"),
        (Trouble(200, raw="Ollama is running", content_type="text/plain"), CallFailed, r"is running\. Check llm"),
        (Trouble(200, raw='{"choices": [{"mess', content_type="application/json"), CallFailed, "breaks off"),
        (Trouble(200, raw=" ", content_type="application/json"), CallFailed, "its body is empty"),
        (Trouble(200, raw='event: error\ndata: {"error": {"message": "Engine is dead"}}\n\n',
                 content_type="text/event-stream"), CallFailed, "200: Engine is dead"),
        (Trouble(200, raw='{"error": {"message": "No GPU"}}', content_type="text/event-stream"), CallFailed, "No GPU"),
        (Trouble(200, raw='event: message_start\ndata: {"type": "message_start"}\n\n',
                 content_type="text/event-stream"), CallFailed, r"its events hold no reply: .*message_start"),
        (Trouble(200, raw="", content_type="text/event-stream"), CallFailed, "its stream of events is empty"),
        (Trouble(503, raw="<html><title>503 Service Unavailable</title><body><h1>503</h1><hr>nginx"), CallFailed,
         r"answered 503 \(a web page, 503 Service Unavailable"),
        (Trouble(400, raw={"message": f"ValidationError(model='X', errors={FORBIDDEN!r})".replace("seed", "tools")}),
         CallFailed, "tools: Extra inputs"),
        (Trouble(500, raw={"detail": "<ClientResponse(http://a/v1) [500 None]> failed with TypeError('no model')"}),
         CallFailed, r"answered 500 \(failed with 'no model'\)"),
    ],
)  # fmt: skip
async def test_the_words_of_the_server_are_in_the_message(
    tmp_path: Path, trouble: Trouble, kind: type[OkraError], said: str
) -> None:
    with FakeOpenAI(troubles=[trouble] * 2) as server:
        async with client_over(tmp_path, config_for(server, max_attempts=2)) as (client, _):
            with pytest.raises(kind) as caught:
                await client.complete("q", "generate", "generate", ask("how much"))
    message = str(caught.value)
    assert re.search(said, message), message
    assert not LIBRARY.search(message), message
    assert len(message) < SHOWN_CHARS + 400


@pytest.mark.parametrize("key", ["sk-proj-abcdefgh1234567", "gsk_abcdefgh1234567", "hf_abcdefgh1234567"])
async def test_keys_that_a_server_repeats_are_removed_from_its_words(tmp_path: Path, key: str) -> None:
    with FakeOpenAI(
        troubles=[Trouble(422, raw={"detail": f"header Authorization: Bearer {key} or {key} is bad"})]
    ) as it:
        async with client_over(tmp_path, config_for(it)) as (client, _):
            with pytest.raises(CallFailed) as caught:
                await client.complete("q", "generate", "generate", ask("how much"))
    assert key not in str(caught.value)
    assert all(key not in row["error"] for row in rows(tmp_path, "ledger"))


@pytest.mark.parametrize(
    ("message", "finish", "kind", "said"),
    [
        ({"content": "", "reasoning_content": "It is 42."}, "stop", ReplyError, r"only thought.*llm\.reasoning_effort"),
        ({"content": None, "reasoning": "Let me"}, "length", CutShort, r"in its thought.*llm\.reasoning_tokens"),
        ({"content": [{"type": "thinking", "thinking": "Hm"}]}, "length", CutShort, r"in its thought"),
        ({"content": "<think>\nLet me see"}, "length", CutShort, r"in its thought"),
        ({"content": "<think>It is 42.</think>\n"}, "stop", ReplyError, "only thought"),
        ({"content": None, "tool_calls": [{"function": {"name": "search"}}]}, "tool_calls", ReplyError, r"\(search\)"),
        ({"content": None, "function_call": {"name": "look"}}, "function_call", ReplyError, r"called a tool \(look\)"),
        ({"content": ""}, "max_tokens", CutShort, r"llm\.max_completion_tokens"),
        ({"content": ""}, "stop", ReplyError, r"empty reply \(finish_reason stop.*llm\.model"),
        ({"content": ""}, "SAFETY", ReplyError, "content filter"),
    ],
)
async def test_a_reply_without_an_answer_says_why_also_from_the_journal(
    tmp_path: Path, message: dict[str, Any], finish: str, kind: type[ReplyError], said: str
) -> None:
    body = {"choices": [{"message": message, "finish_reason": finish}], "usage": {}}
    with FakeOpenAI(troubles=[Trouble(raw=body)]) as server:
        for _ in range(2):
            async with client_over(tmp_path, config_for(server)) as (client, _):
                with pytest.raises(kind, match=said) as caught:
                    await client.complete("q", "generate", "generate", ask("how much"))
                assert type(caught.value) is kind
                assert "base_url" not in str(caught.value)
    assert len(server.received) == 1


async def test_tool_calls_and_thought_of_a_stream_are_noticed(tmp_path: Path) -> None:
    deltas = [{"reasoning_content": "Hm"}, {"tool_calls": [{"index": 0, "function": {"name": "search"}}]}]
    events = [{"choices": [{"delta": delta}]} for delta in deltas] + [{"choices": [{"finish_reason": "tool_calls"}]}]
    raw = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    with FakeOpenAI(troubles=[Trouble(raw=raw, content_type="text/event-stream")]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            with pytest.raises(ReplyError, match=r"called a tool \(search\)"):
                await client.complete("q", "generate", "generate", ask("how much"))


async def test_an_endpoint_that_only_streams_needs_streams(tmp_path: Path) -> None:
    only = Trouble(400, raw={"error": {"message": "This model only support stream mode, please enable it."}})
    with FakeOpenAI(troubles=[only]) as server:
        async with client_over(tmp_path / "never", config_for(server, stream="never")) as (client, _):
            with pytest.raises(EndpointError, match=r"Set llm\.stream to auto"):
                await client.complete("q", "generate", "generate", ask("how much"))


async def test_the_limit_of_a_reply_is_renamed_once_and_never_left_out(tmp_path: Path) -> None:
    refusal = [{"type": "extra_forbidden", "loc": ["body", "max_tokens"], "msg": "Extra inputs are not permitted"}]
    with FakeOpenAI() as server:
        server.refuses = {"max_tokens": Trouble(422, raw={"detail": refusal})}
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q", "generate", "generate", ask("how much"))
            server.refuses |= {"max_completion_tokens": "Unsupported parameter: max_completion_tokens"}
            with pytest.raises(EndpointError, match=r"bounds the cost.*llm\.max_tokens_field"):
                await client.complete("q2", "generate", "generate", ask("how much"))
    assert [one.status for one in server.received] == [422, 200, 400]


async def test_a_limit_that_is_too_high_fails_its_call_alone(tmp_path: Path) -> None:
    said = "max_tokens is too large: 256. This model supports at most 16 completion tokens."
    with FakeOpenAI(troubles=[Trouble(400, message=said)]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            with pytest.raises(CallFailed, match=r"lower llm\.max_completion_tokens"):
                await client.complete("q", "generate", "generate", ask("how much"))
            await client.complete("q2", "generate", "generate", ask("how much"))


async def test_words_of_the_address_and_of_the_model_name_no_field(tmp_path: Path) -> None:
    with FakeOpenAI(models=["seed-stream"], troubles=[Trouble(400, message="Bad request")]) as server:
        async with client_over(tmp_path, config_for(server, model="seed-stream", seed=7)) as (client, _):
            with pytest.raises(CallFailed, match="Bad request"):
                await client.complete("q", "generate", "generate", ask("how much"))
    assert len(server.received) == 1


@pytest.mark.parametrize(
    "body",
    [
        "[" * 200_000,
        '{"error":' * 50_000,
        "<" * 300_000,
        "'" * 300_000,
        json.dumps({"errors": [{"loc": ["a"] * 1000, "msg": "b " * 1000}] * 1000}),
        "context " * 40_000,
        "<html>" + "<b>x" * 50_000,
        json.dumps({f"k{at}": "a b" for at in range(100_000)}),
        "\x00\ud83d".encode("utf-8", "surrogatepass") * 10_000,
        b"\xff\xfe" * 50_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_hostile_error_is_read_in_bounded_time_and_size(body: Any) -> None:
    found = read_error(body)
    assert len(found.words) <= WORDS_CHARS
    assert len(found.fields) <= READ_CHARS
    assert len(found.shown) <= SHOWN_CHARS
