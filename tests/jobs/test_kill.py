"""A run that is killed goes on with the same command and pays for no reply twice; one that is stopped ends cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml

from okralong.jobs.run_folder import table
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_STOPPED, GO_ON
from tests.conftest import CHECKOUT
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import config_file

pytestmark = pytest.mark.slow

KILL_AFTER = 6
"""Requests that have arrived when the driver is killed; the run needs 18."""
DEAF_TO_CTRL_C = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for a job that a shell starts in the background
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def command(plain_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI) -> list[str]:
    """Long context, one call a question, over the sample's 18 questions, three at a time, into ``run``. It needs no
    model: those of tests/faults are killed."""
    config = config_file(tmp_path, reader)
    settings = yaml.safe_load(config.read_text())
    settings["strategy"] = "long_context"
    settings["concurrency"] = 3
    settings["reranker"] = {"confidence": False}
    settings["own_process"] = 0  # tests/faults/test_own_process.py kills a command that carries its run itself
    config.write_text(yaml.safe_dump(settings))
    reader.delay_s = 0.3
    given = ["--questions", str(sample_folder / "questions.jsonl"), "--run", str(tmp_path / "run")]
    return ["-m", "okralong.jobs.cli", "answer", str(plain_archive), *given, "--config", str(config)]


@pytest.fixture
def environment() -> dict[str, str]:
    """This process's, less what belongs to the test session's own Ray."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    return {**ours, "PYTHONPATH": str(CHECKOUT)}


def _half_way(driver: subprocess.Popen[str], reader: FakeOpenAI) -> None:
    deadline = time.monotonic() + 240
    while len(reader.received) < KILL_AFTER and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.05)


def test_a_killed_run_pays_for_nothing_twice(
    command: list[str], environment: dict[str, str], tmp_path: Path, reader: FakeOpenAI
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, *command]
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True)
    _half_way(first, reader)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(3.0)  # what was on its way when the driver died still arrives
    asked_before = len(reader.received)
    assert KILL_AFTER <= asked_before < 18, "the run was killed in its middle"
    folder = Folder.of(run)
    assert folder.read_manifest() is None
    answered_before = {row["query_id"] for row in table(folder, "answers")}

    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert (second.returncode, second.stderr) == (0, ""), "and nothing in it is the user's business"
    answers = Counter(row["query_id"] for row in table(folder, "answers"))
    assert len(answers) == 18
    assert set(answers.values()) == {1}
    assert answered_before <= set(answers)
    ledger = table(folder, "ledger")
    settled = sum(row["cost_usd"] for row in ledger if row["status"] == "ok")
    unknown = sum(row["cost_usd"] for row in ledger if row["status"] == "unknown")
    assert settled - 1e-9 <= reader.bill_usd <= settled + unknown + 1e-9
    in_flight = sum(row["status"] == "unknown" for row in ledger)
    assert len(reader.received) <= 18 + in_flight, "only what was in flight was asked again"
    manifest = folder.read_manifest()
    assert manifest is not None
    assert manifest["totals"]["statuses"] == {"answered": 18}


@pytest.mark.soak  # tests/faults/test_stops.py has Ctrl-C
def test_sigterm_stops_a_background_run_as_ctrl_c_would(
    command: list[str], environment: dict[str, str], tmp_path: Path, reader: FakeOpenAI
) -> None:
    command = [sys.executable, "-c", DEAF_TO_CTRL_C, *command]
    driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _half_way(driver, reader)
    driver.send_signal(signal.SIGTERM)
    said, complained = driver.communicate(timeout=120)
    assert (driver.returncode, complained) == (EXIT_STOPPED, f"Stopped. {GO_ON}\n"), said
    folder = Folder.of(tmp_path / "run")
    assert folder.read_manifest() is None
    assert 0 < len(table(folder, "answers")) < 18
