"""A planner whose process dies comes back, finds ledger, limiter, shards and models by name, and goes on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.util import list_named_actors

from okralong.actors.cluster import NAMESPACE
from okralong.jobs.run_folder import table
from okralong.pipelines.core.storage import Folder
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

KILL_AFTER = 4
"""Requests that have arrived when the planner is killed."""


def _kill_the_planner(reader: FakeOpenAI, killed: list[str]) -> None:
    deadline = time.monotonic() + 120
    while len(reader.received) < KILL_AFTER and time.monotonic() < deadline:
        time.sleep(0.02)
    for one in list_named_actors(all_namespaces=True):
        if one["namespace"] == NAMESPACE and one["name"].startswith("okralong-planner-"):
            ray.kill(ray.get_actor(one["name"], NAMESPACE), no_restart=False)
            killed.append(one["name"])


@pytest.mark.soak  # tests/faults/test_kills.py kills a planner, and every other part
def test_a_planner_that_dies_is_started_again_and_pays_for_nothing_twice(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    reader.delay_s = 0.2
    killed: list[str] = []
    killer = threading.Thread(target=_kill_the_planner, args=(reader, killed))
    killer.start()
    given: dict[str, Any] = {"planners": 1, "concurrency": 3, **endpoint(reader)}
    result = answer(sample_archive, sample_folder / "questions.jsonl", tmp_path, **given)
    killer.join()
    assert len(killed) == 1
    assert result.statuses == {"answered": 18}
    ledger = table(Folder.of(tmp_path), "ledger")
    paid = Counter((row["query_id"], row["path"]) for row in ledger if row["status"] == "ok")
    assert set(paid.values()) == {1}
    lost = sum(row["status"] == "unknown" for row in ledger)
    assert 0 < lost <= 3, "the planner died with calls in flight"
    assert len(reader.received) <= paid.total() + lost
