"""The endpoint as tests use it: a process that starts with ``with``, tells its bill, and is gone at the end."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from okralong.pipelines.core.child_process import module_command, module_environment, tail

ROOT: Final = Path(__file__).resolve().parents[3]
START_S: Final = 60.0
STOP_S: Final = 5.0


class EndpointProcess:
    """One endpoint process. Every method may be called from any thread while it runs."""

    def __init__(self, scenario: Mapping[str, Any] | None = None) -> None:
        """``scenario`` is what ``scenario.Scenario`` is made of; None is every default."""
        self._scenario = dict(scenario or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="okralong-endpoint-")
        folder = Path(self._folder.name)
        (folder / "scenario.json").write_text(json.dumps(self._scenario), encoding="utf-8")
        ready, self._log = folder / "ready.json", folder / "log.txt"
        command = module_command(
            "tests.fakes.endpoint",
            *("--scenario", str(folder / "scenario.json"), "--ready", str(ready), "--parent", str(os.getpid())),
        )
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=module_environment(), stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        try:
            self._wait_for(ready)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._running()
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
        self._folder.cleanup()

    @property
    def base_url(self) -> str:
        """The address that clients are given."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def google_url(self) -> str:
        """The address for clients that speak Google's protocol."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def anthropic_url(self) -> str:
        """The address for clients that speak Anthropic's protocol."""
        return f"http://127.0.0.1:{self._port}/anthropic"

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._running().pid

    @property
    def bill_usd(self) -> Decimal:
        """What the provider has charged until now, to the last digit."""
        return Decimal(self.state()["bill_usd"])

    def state(self) -> dict[str, Any]:
        """Bill, counts and batches; see ``state.Endpoint.public``."""
        return self._call("GET", "/_fake/state")

    def received(self, where: str | None = None) -> list[dict[str, Any]]:
        """The journal's entries in order of arrival, all or those of one ``where``; see ``journal.Entry``."""
        entries: list[dict[str, Any]] = self._call("GET", "/_fake/state?received=1")["received"]
        return [entry for entry in entries if where in (None, entry["where"])]

    def change(self, patch: Mapping[str, Any]) -> None:
        """Lay ``patch`` over the scenario. Raises ValueError, and changes nothing, when the outcome is none."""
        self._call("POST", "/_fake/scenario", patch)

    def reset(self, scenario: Mapping[str, Any] | None = None) -> None:
        """Forget everything and start anew, under another scenario or (None) the one it was started with."""
        self._call("POST", "/_fake/reset", scenario)

    def log(self) -> str:
        """What the process has printed."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("The endpoint was not started: use it in a with statement.")
        return self._process

    def _wait_for(self, ready: Path) -> None:
        until = time.monotonic() + START_S
        while not ready.exists():
            if self._running().poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"The endpoint did not start. Its last words: {tail(self.log())}")
            time.sleep(0.02)
        self._port = int(json.loads(ready.read_text(encoding="utf-8"))["port"])

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        # http.client, since urllib would go by the environment's proxies.
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(str(answer["error"]))
        return answer
