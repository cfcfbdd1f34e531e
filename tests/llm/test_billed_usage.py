"""What an endpoint reports is booked, however far above our own count: it sends the bill."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import CallFailed, EndpointError, OverBudget, Usage
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.usage import LARGEST_WINDOW, Booked, Trust
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import PRICE, ask, client_over, config_for, rows, until

OURS = Usage(100, 0, 20)
TRUST = Trust(8192)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("hidden", [(0, 2560), (3600, 0), (3600, 2560), (0, 72_000)])
async def test_hidden_tokens_are_booked_and_the_cap_holds(
    tmp_path: Path, hidden: tuple[int, int], streams: bool
) -> None:
    """64 at a time from the first call on: the cap is passed by what one reply costs beyond its reserve."""
    with FakeOpenAI() as server:
        server.hidden, server.streams = hidden, streams
        config = config_for(server, max_in_flight=64)
        cap = 0.3

        async with client_over(tmp_path, config, cap_usd=cap) as (client, ledger):
            ends = await asyncio.gather(
                *(client.complete(f"q{number}", "generate", "generate", ask("What?")) for number in range(200)),
                return_exceptions=True,
            )
            totals = await ledger.totals()
        bill = server.bill_usd
    assert any(isinstance(end, OverBudget | EndpointError) for end in ends)
    assert totals.settled_usd - 1e-9 <= bill <= totals.settled_usd + totals.unknown_usd + 1e-9
    in_flight = 1 if sum(hidden) < 8192 else len(server.received)
    assert bill <= cap + in_flight * PRICE.most(*hidden)
    ledger_rows = rows(tmp_path, "ledger")
    if sum(hidden) < 8192:
        assert totals.settled_usd == pytest.approx(bill)
        assert {row["status"] for row in ledger_rows} == {"ok"}
    else:  # more than the window
        assert in_flight <= cap / PRICE.most(8192, 8192)
        assert {row["status"] for row in ledger_rows} == {"ok", "unknown"}


async def test_three_replies_with_too_much_hidden_thought_stop_the_run(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        server.hidden = (0, 2560)
        async with client_over(tmp_path, config_for(server)) as (client, _):
            for number in range(2):
                await client.complete(f"q{number}", "generate", "generate", ask("What?"))
            with pytest.raises(EndpointError, match=r"2\d\d\d tokens with a limit of 256.* llm\.reasoning_tokens"):
                await client.complete("q2", "generate", "generate", ask("What?"))


async def test_a_hidden_prompt_is_reserved_once_and_its_calls_run_beside_each_other(tmp_path: Path) -> None:
    """After the first reply each call reserves what such a prompt costs, so the whole cap can be used."""
    with FakeOpenAI(delay_s=0.02) as server:
        server.hidden = (3600, 0)
        config = config_for(server, max_in_flight=64)
        async with client_over(tmp_path, config, cap_usd=1.0) as (client, ledger):
            await asyncio.gather(
                *(client.complete(f"q{number}", "generate", "generate", ask("What?")) for number in range(60))
            )
            totals = await ledger.totals()
        assert totals.settled_usd == pytest.approx(server.bill_usd)
        assert len(server.received) == 60


@pytest.mark.parametrize("decided", [True, False])
async def test_nothing_is_sent_until_a_person_has_decided(tmp_path: Path, decided: bool) -> None:
    with FakeOpenAI() as server:
        server.hidden = (0, 72_000)
        config = config_for(server)
        for query in ("q", "q1"):  # also after a restart
            async with client_over(tmp_path, config) as (client, _):
                with pytest.raises(EndpointError, match=r"set llm\.trust_usage"):
                    await client.complete(query, "generate", "generate", ask("What?"))
        assert len(server.received) == 1
        by_status = {row["status"]: row for row in rows(tmp_path, "ledger")}
        booked, held, unsent = by_status["ok"], by_status["unknown"], by_status["failed"]
        assert (booked["completion_tokens"], unsent["cost_usd"]) == (8192, 0.0)
        assert booked["cost_usd"] + held["cost_usd"] == pytest.approx(server.bill_usd)
        async with client_over(tmp_path, config_for(server, trust_usage=decided)) as (client, ledger):
            await client.complete("q", "generate", "generate", ask("What?"))  # the paid reply is in the journal
            assert len(server.received) == 1
            await client.complete("q2", "generate", "generate", ask("What else?"))
            settled = (await ledger.totals()).settled_usd
        second = server.received[1].cost_usd(*server.usd_per_million)
        assert settled - booked["cost_usd"] == (pytest.approx(second) if decided else pytest.approx(0.0005, abs=0.0005))


@pytest.mark.parametrize(
    ("told", "booked"),
    [
        ({"prompt_tokens": 90, "completion_tokens": 15}, (90, 15)),
        ({"prompt_tokens": 1200, "completion_tokens": 4000}, (1200, 4000)),
        # Thought that is only in other fields, as Gemini's compatible endpoint and xAI report it.
        ({"prompt_tokens": 90, "completion_tokens": 15, "total_tokens": 800}, (90, 710)),
        (
            {"prompt_tokens": 90, "completion_tokens": 15, "completion_tokens_details": {"reasoning_tokens": 600}},
            (90, 615),
        ),
        # An impossible number is counted here, and the other is not lowered.
        ({"prompt_tokens": 1200, "completion_tokens": -1}, (1200, 20)),
        ({"prompt_tokens": 1, "completion_tokens": None}, (100, 20)),
        ({"prompt_tokens": 1.5, "completion_tokens": 4000.0}, (100, 4000)),
        ({"prompt_tokens": 90, "completion_tokens": 0}, (100, 20)),
        ({"input_tokens": 1200, "output_tokens": 4000}, (1200, 4000)),
    ],
)
def test_what_is_booked(told: dict[str, Any], booked: tuple[int, int]) -> None:
    found = Booked.of(told, OURS, 1, TRUST)
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == booked
    assert (found.held, found.undecided) == (Usage(), False)


@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
@pytest.mark.parametrize("number", [8193, 72_000, LARGEST_WINDOW, LARGEST_WINDOW + 1, 10**30, float("inf")])
def test_a_report_beyond_the_window_is_undecided(name: str, number: float) -> None:
    told = {"prompt_tokens": 90, "completion_tokens": 15, name: number}
    found = Booked.of(told, OURS, 1, TRUST)
    assert found.undecided
    assert getattr(found.usage, name) == 8192
    assert getattr(found.held, name) == (number - 8192 if number <= LARGEST_WINDOW else 0)
    believed = Booked.of(told, OURS, 1, Trust(8192, decided=True))
    assert (getattr(believed.usage, name), believed.undecided) == (min(number, LARGEST_WINDOW), False)
    assert Booked.of(told, OURS, 1, Trust(8192, decided=False)).usage == OURS


def test_of_a_total_alone_as_much_is_held_as_it_can_cost() -> None:
    found = Booked.of({"total_tokens": 4825}, OURS, 1, TRUST)
    assert (found.usage, found.held) == (Usage(100, 0, 4725), Usage(0, 0, 100))


def events(*told: dict[str, Any] | None, end: str = "data: [DONE]\n\n") -> Trouble:
    """A stream with a usage in each event that has one."""
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "Paris. "}, "finish_reason": None}]}
        | ({} if each is None else {"usage": each})
        for each in told
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + end
    return Trouble(raw=body, content_type="text/event-stream")


BILLED = {"prompt_tokens": 3000, "completion_tokens": 4000}
SHRUNK = {"prompt_tokens": 10, "completion_tokens": 2}
NO_CHOICE = {"choices": [], "usage": BILLED}
REFUSED = {"error": {"message": "filtered", "code": "content_filter"}, "usage": BILLED}


async def test_the_largest_usage_of_a_stream_is_booked(tmp_path: Path) -> None:
    """One that shrinks at the end was the bill all the same."""
    with FakeOpenAI(troubles=[events(BILLED, SHRUNK)]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q", "generate", "generate", ask("What?"))
    (row,) = rows(tmp_path, "ledger")
    assert (row["status"], row["prompt_tokens"], row["completion_tokens"]) == ("ok", 3000, 4000)


@pytest.mark.parametrize(
    "trouble",
    [
        events(BILLED, SHRUNK, end=""),
        events(BILLED, end='data: {"error": {"message": "overloaded"}}\n\n'),
        Trouble(raw=NO_CHOICE),
        Trouble(raw=REFUSED),
    ],
    ids=["cut", "error event", "no choice", "error with a usage"],
)
async def test_what_a_failed_reply_reports_is_held(tmp_path: Path, trouble: Trouble) -> None:
    with FakeOpenAI(troubles=[trouble]) as server:
        async with client_over(tmp_path, config_for(server, max_attempts=1), cap_usd=1.0) as (client, ledger):
            with pytest.raises(CallFailed):
                await client.complete("q", "generate", "generate", ask("What?"))
            assert (await ledger.totals()).unknown_usd == pytest.approx(PRICE.most(3000, 4000))
        async with client_over(tmp_path, config_for(server), cap_usd=1.0) as (_, ledger):  # also after a restart
            assert (await ledger.totals()).unknown_usd == pytest.approx(PRICE.most(3000, 4000))


async def test_text_that_arrived_before_a_cut_is_held(tmp_path: Path) -> None:
    """The reserve covers 20 tokens; a reply of more than that is aborted only at 62."""
    said = {"choices": [{"index": 0, "delta": {"content": "word " * 60}, "finish_reason": None}]}
    cut = Trouble(raw=f"data: {json.dumps(said)}\n\n", content_type="text/event-stream")
    with FakeOpenAI(troubles=[cut]) as server:
        config = config_for(server, max_completion_tokens={"generate": 20}, max_attempts=1)
        async with client_over(tmp_path, config) as (client, _):
            with pytest.raises(CallFailed):
                await client.complete("q", "generate", "generate", ask("What?"))
    (row,) = rows(tmp_path, "ledger")
    assert row["status"] == "unknown"
    assert row["cost_usd"] >= row["reserved_usd"] + PRICE.most(0, 39)


async def test_once_thought_was_hidden_a_reply_without_usage_is_held_in_full(tmp_path: Path) -> None:
    with FakeOpenAI(troubles=[None, Trouble(no_usage=True)]) as server:
        server.hidden = (0, 2560)
        async with client_over(tmp_path, config_for(server), cap_usd=1.0) as (client, ledger):
            for number in range(2):
                await client.complete(f"q{number}", "generate", "generate", ask("What?"))
            totals = await ledger.totals()
        assert totals.settled_usd < server.bill_usd <= totals.settled_usd + totals.unknown_usd


async def test_a_stream_without_usage_is_streamed_again_and_can_be_aborted(tmp_path: Path) -> None:
    troubles = [Trouble(no_usage=True), None, None]
    with FakeOpenAI(troubles=troubles, rules=[(lambda _: True, "word " * 2000)]) as server:
        async with client_over(tmp_path, config_for(server)) as (client, _):
            await client.complete("q0", "generate", "generate", ask("What?"))
            server.writes, server.word_s, server.words_held = 1000.0, 0.001, 700
            await client.complete("q1", "generate", "generate", ask("What?"))
        assert all(one.body["stream"] for one in server.received)
        assert server.received[1].completion_tokens < 2000


async def test_three_aborted_replies_stop_the_run_and_the_rest_is_held(tmp_path: Path) -> None:
    """An endpoint that does not notice an abort bills the whole reply; the bill stays below settled + unknown."""
    with FakeOpenAI(rules=[(lambda _: True, "word " * 4000)]) as server:
        server.writes = 1000.0
        config: LlmConfig = config_for(server, max_completion_tokens={"generate": 20})
        async with client_over(tmp_path, config) as (client, ledger):
            server.word_s = 0.0005
            for number in range(2):
                reply = await client.complete(f"q{number}", "generate", "generate", ask("What?"))
                assert reply.finish_reason == "length"
            with pytest.raises(EndpointError, match="ignores the limit"):
                await client.complete("q2", "generate", "generate", ask("What?"))
            totals = await ledger.totals()
    whole = sum(PRICE.most(one.prompt_tokens, 4000) for one in server.received)
    assert totals.settled_usd < whole <= totals.settled_usd + totals.unknown_usd
    found = rows(tmp_path, "ledger")
    assert [row["status"] for row in found].count("ok") == [row["status"] for row in found].count("unknown") == 3


async def test_calls_of_a_killed_process_are_held_at_what_replies_of_the_run_cost(tmp_path: Path) -> None:
    """Else each kill would hide the thought of the calls in flight from the budget."""
    with FakeOpenAI() as server:
        server.hidden = (0, 2560)
        config = config_for(server)
        for start in range(3):
            server.hold_after = None
            async with client_over(tmp_path, config, cap_usd=1.0) as (client, ledger):
                if not start:
                    await client.complete("q", "generate", "generate", ask("What?"))
                sent = server.hold_after = len(server.received)
                waits = asyncio.create_task(client.complete(f"q{start}", "generate", "generate", ask(f"{start}?")))
                await until(lambda sent=sent: len(server.received) > sent)  # type: ignore[misc]
                ledger.abandon()
                ledger._closed = True
                waits.cancel()
                await asyncio.gather(waits, return_exceptions=True)
        server.hold_after = None
        ledger = RunLedger(Folder.of(tmp_path), 1.0)
        totals = await ledger.totals()
        await ledger.close()
        true = sum(PRICE.most(one.prompt_tokens or 20, 2560) for one in server.received)
        assert true <= totals.settled_usd + totals.unknown_usd <= 1.5 * true
        assert sum(row["cost_usd"] for row in rows(tmp_path, "ledger")) == pytest.approx(
            totals.settled_usd + totals.unknown_usd
        )
