"""Runs that share replies: what was asked elsewhere is not paid for again, and both bills are to the cent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, ReplyError
from okralong.pipelines.llm.bill import COLUMNS, Bill, bill
from okralong.pipelines.llm.reply import SharedReplies, sharing_runs
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.llm.tools import ask, client_over, config_for, rows

THINGS = ("apples", "pears", "plums")


async def answered(run: Path, server: FakeOpenAI, words: tuple[str, ...], shared: tuple[Path, ...] = ()) -> list[str]:
    """Ask about each thing in ``run``; the replies."""
    replies = SharedReplies.load([str(other) for other in shared])
    async with client_over(run, config_for(server), cap_usd=1.0, shared=replies) as (client, _):
        return [(await client.complete(word, "generate", "generate", ask(word))).text for word in words]


def billed(run: Path) -> Bill:
    return bill([{name: row[name] for name in COLUMNS} for row in rows(run, "ledger")])


async def test_a_second_run_pays_nothing_for_equal_requests_and_knows_what_it_would_have_paid(tmp_path: Path) -> None:
    first, second, fresh = (tmp_path / name for name in ("first", "second", "fresh"))
    with FakeOpenAI(cached_tokens=9) as server:
        said = await answered(first, server, THINGS[:2])
        paid = server.bill_usd
        assert await answered(second, server, THINGS, shared=(first,)) == [*said, "An answer to: plums"]
        assert len(server.received) == 3
        extra = server.bill_usd - paid
        await answered(fresh, server, THINGS)
        whole = server.bill_usd - paid - extra
    own = billed(second)
    assert (own.billed_usd, own.alone_usd) == pytest.approx((extra, whole), abs=1e-12)
    assert own.shared == 2
    assert replace(billed(fresh), dearest=0.0) == Bill(pytest.approx(whole), pytest.approx(whole), 0, {}, calls=3)
    shared_rows = [row for row in rows(second, "ledger") if row["status"] == "cached"]
    assert [row["query_id"] for row in shared_rows] == list(THINGS[:2])
    assert all(row["cost_usd"] == row["reserved_usd"] == 0 and str(first) in row["error"] for row in shared_rows)
    assert {row["tags"][0] for row in shared_rows if row["tags"]} == set()
    assert [row["snapshot"] for row in rows(second, "ledger")] == ["fake-model"] * 3, "that of the reply taken, too"


async def test_a_shared_reply_is_in_the_journal_so_the_other_run_may_go(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    with FakeOpenAI() as server:
        await answered(first, server, THINGS[:1])
        await answered(second, server, THINGS[:1], shared=(first,))
        assert await answered(second, server, THINGS[:1]) == ["An answer to: apples"], "asked of itself alone"
        assert await answered(third, server, THINGS[:1], shared=(second,)) == ["An answer to: apples"]
        assert len(server.received) == 1
    assert len(rows(second, "ledger")) == 1
    assert billed(third).alone_usd == billed(first).billed_usd > 0


async def test_totals_and_answers_count_the_tokens_and_not_the_dollars_also_after_a_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with FakeOpenAI() as server:
        await answered(first, server, THINGS[:1])
        replies = SharedReplies.load([str(first)])
        async with client_over(second, config_for(server), shared=replies) as (client, ledger):
            await client.complete("apples", "generate", "generate", ask("apples"))
            before, spent = await ledger.totals(), await ledger.spent("apples")
            # As if the process had died between the journal's file and the ledger's.
            ledger.abandon()
        for name in Folder.of(second / "ledger").names(".parquet"):
            Folder.of(second / "ledger").remove(name)
        async with client_over(second, config_for(server)) as (_, ledger):
            assert await ledger.totals() == before
            assert await ledger.spent("apples") == spent
            row = {"query_id": "apples", "question": "?", "status": "answered", "doc_ids": [], "citations": []}
            await ledger.finish(row)
    assert (before.calls, before.settled_usd, before.unknown_usd) == (1, 0.0, 0.0)
    (answer,) = rows(second, "answers")
    (paid,) = rows(first, "ledger")
    assert (answer["calls"], answer["cost_usd"]) == (1, 0.0)
    assert answer["prompt_tokens"] == paid["prompt_tokens"]
    assert (spent[0], spent[1].prompt_tokens, spent[2]) == (1, paid["prompt_tokens"], pytest.approx(paid["cost_usd"]))
    assert [row["status"] for row in rows(second, "ledger")] == ["cached"]


async def test_what_calls_had_cost_counts_those_that_were_paid_for_and_those_that_were_shared(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        await answered(tmp_path / "first", server, THINGS[:1])
        replies = SharedReplies.load([str(tmp_path / "first")])
        for _ in range(2):  # the second time the ledger is read from its files
            async with client_over(tmp_path / "second", config_for(server), shared=replies) as (client, ledger):
                for thing in ("apples", "pears"):
                    await client.complete("tree", thing, "generate", ask(thing))
                calls, _, usd = await ledger.spent("tree")
                assert (calls, usd) == (2, pytest.approx(server.bill_usd))
    assert [row["status"] for row in rows(tmp_path / "second", "ledger")] == ["cached", "ok"]


async def test_a_reply_of_no_use_is_shared_too_since_asking_again_would_bring_it_again(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with FakeOpenAI(troubles=[Trouble(text="")]) as server:
        for run, shared in ((first, ()), (second, (first,))):
            with pytest.raises(ReplyError):
                await answered(run, server, THINGS[:1], shared=shared)
        assert len(server.received) == 1


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="replies_from names"):
        sharing_runs([str(tmp_path)])


def test_cost_by_tag_counts_what_was_billed() -> None:
    row = dict.fromkeys(COLUMNS, 1_000.0) | {"query_id": "q", "status": "ok", "cost_usd": 0.25, "cached_tokens": 0}
    tagged = [row | {"tags": [("team", "a"), ("report", "q3")]}, row | {"tags": [("team", "b")]}, row | {"tags": []}]
    held = row | {"status": "unknown", "tags": [("team", "a")]}
    found = bill([*tagged, held])
    assert found.by_tag == {("report", "q3"): 0.25, ("team", "a"): 0.25, ("team", "b"): 0.25}
    assert found.billed_usd == 0.75
