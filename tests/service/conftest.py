"""A service as a user starts it: the command in a process of its own, over a small archive and a scripted endpoint."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import pytest
import yaml

from okralong.actors.host import WarmHost
from okralong.jobs.answer import answer_prepared
from okralong.pipelines.core.config import load_config, shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.nightly import CURRENT, NIGHTS, RUN, Current, Night, known_documents, merged, write_current
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.rows import table
from okralong.pipelines.serving.tokens import add_token
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import always, quoting, splits
from tests.jobs.warm import OWN, without_ray

MODEL: Final = "gpt-4o-2024-08-06"
KEY: Final = "sk-of-the-service-0123456789"
RULES: Final[list[Any]] = [(splits, "What is the revenue?\nWhat are the costs?"), (always, quoting)]
START_S: Final = 600.0


@dataclass
class Served:
    """A running service."""

    url: str
    folder: Path
    tokens: Mapping[str, str]
    server: FakeOpenAI
    process: subprocess.Popen[str]

    def headers(self, name: str = "ada", **more: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}", **more}

    def client(self, name: str = "ada") -> httpx2.Client:
        """A client that wants final answers."""
        headers = self.headers(name, Accept="application/json")
        return httpx2.Client(base_url=self.url, headers=headers, timeout=180)

    @property
    def run(self) -> Path:
        """The run of the day, the last one if midnight has passed."""
        return max(each for each in self.folder.iterdir() if each.name.startswith("20"))

    def rows(self, name: str) -> list[dict[str, Any]]:
        return table(Folder.of(self.run), name)

    @property
    def replica(self) -> psutil.Process:
        """The process that answers."""
        below = psutil.Process(self.process.pid).children(recursive=True)
        (found,) = [each for each in below if "okralong-service" in " ".join(each.cmdline()[:1])]
        return found


def config_of(folder: Path, server: FakeOpenAI, **more: Any) -> Path:
    config: dict[str, Any] = yaml.safe_load(shipped_config("answer.yaml"))
    config |= {"analyzer": {"kind": "rules"}, "reranker": {"model": tiny_cross_encoder()}, "confidence": "none"}
    config["llm"] |= {"base_url": server.base_url, "model": MODEL, "window": 128_000, "max_in_flight": 64}
    (folder / "serve.yaml").write_text(yaml.safe_dump(config | more))
    return folder / "serve.yaml"


@pytest.fixture(scope="module")
def endpoint_server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(rules=RULES, models=[MODEL]) as server:
        yield server


@pytest.fixture(scope="module")
def night(plain_archive: Path, endpoint_server: FakeOpenAI, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A nightly's config whose folder has a finished night, of two questions of each report."""
    place = tmp_path_factory.mktemp("nightly")
    given = {"analyzer.kind": "rules", "reranker.model": tiny_cross_encoder(), "confidence": "none"}
    given |= {"llm.base_url": endpoint_server.base_url, "llm.model": MODEL, "llm.window": 128_000}
    columns = [
        {"query_id": "revenue", "question": "What is the total revenue?", "doc_ids": "each"},
        {"query_id": "risk", "question": "What is a risk?", "doc_ids": "each"},
    ]
    prepared = prepare(str(plain_archive), columns, load_config(RunConfig, "answer.yaml", given))
    folder = Folder.of(place / "nightly")
    last = Night("2026-11-27", phase="done", archive_version=prepared.archive.version)
    run = folder.at(NIGHTS, last.name, RUN)
    OWN.bring(prepared)
    with without_ray():
        assert answer_prepared(prepared, run.path, host=WarmHost(OWN, prepared.llm, None)).exit_code == 0
    last.write(folder.at(NIGHTS, last.name))
    new = merged(prepared, Current.read(folder.at(CURRENT)), run, last)
    write_current(folder.at(CURRENT), new, run, known_documents(prepared.archive), {})
    config = {"folder": "nightly", "archive": str(plain_archive), "sources": ["reports"], "questions": "none.jsonl"}
    (place / "nightly.yaml").write_text(yaml.safe_dump(config))
    endpoint_server.received.clear()
    return place / "nightly.yaml"


@contextmanager
def service(place: Path, archive: Path, server: FakeOpenAI, night: Path, tokens: Mapping[str, str]) -> Iterator[Served]:
    """The command until the end of the block, with a cap of two dollars."""
    config = config_of(place, server, serve={"version_poll_s": 0.2, "timeout_s": 30.0, "grace_s": 3.0})
    command = [sys.executable, "-m", "okralong", "serve", str(archive), "--config", str(config), "--night", str(night)]
    command += [
        "--tokens",
        str(place / "tokens.yaml"),
        "--port",
        "0",
        "--budget-usd",
        "2",
        "--folder",
        str(place / "days"),
    ]
    environment = os.environ | {"OPENAI_API_KEY": KEY}
    environment.pop("RAY_AUTH_TOKEN_PATH", None)
    log = place / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, env=environment, umask=0)
    try:
        deadline = time.monotonic() + START_S
        while (found := re.search(r"http://[\d.:]+", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield Served(found[0], place / "days", tokens, server, process)
    finally:
        process.send_signal(signal.SIGTERM)  # a shell's background commands ignore SIGINT
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def served(
    plain_archive: Path, endpoint_server: FakeOpenAI, night: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """One service for the tests of a module. ``ada`` may spend a dollar, ``poor`` nearly nothing, ``slow`` is slow."""
    place = tmp_path_factory.mktemp("service")
    path = place / "tokens.yaml"
    tokens = {
        "ada": add_token(path, "ada", 1.0, 100_000),
        "poor": add_token(path, "poor", 0.000001, 1_000),
        "small": add_token(path, "small", 0.04, 1_000),
        "slow": add_token(path, "slow", 1.0, 2),
    }
    with service(place, plain_archive, endpoint_server, night, tokens) as found:
        yield found


@pytest.fixture(autouse=True)
def _as_new(request: pytest.FixtureRequest) -> None:
    if "served" in request.fixturenames:
        server = request.getfixturevalue("endpoint_server")
        server.reset(RULES, models=[MODEL])


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
