"""A warm session answers a run with the generator that the run's config names, and with no other: every pair of a
session's and a run's config, over HTTP to servers that count what they are asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from okralong.actors.generator import StartedGenerator, as_served, weights_here
from okralong.actors.host import DoesNotFit, WarmHost, why_ray
from okralong.actors.local_models import LoadedModels
from okralong.jobs.answer import answer_prepared
from okralong.pipelines.core.config import load_config, shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EndpointError
from okralong.pipelines.reporting.export import flat_answers
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import always, quoting
from tests.jobs.warm import OWN, without_ray

pytestmark = pytest.mark.slow

MODEL, OTHER = "gpt-4o-2024-08-06", "gpt-4o-mini-2024-07-18"
QUESTION: Final = {"query_id": "q", "question": "What does the company grow?"}

SESSIONS: Final = (
    *("embedded", "embedded, other window", "embedded, no reader", "embedded, stronger A"),
    *("A", "A, other model", "A and B"),
)
RUNS: Final = (*SESSIONS, "B", "embedded, other seed", "A, batches", "A, stronger B", "embedded, stronger B")


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, FakeOpenAI]]:
    """What listens where the session's embedded generator would, and two endpoints."""
    with FakeOpenAI() as here, FakeOpenAI() as one, FakeOpenAI() as two:
        yield {"embedded": here, "A": one, "B": two}


@pytest.fixture(autouse=True)
def _fresh(servers: Mapping[str, FakeOpenAI]) -> None:
    for name, server in servers.items():
        server.reset([(always, quoting)], models=[MODEL, OTHER, "embedded"])
        server.snapshot = f"{name}-2026"


@pytest.fixture
def asks(servers: Mapping[str, FakeOpenAI], plain_archive: Path, tmp_path: Path) -> Asks:
    return Asks(servers, plain_archive, tmp_path)


