"""A whole sweep that is killed, gone on with, stopped by Ctrl-C, and gone on with: nothing is paid for twice, and the
budget holds over all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from okralong.lab.sweeps.schemas import SCORES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_STOPPED
from okralong.pipelines.run.rows import table
from tests.conftest import CHECKOUT
from tests.evaluation.evidence.town import write_town
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.test_sweep_changes import write_sweep

pytestmark = pytest.mark.slow

KILL_AFTER, STOP_AFTER, NEEDED = 3, 7, 12
"""Requests that have arrived when the sweep is killed, and when Ctrl-C is pressed; its two cells need 12."""
BUDGET_USD = 1.0
WAIT_S = 240


@pytest.fixture
def command(ray_token: Path, tmp_path: Path, reader: FakeOpenAI) -> list[str]:
    """Two cells of six questions each, side by side."""
    data = write_town(tmp_path / "data")
    policies: dict[str, Any] = {"default": {}, "few": {"policy_overrides": {"std_rag.count": 2}}}
    more = {"variants": policies, "share_replies": False, "budget_usd": BUDGET_USD, "parallel": 2}
    sweep = write_sweep(tmp_path, data, reader, **more)
    given = ["--data", str(data), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work"), "--yes"]
    return [sys.executable, "-m", "okralong.jobs.cli", "evaluate", str(sweep), *given]


@pytest.fixture
def environment() -> dict[str, str]:
    """This process's, less what belongs to the test session's own Ray."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {**ours, "PYTHONPATH": str(CHECKOUT)}


def ledgers(out: Path) -> list[dict[str, Any]]:
    return [row for run in (out / "cells").iterdir() for row in table(Folder.of(run), "ledger")]


def until(driver: subprocess.Popen[str], reader: FakeOpenAI, requests: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(reader.received) < requests and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.02)


def started(command: list[str], environment: dict[str, str], **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )


@pytest.mark.soak  # three drivers, one after the other
def test_a_sweep_that_is_killed_and_then_stopped_pays_for_nothing_twice(
    command: list[str], environment: dict[str, str], tmp_path: Path, reader: FakeOpenAI
) -> None:
    out = tmp_path / "out"
    reader.delay_s = 1.0  # so that questions are in flight when it ends
    first = started(command, environment)
    until(first, reader, KILL_AFTER)
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=WAIT_S)
    time.sleep(3.0)  # what was on its way when the driver died still arrives
    assert KILL_AFTER <= len(reader.received) < NEEDED, "it was killed in its middle"
    assert not (out / "manifest.json").exists()

    second = started(command, environment)
    until(second, reader, max(STOP_AFTER, len(reader.received) + 1))
    second.send_signal(signal.SIGINT)
    said, _ = second.communicate(timeout=WAIT_S)
    assert second.returncode == EXIT_STOPPED, said
    assert "run the same command again to resume" in " ".join(said.split())
    assert "Traceback" not in said
    assert not (out / "manifest.json").exists()

    reader.delay_s = 0.0
    third = started(command, environment)
    said, _ = third.communicate(timeout=WAIT_S)
    assert third.returncode == 0, said
    rows = pq.read_table(out / "scores", schema=SCORES).to_pylist()
    assert len(rows) == NEEDED
    assert {row["status"] for row in rows} == {"answered"}
    attempts = ledgers(out)
    unknown = [row["cost_usd"] for row in attempts if row["status"] == "unknown"]
    settled = sum(row["cost_usd"] for row in attempts if row["status"] == "ok")
    assert len(reader.received) <= NEEDED + len(unknown), "only what was in flight was asked again"
    assert settled - 1e-9 <= reader.bill_usd <= settled + sum(unknown) + 1e-9
    assert settled + sum(unknown) <= BUDGET_USD
    assert (out / "manifest.json").is_file()
    assert (out / "report.html").is_file()
