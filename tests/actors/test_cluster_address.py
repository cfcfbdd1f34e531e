"""``RAY_ADDRESS`` and ``--address`` as people set them: a cluster that can be used, or a message that names them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from okralong.actors import cluster
from okralong.actors.cluster import answering_cluster, cluster_address
from okralong.actors.web_service import free_port
from okralong.pipelines.core.types import EXIT_USAGE, BrokenError, ConfigError

pytestmark = pytest.mark.slow


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a listener that accepts and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def dashboard() -> Iterator[str]:
    """The address of a server that speaks HTTP, as the dashboard does."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def problem(address: str) -> str:
    """The message about ``address`` as an option; the variable gets the same one."""
    messages = []
    for source, option in (("--address", address), ("RAY_ADDRESS", None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", "" if option else address)
            with pytest.raises(
                ConfigError, match=rf"^{source} is {re.escape(repr(address))}, but .*HOST:PORT"
            ) as caught:
                answering_cluster(option)
        messages.append(str(caught.value).replace(source, "").replace("leave out", "unset"))
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8265", "https://ray.example", "ray://127.0.0.1:10001", "tcp://h:6379", "head", "head:", ":6379"],
)
def test_what_is_no_address_of_a_cluster_is_refused_without_a_call(address: str) -> None:
    assert "okralong submit" in problem(address)


def test_an_address_at_which_no_cluster_answers_is_refused(
    dashboard: str, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "ANSWER_S", 1.0)
    assert "no Ray cluster answers" in problem(f"127.0.0.1:{free_port('127.0.0.1', 0)}")
    assert "no Ray cluster answers" in problem("no-such-host.invalid:6379")
    assert "no Ray cluster answers" in problem("127.0.0.1:99999")
    assert "no Ray cluster answers" in problem(dashboard)
    assert "has not answered for 1 s" in problem(silent)


def test_auto_without_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> str:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(cluster.services, "canonicalize_bootstrap_address", none)
    assert "no Ray cluster runs on this machine" in problem("auto")


@pytest.mark.parametrize("named", ["", "  ", "local"])
def test_an_empty_address_is_an_unset_one(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    assert cluster_address() is None
    assert cluster_address("head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", " other:6379 ")
    assert cluster_address() == "other:6379"
    assert cluster_address(named) == (None if named == "local" else "other:6379")
    assert cluster_address("auto") == "other:6379"


def run(folder: Path, address: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"RAY_ADDRESS": address}
    started = [sys.executable, *command]
    return subprocess.run(started, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_a_command_ends_within_seconds_and_names_the_variable(tmp_path: Path, dashboard: str) -> None:
    (tmp_path / "docs").mkdir()
    began = time.monotonic()
    ended = run(tmp_path, f"http://{dashboard}", "-m", "okralong", "index", "archive", "--from", "docs")
    assert ended.returncode == EXIT_USAGE, ended.stderr
    assert time.monotonic() - began < 60
    assert " ".join(ended.stderr.split()).startswith("okralong: RAY_ADDRESS is")


def test_an_empty_variable_starts_a_private_cluster(tmp_path: Path) -> None:
    connect = "from okralong.actors.cluster import connected, is_private\nwith connected(): print(is_private())"
    ended = run(tmp_path, "", "-c", connect)
    assert (ended.returncode, ended.stdout.strip()) == (0, "True"), ended.stderr


def test_a_private_cluster_that_does_not_start_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**_: object) -> None:
        raise Exception("The current node timed out during startup.")  # as Ray does on an overloaded machine

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(cluster.ray, "init", late)
    monkeypatch.setattr(cluster.ray, "shutdown", lambda: None)  # the session's Ray goes on
    with pytest.raises(BrokenError, match=r"Ray did not start .*timed out during startup\. Often"), cluster.connected():
        pass
