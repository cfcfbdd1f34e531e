"""A run whose driver is killed goes on with the same command, and pays for no reply twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import yaml

from okralong.jobs.run_folder import table
from okralong.pipelines.settings import shipped_config
from okralong.pipelines.storage import Folder
from tests.conftest import CHECKOUT
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import endpoint

KILL_AFTER = 6
"""Requests that have arrived when the driver is killed; the run needs 18."""


def test_a_killed_run_pays_for_nothing_twice(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    run, config = tmp_path / "run", tmp_path / "answer.yaml"
    settings = yaml.safe_load(shipped_config("answer.yaml"))
    settings["llm"].update({key.removeprefix("llm."): value for key, value in endpoint(reader).items()})
    settings["strategy"] = "std_rag"
    settings["concurrency"] = 3
    config.write_text(yaml.safe_dump(settings))
    reader.delay_s = 0.3
    command = [sys.executable, "-m", "okralong.jobs.cli", "answer", str(sample_archive)]
    command += ["--questions", str(sample_folder / "questions.jsonl"), "--run", str(run), "--config", str(config)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment["PYTHONPATH"] = str(CHECKOUT)

    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while len(reader.received) < KILL_AFTER and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(3.0)  # what was on its way when the driver died still arrives
    asked_before = len(reader.received)
    assert KILL_AFTER <= asked_before < 18, "the run was killed in its middle"
    folder = Folder.of(run)
    assert folder.read_manifest() is None
    answered_before = {row["query_id"] for row in table(folder, "answers")}

    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400, check=False)
    assert second.returncode == 0, second.stderr[-2000:]
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
