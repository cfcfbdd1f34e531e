"""Machines of a Ray cluster on this one, started as a person starts them: ``ray start --head``, then workers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.faults.processes import MARK, Process, kill, marked

START_S: Final = 240.0
STARTS: Final = 3
"""How often a machine is started: its raylet ends where Ray's agent, a Python process, takes over 15 s to start."""
STORE_BYTES: Final = 100 * 1024 * 1024
SOON_LOST: Final = {"RAY_health_check_period_ms": "1000"}
"""Environment of a cluster that misses a machine which is gone after five seconds, and not after fifteen; one that is
busy has as long to answer as ever."""


class RayMachines:
    """A head with a job server, and workers by name; a context manager that leaves no process behind.

    The nodes have ``environment`` and nothing of ours that begins with ``RAY_`` or ends in ``_KEY``.
    """

    def __init__(self, token: Path, environment: Mapping[str, str]) -> None:
        self.mark = uuid.uuid4().hex
        # A short name: sockets lie deep below it, and the kernel takes 107 bytes of their paths.
        self._folder = Path(tempfile.mkdtemp(prefix="r-"))
        self._port, self._dashboard = _free_port(), _free_port()
        self._raylets: dict[str, int] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self.address = f"http://127.0.0.1:{self._dashboard}"
        self.token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        ours = {key: value for key, value in os.environ.items() if not re.match(r"RAY_|PYTHONPATH$|.*_KEY$", key)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"  # the job's command is `python`
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false", "PATH": path, **SOON_LOST}
        # As for the session's own Ray in tests/conftest.py: no test looks at what Serve does ten times a second.
        quiet |= {"RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.3"}
        self.environment = {**ours, **quiet, **self.token, **environment, MARK: self.mark}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in marked(self.mark):
            kill(process)
        for started in self._started:
            started.wait()
        exits = self._folder.glob("*/session_2*/logs/ray_process_exit.log")
        for log in (*self._folder.glob("*.log"), *exits):  # pytest shows them when a test fails
            print(f"{log.relative_to(self._folder)}:\n{log.read_text(errors='replace')[-2000:]}")
        shutil.rmtree(self._folder, ignore_errors=True)

    def start_head(self, labels: str, cpus: int) -> None:
        """Start the head, and wait until its job server answers."""
        served = ("--dashboard-host", "127.0.0.1", "--dashboard-port", str(self._dashboard))
        ports = ("--port", str(self._port), "--ray-client-server-port", str(_free_port()))
        self._start("head", "--head", *ports, *served, labels=labels, cpus=cpus)
        deadline = time.monotonic() + START_S
        while not _answers(f"{self.address}/api/version"):
            assert time.monotonic() < deadline, self.log("head")
            assert self._started[-1].poll() is None, self.log("head")
            time.sleep(0.2)

    def start_worker(self, name: str, labels: str, cpus: int) -> None:
        """Start a worker, and wait for its raylet."""
        self._start(name, "--address", f"127.0.0.1:{self._port}", labels=labels, cpus=cpus)

    def _start(self, name: str, *words: str, labels: str, cpus: int) -> None:
        before = {process.pid for process in marked(self.mark)}
        command = [str(Path(sys.executable).with_name("ray")), "start", *words, "--block", "--labels", labels]
        command += ["--num-cpus", str(cpus), "--object-store-memory", str(STORE_BYTES)]
        # A disk of its own for each: a machine unpacks a job's code anew, and would do so under the others' imports.
        command += ["--temp-dir", str(self._folder / name)]
        command += ["--min-worker-port", "0", "--max-worker-port", "0", "--node-ip-address", "127.0.0.1"]
        for _ in range(STARTS):
            ports = [  # others each time: between its choice and its use a port may be taken
                word
                for each in ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent", "metrics-export")
                for word in (f"--{each}-port", str(_free_port()))
            ]
            with (self._folder / f"{name}.log").open("wb") as log:
                started = subprocess.Popen(
                    [*command, *ports], env=self.environment, stdout=log, stderr=log, start_new_session=True
                )
            self._started.append(started)
            deadline = time.monotonic() + START_S
            while started.poll() is None and "Ray runtime started" not in self.log(name):
                assert time.monotonic() < deadline, self.log(name)
                time.sleep(0.1)
            if started.poll() is None:
                break
        assert started.poll() is None, self.log(name)
        fresh = [p for p in marked(self.mark) if p.pid not in before and "raylet/raylet" in p.title]
        self._raylets[name] = fresh[0].pid

    def log(self, name: str) -> str:
        """What ``ray start`` has said on a machine."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def held_by(self, name: str, *titles: str) -> list[Process]:
        """The workers on a machine whose title begins so (``ray::`` left out)."""
        wanted = tuple(f"ray::{title}" for title in titles)
        raylet = self._raylets[name]
        return [one for one in marked(self.mark) if one.parent == raylet and one.title.startswith(wanted)]

    def lose(self, name: str) -> None:
        """The machine is gone, with everything on it, at once."""
        raylet = self._raylets.pop(name)
        starter = next((one.parent for one in marked(self.mark) if one.pid == raylet), -1)
        for process in [one for one in marked(self.mark) if raylet in (one.pid, one.parent) or one.pid == starter]:
            kill(process)


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5)
    except urllib.error.HTTPError:
        return True  # it asks for the token
    except OSError:
        return False
    return True
