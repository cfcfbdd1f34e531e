"""Prepare what a run needs: an archive, a config, and a run folder with analyses, plans and retrieved chunks."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from benchmarks.nightly.watch import Watch
from okralong.pipelines.archive.versions import latest_version
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.journal import RunLog, read_run_table
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.samples.questions import generate, write_sample

MODEL = "gpt-4o"
WORDS, SEED = 2_000, 5
QUESTIONS_A_REPORT = 100
"""A generated report of that many words allows about 150 questions."""
BUDGET_USD = 1_000.0
"""A cap that is never reached, so that each call reserves its worst case first."""
SENT = ("request", "reply")
"""Journal rows that a run writes again; the others are replayed."""


class Work:
    """A folder with everything; ``base_url`` is the endpoint's. Existing contents are reused."""

    def __init__(self, folder: Path, base_url: str, questions: int) -> None:
        self.folder, self.base_url = folder, base_url
        if latest_version(Folder.of(folder / "archive")) is not None:
            return
        reports = max(4, -(-questions // QUESTIONS_A_REPORT))
        write_sample(generate(reports=reports, questions=questions, seed=SEED, words=WORDS), folder)
        _run("index", folder / "archive", "--from", folder / "reports")

    def learn(self, in_flight: int) -> None:
        """Answer everything once, so that a journal contains analyses, plans and retrieved chunks."""
        if not (self.folder / "first" / "manifest.json").exists():
            self.answer("first", in_flight)

    def first_pass(self) -> float:
        """Return questions per second of the run without replay, from its first journal row to its last."""
        written = read_run_table(Folder.of(self.folder / "first"), "journal", ["written_at"])["written_at"]
        ends = pc.min_max(written).as_py()
        return len(self.rows("first", "answers")) / float((ends["max"] - ends["min"]).total_seconds())

    def answer(
        self,
        run: str,
        in_flight: int,
        limits: dict[str, int] | None = None,
        kill_when: Callable[[], bool] | None = None,
        again: bool = False,
    ) -> tuple[Watch, float]:
        """Run, and return what was measured and the seconds including Ray's start.

        ``kill_when`` is passed to ``Watch.run``; ``again`` continues the run.
        """
        config = self.folder / f"{run}.yaml"
        settings = yaml.safe_load(shipped_config("answer.yaml"))
        settings["analyzer"] = {"kind": "rules"}
        # What the models take is measured by benchmarks.reranking and benchmarks.scaling; here is the rest.
        settings["policy"] = str(self._policy())
        settings["confidence"] = "none"
        settings["concurrency"] = in_flight
        settings["budget_usd"] = BUDGET_USD
        named = {"base_url": self.base_url, "model": MODEL, "window": 128_000, "max_in_flight": in_flight}
        settings["llm"].update(named | {"demonstrations": False, "calculator": False} | (limits or {}))
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        if run != "first" and not again:
            self._replay(run)
        asked = ("--questions", self.folder / "questions.jsonl", "--run", self.folder / run, "--config", config)
        watch = Watch()
        return watch, watch.run(_command("answer", self.folder / "archive", *asked), kill_when)

    def _policy(self) -> Path:
        """Return the default policy without the cross-encoder."""
        file = self.folder / "policy.yaml"
        policy = yaml.safe_load(shipped_config("policy/default.yaml"))
        policy["rerank"]["candidates"] = 0
        file.write_text(yaml.safe_dump(policy), encoding="utf-8")
        return file

    def rows(self, run: str, table: str) -> list[dict[str, Any]]:
        """Return a table of a run."""
        found: list[dict[str, Any]] = read_run_table(Folder.of(self.folder / run), table).to_pylist()
        return found

    def requests(self, run: str) -> Path:
        """Write a run's requests as SDK parameters, one per line, in the order in which they were sent."""
        file = self.folder / f"{run}.requests.jsonl"
        bodies = [json.loads(row["body"])["request"] for row in self.rows(run, "journal") if row["kind"] == "request"]
        with file.open("w", encoding="utf-8") as out:
            for body in bodies:
                messages = tuple(Message(**message) for message in body.pop("messages"))
                body["stop"] = tuple(body["stop"])
                out.write(json.dumps(LlmRequest(messages=messages, **body).parameters()) + "\n")
        return file

    def _replay(self, run: str) -> None:
        """Create a run folder with what the first run found before any call."""
        folder = self.folder / run
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        journal = read_run_table(Folder.of(self.folder / "first"), "journal")
        known = journal.filter(pc.invert(pc.is_in(journal["kind"], value_set=pa.array(SENT))))
        log = RunLog.open(Folder.of(folder))
        for row in known.to_pylist():
            log.append("journal", row)
        log.close()


def bare(requests: Path, base_url: str, in_flight: int) -> dict[str, float]:
    """Return processor and wall-clock seconds of a bare loop over ``requests``."""
    command = [sys.executable, "-m", "benchmarks.nightly.bare", str(requests), base_url, str(in_flight)]
    seen: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return seen


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "okralong.jobs.cli", *map(str, arguments)]


def _run(*arguments: object) -> None:
    subprocess.run(_command(*arguments), check=True, stdout=subprocess.DEVNULL)
