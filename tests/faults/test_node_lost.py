"""A worker node of a cluster is lost with the unfinished work that it holds: the run goes on at the others."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conftest import CHECKOUT
from tests.fakes.ray_machines import SOON_LOST
from tests.faults.checks import check, snapshot
from tests.faults.conftest import QUESTIONS, ids_of
from tests.faults.night import IN_FLIGHT, Night
from tests.faults.processes import MARK, PARTS, Process, kill, marked

NODES: Final = 3
OF_A_RUN: Final = ("planner", "gateway", "shard")
"""Parts that belong to one run and end with it; limiter and Serve's controller stay, since others may use them."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, ray_token: Path, night: Night) -> Iterator[Any]:
    """A head and worker nodes on this machine, whose processes have the night's mark."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    for name, value in {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(ray_token),
        "PYTHONPATH": str(CHECKOUT),
        "OPENAI_API_KEY": "sk-of-the-fault-suite-01",
        MARK: night.mark,
        **SOON_LOST,
    }.items():
        monkeypatch.setenv(name, value)
    sizes = {"num_cpus": 2, "object_store_memory": 100 * 1024 * 1024}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**sizes, "include_dashboard": False})
    try:
        for _ in range(NODES - 1):
            made.add_node(**sizes)
        night.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(ray_token)}
        night.arguments = ("--address", made.address)
        yield made
    finally:
        made.shutdown()


def raylet_of(node: Any) -> int:
    """The process id of a node's raylet."""
    return int(node.all_processes["raylet"][0].process.pid)


def held_by(night: Night, node: Any) -> list[Process]:
    """The run's own actors on a node."""
    titles = tuple(PARTS[part] for part in OF_A_RUN)
    return [one for one in marked(night.mark) if one.parent == raylet_of(node) and one.title.startswith(titles)]


def test_a_node_with_unfinished_work_is_lost(night: Night, cluster: Any, chance: random.Random) -> None:
    night.configure(planners=4)
    moment = chance.randrange(5, QUESTIONS // 2)
    night.hold_after(moment)
    driver = night.start()
    night.wait_for_requests(driver, moment)
    workers = list(cluster.worker_nodes)
    held = {node: held_by(night, node) for node in workers}
    lost = max(workers, key=lambda node: sum(one.title.startswith(PARTS["planner"]) for one in held[node]))
    assert held[lost], "no worker node holds a part of the run"
    # A machine that is gone takes everything with it at once.
    for process in [one for one in marked(night.mark) if raylet_of(lost) in (one.pid, one.parent)]:
        kill(process)
    night.let_go()
    before = snapshot(night)
    ended = night.end(driver)
    assert ended.code in (0, 6), ended
    if ended.code:  # it asks to be run again
        again = night.finish()
        assert again.code == 0, again
    check(night, ids_of(night.questions), [before], IN_FLIGHT)
    deadline = time.monotonic() + 60
    titles = tuple(PARTS[part] for part in (*OF_A_RUN, "embedder"))
    while (left := [one for one in marked(night.mark) if one.title.startswith(titles)]) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not left, f"actors outlive their run: {left}"
