"""A training as a Ray task: it takes a GPU where the cluster has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ray


def run_on_cluster(work: Callable[[], None]) -> None:
    """Run ``work`` as one task of the connected Ray and wait for it. What it raises is raised here."""
    resources: Any = ray.cluster_resources  # untyped in Ray
    has_gpu = resources().get("GPU", 0) >= 1
    # Killed workers are not started again by Ray: the same command goes on from the last checkpoint.
    task = ray.remote(num_cpus=1, num_gpus=1 if has_gpu else 0, max_retries=0)(_call)
    ray.get(task.remote(work))


def _call(work: Callable[[], None]) -> None:
    work()
