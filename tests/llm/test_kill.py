"""``kill -9`` in the middle of a run: the same command finishes it, and nothing that arrived is bought again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.llm.killed_run import QUESTIONS
from tests.llm.tools import rows

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parents[2]


def start(run: Path, server: FakeOpenAI) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.llm.killed_run", str(run), server.base_url],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )


def kill_at(run: Path, server: FakeOpenAI, requests: int) -> set[tuple[str, str]]:
    """Start the command, kill it when the server has seen so many requests; the steps whose replies had arrived."""
    server.hold_after = requests
    process = start(run, server)
    deadline = time.monotonic() + 180
    while len(server.received) < requests and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    process.wait()
    server.hold_after = None
    assert requests <= len(server.received) < 2 * QUESTIONS
    return {(row["query_id"], row["path"]) for row in rows(run, "journal") if row["kind"] == "reply"}


def test_a_run_that_is_killed_twice_is_finished_by_the_same_command(tmp_path: Path) -> None:
    with FakeOpenAI(delay_s=0.05) as server:
        arrived = [kill_at(tmp_path, server, 6), kill_at(tmp_path, server, 24)]
        assert arrived[0] < arrived[1]
        seen = len(server.received)
        assert start(tmp_path, server).wait(300) == 0
        asked = [str(one.messages[-1]["content"]) for one in server.received]

        ledger = rows(tmp_path, "ledger")
        settled = sum(row["cost_usd"] for row in ledger if row["status"] == "ok")
        unknown = sum(row["cost_usd"] for row in ledger if row["status"] == "unknown")
        assert settled - 1e-12 <= server.bill_usd <= settled + unknown + 1e-12
        assert len({row["query_id"] for row in rows(tmp_path, "answers")}) == QUESTIONS

    steps = [(text.split()[-1], "split" if text.startswith("parts of") else "generate") for text in asked]
    lost = Counter((row["query_id"], row["path"]) for row in ledger if row["status"] == "unknown")
    assert 1 <= lost.total() <= 2 * 4  # two kills, at most four in flight at each
    again = {step: times - 1 for step, times in Counter(steps).items() if times > 1}
    assert all(times <= lost[step] for step, times in again.items())  # only what was in flight is asked again
    assert not arrived[1] & set(steps[seen:])  # and nothing that had arrived
    assert len(steps) == 2 * QUESTIONS + sum(again.values())
