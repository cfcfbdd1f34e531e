"""``kill -9`` of a batch run's driver between a batch's creation and its record: the same command adopts the batch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

MODEL = "gpt-4o-2024-08-06"
HANG = {"kind": "hang", "where": "batches", "contains": "POST /v1/batches", "times": 1}


def command(archive: Path, sample: Path, folder: Path, server: EndpointProcess) -> list[str]:
    settings: dict[str, Any] = yaml.safe_load(shipped_config("answer.yaml"))
    settings |= {"strategy": "long_context", "analyzer": {"kind": "rules"}, "confidence": "none"}
    settings["llm"] |= {"base_url": server.base_url, "model": MODEL, "window": 128_000, "tokenizer": "o200k_base"}
    settings["llm"]["batch"] = {"quiet_s": 3.0, "gather_s": 60.0, "poll_s": 0.2, "longest_poll_s": 0.5}
    (folder / "answer.yaml").write_text(yaml.safe_dump(settings))
    given = ["--questions", str(sample / "questions.jsonl"), "--run", str(folder / "run")]
    given += ["--config", str(folder / "answer.yaml"), "--llm-mode", "batch", "--deadline", "2h"]
    return [sys.executable, "-m", "okralong.jobs.cli", "answer", str(archive), *given]


@pytest.mark.soak
def test_a_batch_that_the_killed_driver_never_recorded_is_adopted(
    ray_cluster: None, plain_archive: Path, sample_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment = {**ours, "PYTHONPATH": str(CHECKOUT)}
    run = Folder.of(tmp_path / "run")
    with EndpointProcess({"models": {MODEL: {}}, "faults": [HANG]}) as server:
        line = command(plain_archive, sample_folder, tmp_path, server)
        first = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 600
        while not server.state()["batches"] and time.monotonic() < deadline and first.poll() is None:
            time.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        made = set(server.state()["batches"])
        assert len(made) == 1
        assert [row for row in table(run, "journal") if row["kind"] == "batch"] == []
        assert table(run, "answers") == []

        # As the command does it, beside models that run already.
        given = {"config": tmp_path / "answer.yaml", "llm.mode": "batch", "llm.batch.deadline": "2h"}
        second = answer(plain_archive, sample_folder / "questions.jsonl", run.path, **given)
        assert (second.exit_code, second.stopped) == (0, "")
        assert "since an earlier start" in " ".join(capsys.readouterr().out.split())
        assert made <= set(server.state()["batches"])
        bill = server.state()["bill"]
        assert (bill["batch"]["calls"], bill["chat"]["calls"]) == (18, 0), "each reply is paid for once"
        ledger = table(run, "ledger")
        settled = sum((Decimal(repr(row["cost_usd"])) for row in ledger), Decimal(0))
        assert {row["status"] for row in ledger} == {"ok"}
        assert abs(settled - server.bill_usd) < Decimal("1e-12")
        assert len({row["query_id"] for row in table(run, "answers")}) == 18
        manifest = run.read_manifest()
        assert manifest is not None
        assert manifest["totals"]["batch_calls"] == 18