@dataclass(frozen=True)
class Asks:
    """Sessions and runs by the names of their configs."""

    servers: Mapping[str, FakeOpenAI]
    archive: Path
    folder: Path

    def prepared(self, name: str) -> Prepared:
        """A run of one question. Of a stronger generator the policy makes use: it trusts no answer."""
        first, _, rest = name.partition(", ")
        llm: dict[str, Any] = {"llm.window": 8192}
        if first != "embedded":
            llm |= {"llm.base_url": self.servers[first[0]].base_url, "llm.model": MODEL, "llm.tokenizer": "o200k_base"}
        if first == "A and B":
            llm["llm.endpoints"] = [{"base_url": self.servers["B"].base_url, "model": MODEL}]
        said = {
            "other window": {"llm.window": 4096},
            "no reader": {"llm.reader": "none"},
            "other seed": {"llm.seed": 99},
            "other model": {"llm.model": OTHER},
            "batches": {"llm.mode": "batch"},
        }
        if rest.startswith("stronger"):
            second = {"base_url": self.servers[rest[-1]].base_url, "model": OTHER, "window": 8192}
            llm |= {"llm.stronger": second, "policy": self._distrusting()}
        llm |= said.get(rest, {})
        given = {"analyzer.kind": "rules", "reranker.model": tiny_cross_encoder(), "reranker.answers": "never"}
        return prepare(str(self.archive), [QUESTION], load_config(RunConfig, "answer.yaml", given | llm))

    def _distrusting(self) -> str:
        policy = yaml.safe_load(shipped_config("policy/default.yaml"))
        policy["escalate"] = {"under": 1.0, "to": "stronger"}
        (self.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
        return str(self.folder / "policy.yaml")

    def session(self, name: str) -> WarmHost:
        """As ``okralong up`` would have it, but that the server of the embedded generator is scripted."""
        prepared = self.prepared(name)
        served = None
        if prepared.llm.base_url == "embedded":
            llm = as_served(prepared.llm)
            self.servers["embedded"].models.append(llm.model)
            facts = {"model": llm.model, "identity": weights_here(prepared.llm)}
            served = StartedGenerator(llm, self.servers["embedded"].base_url, facts)
        OWN.bring(prepared)
        return WarmHost(OWN, prepared.llm, served)

    def run(self, session: WarmHost, prepared: Prepared) -> Folder:
        """The folder of a run in a session. Raises DoesNotFit where the session does not carry it."""
        OWN.bring(prepared)
        run = self.folder / "run"
        with without_ray():
            result = answer_prepared(prepared, str(run), host=session)
        assert result.exit_code == 0, result
        return Folder.of(run)

    @property
    def asked(self) -> dict[str, set[str]]:
        """The models that each server was asked for."""
        return {name: {one.body["model"] for one in server.received} for name, server in self.servers.items()}


def named_by(run: str) -> dict[str, set[str]]:
    """What the servers are asked for by a run of that config in a session that carries it: its own generator, then
    the stronger one."""
    first, _, rest = run.partition(", ")
    wanted: dict[str, set[str]] = {"embedded": set(), "A": set(), "B": set()}
    wanted[first.partition(" ")[0]].add(OTHER if rest == "other model" else MODEL)
    if rest.startswith("stronger"):
        wanted[rest[-1]].add(OTHER)
    return wanted


def carried(warm: str, run: str) -> bool:
    """Whether a session carries a run: any at an endpoint, and one of the embedded generator that it has itself."""
    return "batches" not in run and (run == warm or not run.startswith("embedded"))


def test_every_pair_of_a_session_and_a_run(asks: Asks) -> None:
    prepared = {run: asks.prepared(run) for run in RUNS}
    for warm in SESSIONS:
        session = asks.session(warm)
        for run, each in prepared.items():
            OWN.bring(each)
            with without_ray():
                fits = not why_ray(each, 1)
            if fits and carried(warm, run):
                served = session.generator(each)
                assert served == (session.served if run.startswith("embedded") else None), (warm, run)
            elif fits:
                with pytest.raises(DoesNotFit, match="its generator differs from the run's"):
                    session.generator(each)
            else:
                assert "batches" in run


@pytest.mark.parametrize(
    ("warm", "run"),
    [
        *(("embedded", run) for run in ("embedded", "A", "A and B", "A, stronger B", "A, batches")),
        ("embedded, stronger A", "embedded, stronger A"),
        ("embedded, stronger A", "embedded, stronger B"),
        *(("A", run) for run in ("A, other model", "B", "embedded")),
        ("A and B", "A"),
    ],
    ids=lambda name: name.replace(", ", "+"),
)
def test_a_session_answers_with_the_generator_that_the_run_names(asks: Asks, warm: str, run: str) -> None:
    session, prepared = asks.session(warm), asks.prepared(run)
    if not carried(warm, run):
        with pytest.raises(DoesNotFit, match="batches" if "batches" in run else "generator"):
            asks.run(session, prepared)
        assert not any(asks.asked.values())
        return
    folder = asks.run(session, prepared)
    asked = {name: {MODEL} if name == "embedded" and models else models for name, models in asks.asked.items()}
    assert asked == named_by(run)
    manifest = folder.read_manifest()
    assert manifest is not None
    there = None if run.startswith("embedded") else prepared.config.llm.base_url
    assert manifest["generator"].get("base_url") == there
    by = run[-1] if "stronger" in run else run.split(",")[0].split(" ")[0]
    (row,) = table(folder, "answers")
    assert row["replied_by"] == f"{by}-2026", "as the reply names it"


def test_an_embedded_generator_whose_weights_have_changed_is_another_one(asks: Asks) -> None:
    session = asks.session("embedded")
    assert session.served is not None
    trained_anew = replace(session.served, facts={**session.served.facts, "identity": "llama.cpp:of-this-morning"})
    with pytest.raises(DoesNotFit, match="generator"):
        replace(session, served=trained_anew).generator(asks.prepared("embedded"))


def test_a_session_that_lacks_a_model_of_the_run_says_which(asks: Asks) -> None:
    with pytest.raises(DoesNotFit, match="its analyzer differs"):
        WarmHost(LoadedModels(), asks.prepared("A").llm, None).generator(asks.prepared("A"))


def test_the_stronger_generator_is_looked_for_at_each_run(asks: Asks) -> None:
    session = asks.session("embedded, stronger A")
    asks.servers["A"].models = ["renamed"]
    with pytest.raises(EndpointError, match=f"no model '{OTHER}'"):
        asks.run(session, asks.prepared("embedded, stronger A"))
    assert not any(asks.asked.values())


def test_after_up_a_run_whose_config_names_an_endpoint_asks_that_and_nobody_else(asks: Asks) -> None:
    """As commands, with the embedded generator itself."""
    plain = {"analyzer": {"kind": "rules"}, "reranker": {"model": tiny_cross_encoder(), "answers": "never"}}
    server = asks.servers["A"]
    there = {"base_url": server.base_url, "model": MODEL, "window": 16_000}
    files = {"own.yaml": plain, "ep.yaml": {**plain, "llm": there}}
    for name, config in files.items():
        (asks.folder / name).write_text(yaml.safe_dump(config))
    (asks.folder / "q.jsonl").write_text(json.dumps(QUESTION))
    place = tempfile.mkdtemp(prefix="ok")  # of a short name, as sockets have

    def okralong(command: str, *arguments: str) -> str:
        environment = os.environ | {"XDG_RUNTIME_DIR": place, "OPENAI_API_KEY": "sk-of-the-test"}
        environment.pop("RAY_ADDRESS", None)
        full = [sys.executable, "-m", "okralong.jobs.cli", command, str(asks.archive), *arguments]
        done = subprocess.run(
            full, cwd=asks.folder, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done
        return " ".join((done.stdout + done.stderr).split())

    okralong("up", "--config", "own.yaml")
    try:
        told = {
            name: okralong("answer", "--questions", "q.jsonl", "--config", f"{name}.yaml", "--run", name)
            for name in ("ep", "own")
        }
    finally:
        okralong("down")
        shutil.rmtree(place)
    assert [one.authorization for one in server.received] == ["Bearer sk-of-the-test"], "one question, one call"
    assert not asks.servers["B"].received
    assert "is not used" not in told["ep"] + told["own"]
    assert f"{MODEL} at {server.base_url}" in told["ep"]
    assert "replied: A-2026 (1)" in told["ep"]
    (there_row,) = table(Folder.of(asks.folder / "ep"), "answers")
    (own_row,) = table(Folder.of(asks.folder / "own"), "answers")
    assert there_row["replied_by"] == "A-2026"
    assert there_row["cost_usd"] > 0
    assert own_row["replied_by"].startswith("SmolLM2-135M-Instruct")
    (exported,) = flat_answers(Folder.of(asks.folder / "ep")).to_pylist()
    assert (exported["model"], exported["replied_by"]) == (MODEL, "A-2026")
