"""One run over the sample, and a generator that reads: it answers with words of the first passage that it is shown."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import okralong
from okralong.jobs import cli
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.conftest import made_once
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder

PASSAGE = re.compile(r"<passage id=\"?1\"?[^>]*>\n?(.*?)\n?</passage>", re.DOTALL)
PAPER = "policy/paper.yaml"


def quoting(messages: Messages) -> str:
    """An answer that quotes the first words of passage 1, as the contract has it."""
    shown = PASSAGE.search(messages[-1]["content"])
    assert shown, messages[-1]["content"][:500]
    words = " ".join(shown[1].split()[:6])
    return f'Evidence: [1] "{words}"\nAnswer: {words}'


def splits(messages: Messages) -> bool:
    """Whether this is the splitting prompt."""
    return "Break the question" in messages[0]["content"]


def always(messages: Messages) -> bool:
    """Any prompt."""
    return True


@pytest.fixture
def own_process() -> Iterator[None]:
    """Commands of few questions begin as for a user: in this process, and not on the Ray of the session."""
    from tests.jobs.warm import without_ray

    with without_ray():
        yield


@pytest.fixture(scope="session")
def run_rows(sample_archive: Path, sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run by the paper's policy and the shipped analyzer and cross-encoder: its exit code, tables and manifest, and
    the bill of the endpoint. Not to be gone on with."""
    given: dict[str, Any] = {"policy": PAPER, "tags": {"team": "tests"}, "analyzer.kind": "heads"}
    given |= {"reranker.model": "shipped"}
    rules: list[Any] = [
        (splits, "What is the first company's revenue?\nWhat is the second company's revenue?"),
        (always, quoting),
    ]

    def make(place: Path) -> None:
        with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as server:
            told = endpoint(server) | given
            result = okralong.answer(sample_archive, sample_folder / "questions.jsonl", place / "run", **told)
            made = {"exit_code": result.exit_code, "bill": server.bill_usd}
        (place / "made.json").write_text(json.dumps(made))

    place = made_once(tmp_path_factory, "run-rows", make)
    folder = Folder.of(place / "run")
    tables = {name: table(folder, name) for name in ("answers", "journal", "ledger", "failures")}
    known = json.loads((place / "made.json").read_text())
    return {**known, "manifest": folder.read_manifest(), "folder": folder, **tables}


@pytest.fixture(scope="session")
def _reading() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def reader(_reading: FakeOpenAI) -> FakeOpenAI:
    """The endpoint: two sub-questions for a split, a quotation for everything else. It is as good as new, but at one
    address for all tests, so that its limiter need not be started for each."""
    rules: list[Any] = [
        (splits, "What is the revenue of the first company?\nWhat is the revenue of the second company?"),
        (always, quoting),
    ]
    _reading.reset(rules, models=["gpt-4o-2024-08-06"], usd_per_million=(2.5, 1.25, 10.0))
    return _reading


@pytest.fixture(autouse=True)
def _limiters_end(request: pytest.FixtureRequest, _reading: FakeOpenAI) -> Iterator[None]:
    """A limiter outlives its run on purpose. Here it ends when its endpoint is gone, or has refused something."""
    yield
    alone = "reader" in request.fixturenames and all(one.status == 200 for one in _reading.received)
    if alone or "ray" not in sys.modules:
        return
    import ray
    from ray.util import list_named_actors

    from okralong.actors.cluster import NAMESPACE

    for one in list_named_actors(all_namespaces=True) if ray.is_initialized() else ():
        if one["name"].startswith("rate-limiter-"):
            ray.kill(ray.get_actor(one["name"], NAMESPACE))


def endpoint(server: FakeOpenAI) -> dict[str, Any]:
    """Overrides that send a run to ``server`` as if it were GPT-4o. Keyword rules analyse, and a cross-encoder of
    random weights ranks and says how sure it is: the shipped models, which ``run_rows`` has, take seconds."""
    return {
        "analyzer.kind": "rules",
        "reranker.model": tiny_cross_encoder(),
        "llm.base_url": server.base_url,
        "llm.model": "gpt-4o-2024-08-06",
        "llm.tokenizer": "o200k_base",
        "llm.window": 128_000,
    }


def config_file(folder: Path, server: FakeOpenAI) -> Path:
    """The shipped config with the overrides of ``endpoint``."""
    config = yaml.safe_load(shipped_config("answer.yaml"))
    config |= {"analyzer": {"kind": "rules"}, "reranker": {"model": tiny_cross_encoder()}}
    config["llm"] |= {"base_url": server.base_url, "model": "gpt-4o-2024-08-06", "window": 128_000}
    (folder / "answer.yaml").write_text(yaml.safe_dump(config))
    return folder / "answer.yaml"


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Exit code, and output and errors together on one line."""
    monkeypatch.setattr(sys, "argv", ["okralong", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.run_command()
    printed = capsys.readouterr()
    return int(ended.value.code or 0), " ".join((printed.out + printed.err).split())
