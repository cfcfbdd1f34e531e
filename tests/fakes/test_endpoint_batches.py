from __future__ import annotations

import openai
import pytest

from tests.fakes.calls import CHAT, line, lines_of, submit, until, user
from tests.fakes.endpoint.process import EndpointProcess


async def test_a_batch_goes_through_its_whole_life(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"batches": {"validating_s": 0.2, "requests_per_s": 40.0, "finalizing_s": 0.2}})
    batch = await submit(
        client, [line(f"r{n}", f"Question {n}") for n in range(20)], metadata={"run": "r1", "part": "3"}
    )
    assert (batch.status, batch.object, batch.endpoint, batch.completion_window) == ("validating", "batch", CHAT, "24h")
    assert batch.output_file_id is None
    assert batch.expires_at == batch.created_at + 86_400
    working = await until(client, batch.id, "in_progress")
    assert working.request_counts is not None
    assert working.request_counts.total == 20
    assert working.in_progress_at is not None
    await until(client, batch.id, "finalizing")
    done = await until(client, batch.id, "completed")
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 20, "completed": 20, "failed": 0}
    assert done.metadata == {"run": "r1", "part": "3"}
    assert (done.errors, done.error_file_id, done.failed_at, done.cancelled_at) == (None, None, None, None)
    assert done.completed_at is not None
    assert done.finalizing_at is not None
    outputs = await lines_of(client, done.output_file_id)
    assert sorted(outputs) == sorted(f"r{n}" for n in range(20))
    assert list(outputs) != [f"r{n}" for n in range(20)]
    for custom_id, one in outputs.items():
        assert (one["error"], one["response"]["status_code"]) == (None, 200)
        assert one["response"]["request_id"].startswith("req_")
        said = one["response"]["body"]["choices"][0]["message"]["content"]
        assert said == f"An answer to: Question {custom_id[1:]}"
    assert {entry["custom_id"] for entry in server.received("batch_item")} == set(outputs)
    assert done.output_file_id is not None
    file = await client.files.retrieve(done.output_file_id)
    assert (file.purpose, file.filename) == ("batch_output", f"{batch.id}_output.jsonl")


async def test_some_requests_fail_and_the_others_are_paid(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    faults = [
        {"kind": "server_error", "where": "batch_item", "contains": "broken"},
        {"kind": "refusal", "where": "batch_item", "contains": "forbidden"},
    ]
    server.reset({"faults": faults, "models": {"fake-model": {"window": 1000}}})
    too_long = line("long", body={"model": "fake-model", "messages": user("word " * 2000), "max_tokens": 10})
    bad_body = line("body", body={"model": "fake-model", "messages": []})
    lines = [line("good"), line("broken", "broken"), line("refused", "forbidden"), too_long, bad_body]
    done = await until(client, (await submit(client, lines)).id, "completed")
    assert done.request_counts is not None
    assert done.request_counts.model_dump() == {"total": 5, "completed": 2, "failed": 3}
    good, bad = await lines_of(client, done.output_file_id), await lines_of(client, done.error_file_id)
    assert (set(good), set(bad)) == ({"good", "refused"}, {"broken", "long", "body"})
    assert good["refused"]["response"]["body"]["choices"][0]["message"]["refusal"]
    responses = {custom_id: one["response"] for custom_id, one in bad.items()}
    assert {custom_id: response["status_code"] for custom_id, response in responses.items()} == {
        "broken": 500, "long": 400, "body": 400,
    }  # fmt: skip
    assert responses["long"]["body"]["error"]["code"] == "context_length_exceeded"
    assert {entry["custom_id"] for entry in server.received("batch_item") if entry["billed"]} == {"good", "refused"}
    assert server.state()["bill"]["batch"]["calls"] == 2


async def test_an_expired_batch_keeps_what_was_done(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"batches": {"requests_per_s": 20.0, "window_s": 0.6}})
    expired = await until(client, (await submit(client, [line(f"r{n}") for n in range(60)])).id, "expired")
    done, undone = await lines_of(client, expired.output_file_id), await lines_of(client, expired.error_file_id)
    assert 0 < len(done) < 60
    assert set(done) | set(undone) == {f"r{n}" for n in range(60)}
    assert not set(done) & set(undone)
    assert {one["error"]["code"] for one in undone.values()} == {"batch_expired"}
    assert {one["response"] for one in undone.values()} == {None}
    assert expired.request_counts is not None
    assert (expired.request_counts.total, expired.request_counts.completed) == (60, len(done))
    assert expired.expired_at is not None
    assert server.state()["bill"]["batch"]["calls"] == len(done)


async def test_a_batch_is_cancelled_half_way(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"batches": {"requests_per_s": 0, "cancelling_s": 0.2}})
    batch = await submit(client, [line(f"r{n}") for n in range(400)])
    await until(client, batch.id, "in_progress")
    server.change({"batches": {"requests_per_s": 200.0}})
    while not server.received("batch_item"):
        pass
    assert (await client.batches.cancel(batch.id)).status == "cancelling"
    assert (await client.batches.cancel(batch.id)).status == "cancelling"
    cancelled = await until(client, batch.id, "cancelled")
    done, undone = await lines_of(client, cancelled.output_file_id), await lines_of(client, cancelled.error_file_id)
    assert 0 < len(done) < 400
    assert len(done) + len(undone) == 400
    assert {one["error"]["code"] for one in undone.values()} == {"batch_cancelled"}
    assert cancelled.cancelled_at is not None
    assert server.state()["bill"]["batch"]["calls"] == len(done)
    with pytest.raises(openai.ConflictError):
        await client.batches.cancel(batch.id)


async def test_batches_are_listed_in_pages_with_their_metadata(
    server: EndpointProcess, client: openai.AsyncOpenAI
) -> None:
    made = [(await submit(client, [line("a")], metadata={"part": str(n)})).id for n in range(7)]
    first = await client.batches.list(limit=3)
    assert [batch.id for batch in first.data] == made[:3:-1]
    assert first.has_more
    second = await client.batches.list(limit=3, after=first.data[-1].id)
    assert [(batch.metadata or {})["part"] for batch in second.data] == ["3", "2", "1"]
    assert [batch.id async for batch in client.batches.list(limit=2)] == made[::-1]
    last = await client.batches.list(limit=3, after=second.data[-1].id)
    assert ([batch.id for batch in last.data], last.has_more) == (made[:1], False)
    for query in ({"limit": 0}, {"limit": 101}, {"after": "batch_unknown"}):
        with pytest.raises(openai.BadRequestError):
            await client.batches.list(**query)


async def test_the_queue_of_a_model_holds_so_many_tokens(server: EndpointProcess, client: openai.AsyncOpenAI) -> None:
    server.reset({"batches": {"enqueued_tokens": 2500, "requests_per_s": 0}})
    lines = [line(str(n), "word " * 100) for n in range(20)]
    first = await submit(client, lines)
    await until(client, first.id, "in_progress")
    refused = await until(client, (await submit(client, lines)).id, "failed")
    assert refused.errors is not None
    assert refused.errors.data is not None
    assert refused.errors.data[0].code == "token_limit_exceeded"
    server.change({"batches": {"requests_per_s": 10_000.0}})
    await until(client, first.id, "completed")
    await until(client, (await submit(client, lines)).id, "completed")
