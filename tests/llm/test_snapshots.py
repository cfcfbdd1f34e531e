"""Which snapshots wrote a run's replies: counted in the ledger, known again after a restart, warned of once."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from okralong.jobs.drive import ProgressWatch
from okralong.jobs.terminal import AnswerPanel
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.snapshots import Snapshot, drift, snapshot_rows
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import ask, client_over, config_for, further, rows

OLD, NEW = "gpt-4o-2024-05-13", "gpt-4o-2024-08-06"


def test_one_snapshot_at_many_servers_is_no_drift() -> None:
    replies = {
        Snapshot("https://a", "gpt-4o", NEW, "fp_1"): 3,
        Snapshot("https://a", "gpt-4o", NEW, "fp_2"): 1,
        Snapshot("https://b", "deployment", NEW, "fp_3"): 2,
        Snapshot("", "", "", ""): 5,
    }
    assert drift(replies) is None
    said = drift({**replies, Snapshot("https://a", "gpt-4o", OLD, "fp_0"): 1})
    assert said is not None
    assert f"2 snapshots: {NEW} (6 replies), {OLD} (1 reply)" in said
    assert drift({}) is None


def test_the_manifest_lists_each_origin_with_its_count_in_a_fixed_order() -> None:
    one, other = Snapshot("https://b", "m", NEW, "fp"), Snapshot("https://a", "m", NEW, "")
    assert snapshot_rows({one: 2, other: 1}) == snapshot_rows({other: 1, one: 2})
    assert snapshot_rows({one: 2, other: 1})[1] == {
        "endpoint": "https://b", "model": "m", "snapshot": NEW, "system_fingerprint": "fp", "replies": 2,
    }  # fmt: skip


async def test_each_reply_is_counted_where_it_came_from_also_across_restarts_and_a_kill(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI() as second:
        first.snapshot, first.system_fingerprint = OLD, "fp_a"
        second.snapshot, second.system_fingerprint = NEW, "fp_b"
        config = config_for(first, endpoints=[further(second)])
        expected = {
            Snapshot(first.base_url, "fake-model", OLD, "fp_a"): 2,
            Snapshot(second.base_url, "fake-model", NEW, "fp_b"): 1,
        }
        async with client_over(tmp_path, config) as (client, ledger):
            await client.complete("q1", "a", "generate", ask("one"))
            await client.complete("q2", "a", "generate", ask("two"))
            first.key = "another"
            reply = await client.complete("q3", "a", "generate", ask("three"))
            assert (reply.model, reply.system_fingerprint) == (NEW, "fp_b")
            await ledger.finish({"query_id": "q1", "question": "?", "status": "answered", "answer": "x"})
            assert (await ledger.totals()).snapshots == expected
        async with client_over(tmp_path, config) as (client, ledger):
            assert (await client.complete("q3", "a", "generate", ask("three"))) == reply
            assert (await ledger.totals()).snapshots == expected
    run = Folder.of(tmp_path)
    for name in run.at("ledger").names(".parquet"):  # as if the process had died between the journal and the ledger
        run.at("ledger").remove(name)
    ledger = RunLedger(run, None)
    assert sum((await ledger.totals()).snapshots.values()) == 2  # those of the questions without an end
    await ledger.close()
    assert {row["snapshot"] for row in rows(tmp_path, "ledger") if row["status"] == "ok"} == {OLD, NEW}


async def test_a_run_whose_replies_come_from_two_snapshots_says_so_once(tmp_path: Path) -> None:
    page = io.StringIO()
    console = Console(file=page)
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server)) as (client, ledger):
            watch = ProgressWatch(ledger, None, AnswerPanel(console, 2), console)
            for number, snapshot in enumerate((OLD, NEW)):
                server.snapshot = snapshot
                await client.complete(f"q{number}", "a", "generate", ask("hello"))
                for _ in range(3):
                    await watch.look(number)
                assert page.getvalue().count("snapshots") == number * 2
            assert OLD in page.getvalue()
