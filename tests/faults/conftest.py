"""Questions over the sample that the fault suite asks, and an endpoint with a latency."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.samples.questions import generate, write_sample
from tests.fakes.endpoint.process import EndpointProcess
from tests.faults.night import MODEL, Night
from tests.faults.processes import kill, marked

SCENARIO: dict[str, Any] = {"models": {MODEL: {}}, "latency": {"median_s": 0.25, "sigma": 0.6}}
SLOW: dict[str, float] = {"median_s": 8.0, "sigma": 0.0}
"""The latency of what is asked after a signal, so that a run which hears of it late does not end by itself."""
QUESTIONS = 40
SOAKED = 300
FEW = 12
"""Questions of a run on Ray, of one in `make soak`, and of one in its own process."""


@pytest.fixture(scope="session")
def fault_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``few.jsonl`` and ``many.jsonl``, questions of all types over the reports of ``plain_archive``."""
    folder = tmp_path_factory.mktemp("fault-sample")
    write_sample(generate(reports=3, questions=SOAKED, seed=11, words=2_000), folder)
    lines = (folder / "questions.jsonl").read_text().splitlines()
    (folder / "many.jsonl").write_text("\n".join(lines))
    (folder / "few.jsonl").write_text("\n".join(lines[:QUESTIONS]))
    return folder


@pytest.fixture
def priced_endpoint(endpoint_process: EndpointProcess) -> EndpointProcess:
    """An endpoint that takes a quarter of a second for a reply."""
    endpoint_process.reset(SCENARIO)
    return endpoint_process


@pytest.fixture
def night(plain_archive: Path, fault_sample: Path, tmp_path: Path, priced_endpoint: EndpointProcess) -> Iterator[Night]:
    """The command over the few questions; what a test that failed has left of it is killed."""
    made = Night(tmp_path, plain_archive, fault_sample / "few.jsonl", priced_endpoint)
    made.configure()
    yield made
    for process in marked(made.mark):
        kill(process)


@pytest.fixture
def small(night: Night, tmp_path: Path) -> Night:
    """A run that is small enough for one process."""
    lines = night.questions.read_text().splitlines()[:FEW]
    night.questions = tmp_path / "small.jsonl"
    night.questions.write_text("\n".join(lines))
    night.configure(planners=None)
    return night


@pytest.fixture
def long_night(night: Night, fault_sample: Path) -> Night:
    """The command over the many, at an endpoint that errs now and then."""
    night.questions = fault_sample / "many.jsonl"
    kinds = ("server_error", "unavailable", "reset", "truncated_body", "malformed_json", "bad_gateway")
    night.endpoint.change({"faults": [{"kind": kind, "share": 0.005} for kind in kinds]})
    night.configure(llm_max_attempts=8)
    return night


@pytest.fixture
def chance(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> random.Random:
    """Chance with a seed: fixed, but in a soak, where it is drawn, printed, and taken from OKRALONG_SEED if set."""
    if request.node.get_closest_marker("soak") is None:
        return random.Random(7)
    seed = int(os.environ.get("OKRALONG_SEED") or random.SystemRandom().randrange(10**9))
    with capsys.disabled():
        print(f"\n{request.node.nodeid}: OKRALONG_SEED={seed}")
    return random.Random(seed)


def ids_of(questions: Path) -> set[str]:
    """The query_ids of a file of questions."""
    return {json.loads(line)["query_id"] for line in questions.read_text().splitlines()}
