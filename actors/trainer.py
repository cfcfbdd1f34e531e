"""A training as a Ray task: it takes a GPU where the cluster has one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ray
from ray.util.queue import Queue

EVERY_S: Final = 0.5
"""How often the driver looks for lines to tell; ours."""


def run_on_cluster(work: Callable[..., None], say: Callable[[str], None]) -> None:
    """Run ``work(say=...)`` as one task of the connected Ray and wait for it. What it raises is raised here.

    What it says on the way reaches ``say`` here.
    """
    resources: Any = ray.cluster_resources  # untyped in Ray
    has_gpu = resources().get("GPU", 0) >= 1
    # Killed workers are not started again by Ray: the same command goes on from the last checkpoint.
    task = ray.remote(num_cpus=1, num_gpus=1 if has_gpu else 0, max_retries=0)(_call)
    lines: Any = Queue(actor_options={"num_cpus": 0})
    try:
        running = task.remote(work, lines)
        done = False
        while not done:
            done = bool(ray.wait([running], timeout=EVERY_S)[0])
            for line in lines.get_nowait_batch(lines.qsize()):
                say(str(line))
        ray.get(running)
    finally:
        lines.shutdown(force=True)


def _call(work: Callable[..., None], lines: Any) -> None:
    work(say=lines.put)
