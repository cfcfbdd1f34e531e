"""The scripted endpoint speaks Google's protocol: asked with the official SDK, over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from google import genai
from google.genai import errors, types

from tests.fakes.endpoint.process import EndpointProcess

KEY = "AIza-test-0123456789abcdef"
MODEL = "gemini-test"
CONFIG = types.GenerateContentConfig(
    system_instruction="Be brief.", max_output_tokens=60, temperature=0, automatic_continuation=False
)


@pytest.fixture
async def google(server: EndpointProcess) -> AsyncIterator[genai.client.AsyncClient]:
    options = types.HttpOptions(
        base_url=server.google_url,
        api_version="v1beta",
        timeout=20_000,
        retry_options=types.HttpRetryOptions(attempts=1),
    )
    client = genai.Client(api_key=KEY, vertexai=False, http_options=options)
    yield client.aio
    await client.aio.aclose()


async def failed(google: genai.client.AsyncClient, model: str = MODEL, **config: Any) -> errors.APIError:
    with pytest.raises(errors.APIError) as caught:
        await google.models.generate_content(
            model=model, contents="Hello", config=CONFIG.model_copy(update=config) if config else CONFIG
        )
    return caught.value


async def test_a_reply_whole_and_as_a_stream_is_charged_with_its_thought_and_cache(
    server: EndpointProcess, google: genai.client.AsyncClient
) -> None:
    rates = {"input": 2.0, "cached_input": 0.2, "output": 12.0}
    server.reset({"models": {MODEL: {"thought": 7, "rates": rates}}})
    prompt = "word " * 1500
    whole = await google.models.generate_content(model=MODEL, contents=prompt, config=CONFIG)
    stream = await google.models.generate_content_stream(model=MODEL, contents=prompt, config=CONFIG)
    pieces = [piece async for piece in stream]
    assert "".join(piece.text or "" for piece in pieces) == whole.text
    assert len(pieces) > 1
    first, second = whole.usage_metadata, pieces[-1].usage_metadata
    assert first is not None
    assert second is not None
    assert (first.cached_content_token_count, second.cached_content_token_count) == (None, 1408)
    assert (first.thoughts_token_count, first.prompt_token_count) == (7, second.prompt_token_count)
    assert first.candidates_token_count is not None
    assert first.prompt_token_count is not None
    out, prompt_tokens = 2 * (first.candidates_token_count + 7), first.prompt_token_count
    expected = (2 * prompt_tokens - 1408) * Decimal("2.0") + 1408 * Decimal("0.2") + out * Decimal("12.0")
    assert server.bill_usd == expected / 1_000_000
    names = [model.name async for model in await google.models.list()]
    counted = await google.models.count_tokens(model=MODEL, contents=prompt)
    assert names == [f"models/{MODEL}"]
    assert counted.total_tokens == prompt_tokens - 7  # without the system instruction


async def test_errors_have_googles_form(server: EndpointProcess, google: genai.client.AsyncClient) -> None:
    server.reset({"models": {MODEL: {"window": 50, "json_schemas": False}}, "keys": ["AIza-another-key-0123456"]})
    wrong = await failed(google)
    assert (wrong.code, wrong.status) == (400, "INVALID_ARGUMENT")
    assert wrong.details["error"]["details"][0]["reason"] == "API_KEY_INVALID"
    server.change({"keys": []})
    assert (await failed(google, "unknown")).status == "NOT_FOUND"
    schema = {"response_mime_type": "application/json", "response_json_schema": {"type": "object"}}
    refused = await failed(google, **schema)
    field = refused.details["error"]["details"][0]["fieldViolations"][0]["field"]
    assert field == "generation_config.response_json_schema"
    assert "token count exceeds" in str(await failed(google, system_instruction="word " * 200))
    for fault, status in (("unavailable", "UNAVAILABLE"), ("server_error", "INTERNAL")):
        server.change({"faults": [{"kind": fault}]})
        assert (await failed(google)).status == status
    for fault, quota in (("rate_limited", "PerMinute"), ("insufficient_quota", "PerDay")):
        server.change({"faults": [{"kind": fault, "retry_after_s": 2.5}]})
        details = (await failed(google)).details["error"]["details"]
        assert quota in details[0]["violations"][0]["quotaId"]
        assert details[1]["retryDelay"] == ("2.5s" if fault == "rate_limited" else "18.0s")
    assert server.bill_usd == 0


async def test_blocked_prompts_and_replies_cost_what_they_used(
    server: EndpointProcess, google: genai.client.AsyncClient
) -> None:
    server.reset({"models": {MODEL: {}}, "script": ["refusal", "content_filter", "length"]})
    replies = [await google.models.generate_content(model=MODEL, contents="Hello", config=CONFIG) for _ in range(3)]
    assert replies[0].prompt_feedback is not None
    assert replies[0].prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT
    assert replies[0].candidates is None
    ends = [reply.candidates[0].finish_reason for reply in replies[1:] if reply.candidates]
    assert ends == [types.FinishReason.SAFETY, types.FinishReason.MAX_TOKENS]
    assert server.bill_usd > 0


async def over(google: genai.client.AsyncClient, name: str) -> types.BatchJob:
    for _ in range(500):
        batch = await google.batches.get(name=name)
        if batch.done:
            return batch
        await asyncio.sleep(0.02)
    raise TimeoutError(name)


async def handed_in(google: genai.client.AsyncClient, texts: list[str], display_name: str) -> types.BatchJob:
    request = {"generationConfig": {"maxOutputTokens": 60}}
    lines = [
        json.dumps({"key": f"k{n}", "request": {**request, "contents": [{"role": "user", "parts": [{"text": text}]}]}})
        for n, text in enumerate(texts)
    ]
    content = io.BytesIO("\n".join(lines).encode())
    file = await google.files.upload(file=content, config=types.UploadFileConfig(mime_type="application/jsonl"))
    assert file.name is not None
    config = types.CreateBatchJobConfig(display_name=display_name)
    return await google.batches.create(model=MODEL, src=file.name, config=config)


async def test_a_batch_from_a_file_ends_with_a_file(server: EndpointProcess, google: genai.client.AsyncClient) -> None:
    faults = [{"kind": "server_error", "where": "batch_item", "contains": "broken"}]
    server.reset({"models": {MODEL: {}}, "faults": faults})
    made = await handed_in(google, ["One?", "broken", "Three?"], "run/1")
    assert made.name is not None
    done = await over(google, made.name)
    assert (done.state, done.display_name) == (types.JobState.JOB_STATE_SUCCEEDED, "run/1")
    assert done.dest is not None
    assert done.dest.file_name is not None
    content = await google.files.download(file=done.dest.file_name)
    results = {line["key"]: line for line in map(json.loads, content.splitlines())}
    assert set(results) == {"k0", "k1", "k2"}
    assert results["k1"]["error"]["code"] == 13
    assert results["k0"]["response"]["candidates"][0]["content"]["parts"][0]["text"] == "An answer to: One?"
    assert [batch.display_name async for batch in await google.batches.list()] == ["run/1"]
    assert server.bill_usd > 0


async def test_a_cancelled_batch_keeps_its_count_and_no_results(
    server: EndpointProcess, google: genai.client.AsyncClient
) -> None:
    server.reset({"models": {MODEL: {}}, "batches": {"requests_per_s": 0}})
    made = await handed_in(google, ["One?"], "run/1")
    assert made.name is not None
    await google.batches.cancel(name=made.name)
    done = await over(google, made.name)
    assert (done.state, done.dest) == (types.JobState.JOB_STATE_CANCELLED, None)
    assert server.bill_usd == 0
