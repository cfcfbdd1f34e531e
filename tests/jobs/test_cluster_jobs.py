"""A night on a cluster of ``ray start`` machines and an object store: index and answer, submitted over HTTP.

A machine is lost during each job. The store errs now and then. What comes out is what one machine with a disk made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs.submit import job_server
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.schemas import CHUNKS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.chunking import cut_name
from okralong.pipelines.indexing.ingest import chunks_folder
from okralong.pipelines.run.rows import table
from tests.conftest import CHECKOUT, NODE_KEY
from tests.fakes.object_store import BUCKET, SECRET_KEY, Fault, ObjectStore
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.ray_machines import RayMachines
from tests.fakes.tiny_cross_encoder import tiny_cross_encoder
from tests.jobs.conftest import PAPER, always, quoting, splits

pytestmark = pytest.mark.slow

MODEL = "gpt-4o-2024-08-06"
ARCHIVE, RUN = f"s3://{BUCKET}/archive", f"s3://{BUCKET}/runs/tonight"
SIZES = [150, 256, 400]
SAME = ("query_id", "status", "answer", "citations", "plan", "strategy", "calls")
"""Columns of an answer that must not depend on where it was made."""
LABEL = "okralong.io/group"
END_S = 900.0


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """An object store that fails every 40th read and every 25th write; this process may look into it."""
    with ObjectStore() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        made.faults = (Fault("error", "GET", 40), Fault("error", "PUT", 25))
        yield made


@pytest.fixture
def machines(ray_token: Path, store: ObjectStore) -> Iterator[RayMachines]:
    """A head for planners, and two machines for models, whose environment has the keys."""
    with RayMachines(ray_token, {**store.environment, "OPENAI_API_KEY": NODE_KEY}) as made:
        made.start_head(f"{LABEL}=cpu", cpus=2)
        for name in ("first", "second"):
            made.start_worker(name, f"{LABEL}=gpu", cpus=2)
        yield made


@pytest.fixture
def endpoint() -> Iterator[FakeOpenAI]:
    """The endpoint of ``run_rows``, which takes its time."""
    split = "What is the first company's revenue?\nWhat is the second company's revenue?"
    rules: list[Any] = [(splits, split), (always, quoting)]
    with FakeOpenAI(rules=rules, models=[MODEL], delay_s=0.3) as server:
        yield server


class Submitter:
    """``okralong submit`` as a person runs it on another machine, who has the cluster's token and no key."""

    def __init__(self, machines: RayMachines, folder: Path) -> None:
        self._machines, self._folder = machines, folder
        (folder / "small.yaml").write_text(
            yaml.safe_dump(
                {
                    "granularities": SIZES,
                    "placement": {"readers": {"labels": {LABEL: "cpu"}}, "embedders": {"labels": {LABEL: "gpu"}}},
                }
            )
        )

    def start(self, name: str, **job: Any) -> subprocess.Popen[str]:
        (self._folder / f"{name}.yaml").write_text(yaml.safe_dump({"name": name, "job": job}))
        words = ["submit", str(self._folder / f"{name}.yaml"), "--address", self._machines.address]
        ours = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "AWS_"))}
        return subprocess.Popen(
            [sys.executable, "-m", "okralong.jobs.cli", *words],
            env={
                **ours,
                **self._machines.token,
                "PYTHONPATH": str(CHECKOUT),
                "OPENAI_API_KEY": "sk-of-the-submitter-01",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def wait(job: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + END_S
    while not reached():
        assert job.poll() is None, job.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def end(job: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = job.communicate(timeout=END_S)
    return job.returncode, said


def answer_config(endpoint: FakeOpenAI) -> dict[str, Any]:
    config = yaml.safe_load(shipped_config("answer.yaml"))
    config["llm"] |= {"base_url": endpoint.base_url, "model": MODEL, "tokenizer": "o200k_base", "window": 128_000}
    places = {part: {"labels": {LABEL: "cpu"}} for part in ("planners", "shards", "ledger")}
    places |= {part: {"labels": {LABEL: "gpu"}} for part in ("embedder", "analyzer")}
    config["reranker"] = {"model": tiny_cross_encoder()}
    return {**config, "policy": PAPER, "concurrency": 3, "tags": {"team": "tests"}, "placement": places}


@pytest.mark.soak  # tests/faults/test_node_lost.py loses a machine, tests/jobs/test_submit.py submits over HTTP
def test_a_night_over_http_with_a_machine_lost_in_each_job(
    machines: RayMachines,
    store: ObjectStore,
    endpoint: FakeOpenAI,
    sample_folder: Path,
    sample_archive: Path,
    run_rows: dict[str, Any],
    tmp_path: Path,
) -> None:
    submitter = Submitter(machines, tmp_path)
    reports = Folder.of(f"s3://{BUCKET}/reports")
    for file in sorted((sample_folder / "reports").iterdir()):
        reports.write_bytes(file.name, file.read_bytes())
    (tmp_path / "questions.jsonl").write_bytes((sample_folder / "questions.jsonl").read_bytes())
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(answer_config(endpoint)))
    asked: dict[str, Any] = {"archive": ARCHIVE, "questions": "questions.jsonl", "run": RUN, "config": "mine.yaml"}

    index = submitter.start(
        "index", kind="index", archive=ARCHIVE, sources=[f"s3://{BUCKET}/reports"], config="small.yaml"
    )
    # Beside it one without an archive: the job's own exit code and words come back.
    early = submitter.start("early", kind="answer", **asked | {"archive": f"s3://{BUCKET}/none"})
    embedder = ("MapWorker", "_MapWorker")
    wait(index, lambda: any(machines.held_by(name, *embedder) for name in ("first", "second")))
    assert not machines.held_by("head", *embedder), "embedders belong on GPU machines"
    lost = next(name for name in ("first", "second") if machines.held_by(name, *embedder))
    machines.lose(lost)
    code, said = end(early)
    assert code == 2, said
    assert "there is no archive" in said
    code, said = end(index)
    assert code == 0, said
    for size in SIZES:
        folders = [chunks_folder(Folder.of(place), size, cut_name()) for place in (sample_archive, ARCHIVE)]
        here, there = (folder.read_tables(CHUNKS).sort_by("chunk_id") for folder in folders)
        assert there.equals(here)
        assert there.num_rows > 0
    assert Archive.open(ARCHIVE).doc_ids() == Archive.open(sample_archive).doc_ids()

    machines.start_worker("third", f"{LABEL}=gpu", cpus=2)
    answer = submitter.start("answer", kind="answer", **asked)
    wait(answer, lambda: len(endpoint.received) >= 4)
    alive = [name for name in ("first", "second", "third") if name != lost]
    models = "ServeReplica:okralong-embedder", "ServeReplica:okralong-analyzer"
    assert machines.held_by("head", "Planner", "GatewayActor"), "planners belong on CPU machines"
    assert not machines.held_by("head", *models), "models belong on GPU machines"
    machines.lose(max(alive, key=lambda name: len(machines.held_by(name, *models))))
    code, said = end(answer)
    assert code == run_rows["exit_code"], said
    rows = {row["query_id"]: row for row in table(Folder.of(RUN), "answers")}
    for row in run_rows["answers"]:
        assert {key: rows[row["query_id"]][key] for key in SAME} == {key: row[key] for key in SAME}
    assert len(rows) == len(run_rows["answers"])
    assert Folder.of(RUN).read_manifest() is not None
    assert not Folder.of(RUN).exists("lock.json")
    assert {one.authorization for one in endpoint.received} == {f"Bearer {NODE_KEY}"}, "the key of the nodes"
    assert store.met["error"] >= 5

    shown = _details(machines)
    assert len({job["submission_id"] for job in shown}) == 3
    for secret in (NODE_KEY, SECRET_KEY, "sk-of-the-submitter-01", machines.environment["AWS_ACCESS_KEY_ID"]):
        assert secret not in json.dumps(shown, default=str)


def _details(machines: RayMachines) -> list[dict[str, Any]]:
    """All that Ray tells of the jobs, in their details and their logs."""
    client = job_server(machines.address)
    jobs = [job for job in client.list_jobs() if job.submission_id]
    return [{**job.model_dump(), "log": client.get_job_logs(job.submission_id)} for job in jobs]
