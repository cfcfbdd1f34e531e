"""A night's run as a person starts it: ``okralong answer`` as a subprocess, against an endpoint with its own bill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.conftest import CHECKOUT
from tests.fakes.endpoint.process import EndpointProcess
from tests.faults.processes import MARK

MODEL: Final = "gpt-4o-2024-08-06"
IN_FLIGHT: Final = 6
"""Questions at a time, and so the most calls that a kill can find in flight."""
START_S: Final = 900.0
"""How long a run may take to its next sign of life: on a busy machine Ray alone takes minutes to start."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; ``said`` is its standard output on one line, ``complained`` its standard error."""

    code: int
    said: str
    complained: str


def _hears_ctrl_c() -> None:
    """A shell lets its background commands ignore SIGINT, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Night:
    """One command, its run folder and the endpoint it asks. ``analyzer`` is its kind; ``environment`` is laid over this
    process's."""

    folder: Path
    archive: Path
    questions: Path
    endpoint: EndpointProcess
    analyzer: str = "rules"
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.folder / "run"

    def configure(self, **changes: Any) -> None:
        """Write the command's config: OkraLong by the paper's policy, ``changes`` laid over.

        Keys of ``llm`` are given as ``llm_timeout_s=5``.
        """
        settings = yaml.safe_load(shipped_config("answer.yaml"))
        settings |= {"policy": "policy/paper.yaml", "analyzer": {"kind": self.analyzer}, "concurrency": IN_FLIGHT}
        settings |= {"planners": 2, "budget_usd": 20.0, "confidence": "none"}
        told = {"base_url": self.endpoint.base_url, "model": MODEL, "tokenizer": "o200k_base", "window": 128_000}
        settings["llm"] |= told | {"timeout_s": 30.0}
        for key, value in changes.items():
            if key.startswith("llm_"):
                settings["llm"][key.removeprefix("llm_")] = value
            else:
                settings[key] = value
        (self.folder / "answer.yaml").write_text(yaml.safe_dump(settings))

    def variables(self) -> dict[str, str]:
        """The environment of the command."""
        ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        ours |= {"PYTHONPATH": str(CHECKOUT), "OPENAI_API_KEY": "sk-of-the-fault-suite-01", MARK: self.mark}
        return {**ours, **self.environment}

    def start(self, *further: str) -> subprocess.Popen[str]:
        """Start the command, or the same command again."""
        command = [sys.executable, "-m", "okralong.jobs.cli", "answer", str(self.archive)]
        command += ["--questions", str(self.questions), "--run", str(self.run)]
        command += ["--config", str(self.folder / "answer.yaml"), *self.arguments, *further]
        return subprocess.Popen(
            command,
            env=self.variables(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group of its own, as a terminal gives a command
            preexec_fn=_hears_ctrl_c,
        )

    def end(self, process: subprocess.Popen[str]) -> Ended:
        """Wait for the command's end."""
        said, complained = process.communicate(timeout=2 * START_S)
        return Ended(process.returncode, " ".join(said.split()), complained)

    def finish(self, *further: str) -> Ended:
        """Run the command to its end."""
        return self.end(self.start(*further))

    def command(self, *words: str) -> Ended:
        """Run another command of okralong to its end."""
        full = [sys.executable, "-m", "okralong.jobs.cli", *words]
        done = subprocess.run(full, env=self.variables(), capture_output=True, text=True, check=False, timeout=START_S)
        return Ended(done.returncode, " ".join(done.stdout.split()), done.stderr)

    def hold_after(self, requests: int) -> None:
        """Hold all requests after so many at the endpoint, so that the run waits there however late a test is."""
        self.endpoint.change({"hold_after": requests})

    def let_go(self, latency: Mapping[str, float] | None = None) -> None:
        """Answer what is held; requests from now on have another ``latency`` if one is given."""
        if latency is not None:
            self.endpoint.change({"latency": latency})
        self.endpoint.change({"hold_after": None})

    def asked(self) -> int:
        """Requests for a reply that have arrived at the endpoint."""
        return int(self.endpoint.state()["counts"]["by_where"].get("chat", 0))

    def wait_for_requests(self, process: subprocess.Popen[str], number: int) -> None:
        """Wait until so many requests have arrived, while the command runs."""
        self.wait_until(process, lambda: self.asked() >= number)

    def wait_until(self, process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
        """Wait for a moment of the run. Raises AssertionError when the command ends before it."""
        deadline = time.monotonic() + START_S
        while not reached():
            assert process.poll() is None, f"the command ended early ({process.returncode}): {process.communicate()}"
            assert time.monotonic() < deadline, "the run shows no sign of life"
            time.sleep(0.02)

    def wait_for_silence(self) -> None:
        """Wait until the endpoint works on nothing: what was in flight at a kill is charged when it is done."""
        while self.endpoint.state()["counts"]["in_flight"]:
            time.sleep(0.05)

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table of the run as it stands now."""
        return table(Folder.of(self.run), name)
