"""Measure newer parts of Ray against what okralong does without them, to decide which of them to use.

    python -m benchmarks.ray_parts pool|serve|place|hook        # one part each, on a private Ray

Models are stood in for by sleeps of a model's length, so that what is measured is how Ray deals out the work, and other
load on the machine hardly matters. Prints rows of a Markdown table; benchmarks/results/ray_parts.md has them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import ray
import ray.data
from ray import serve
from ray.serve.config import AutoscalingConfig, RequestRouterConfig

from okralong.actors.models import HELD

LOAD_S: Final = 3.0
"""Seconds that a stand-in takes to load."""
FILE_S: Final = 0.5
"""Seconds that it works on a vector file, and on writing it a fifth of that."""
FILES: Final = 16
ROUNDS: Final = 3
BATCH: Final = 32
PASS_S: Final = 0.3
"""Seconds of a pass over a batch of queries, whatever its size."""
CALLERS: Final = 256
CALLS: Final = 1024
MOST_S: Final = 40.0


@contextmanager
def private_ray(**options: Any) -> Iterator[None]:
    """Start Ray on this machine only."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="rp-", dir="/tmp") as folder:
        given = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR, **options}
        ray.init(address="local", num_cpus=4, _temp_dir=folder, **given)
        logging.getLogger("ray").setLevel(logging.ERROR)
        try:
            yield
        finally:
            ray.shutdown()


class SleepingEmbedder:
    """An encoder on an accelerator of its own."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        time.sleep(LOAD_S)

    def __call__(self, batch: Any) -> Any:
        """Embed a batch and write it."""
        with self._turn:  # an accelerator works on one pass at a time
            time.sleep(FILE_S)
        time.sleep(FILE_S / 5)
        return batch


def pool() -> None:
    """Compare pools of embedders; the accelerators are a resource that each takes one of."""
    strategies: dict[str, dict[str, Any]] = {
        "size=2 (in use)": {"size": 2},
        "min_size=1, max_size=2": {"min_size": 1, "max_size": 2},
        "size=2, max_tasks_in_flight_per_actor=8": {"size": 2, "max_tasks_in_flight_per_actor": 8},
        "size=2, two calls at a time in threads": {
            "size": 2,
            "max_concurrent_calls_per_actor": 2,
            "enable_true_multi_threading": True,
        },
    }
    for there in (2, 1):  # with one, the pool is larger than the cluster
        with private_ray(resources={"accelerator": there}):
            embedded({"size": 1})  # starts Ray's workers
            found: dict[str, list[float]] = {name: [] for name in strategies}
            for _ in range(ROUNDS):  # in turns, so that other load on the machine affects all alike
                for name, options in strategies.items():
                    found[name].append(embedded(options))
            least = LOAD_S + FILES * FILE_S * 1.2 / there
            for name, seconds in found.items():
                told = ", ".join(f"{each:.1f}" for each in seconds)
                print(f"| {there} | {name} | {told} | {statistics.median(seconds) / least:.2f} |", flush=True)


def embedded(options: Mapping[str, Any]) -> float:
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    started = time.perf_counter()
    rows = ray.data.from_items([{"number": each} for each in range(FILES)], override_num_blocks=FILES)
    done = rows.map_batches(
        SleepingEmbedder,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(**options),
        num_cpus=0.5,
        resources={"accelerator": 1},
    )
    assert sum(1 for _ in done.iter_rows()) == FILES
    return time.perf_counter() - started


class SleepingEncoder:
    """A query encoder that batches as okralong's replicas do."""

    @serve.batch(max_batch_size=BATCH, batch_wait_timeout_s=0.005)
    async def __call__(self, queries: list[int]) -> list[int]:
        """Embed a batch."""
        await asyncio.sleep(PASS_S)
        return queries


def replicas() -> None:
    """Compare limits of a replica, the router's back-off, and autoscaling, at 256 callers."""
    fast = RequestRouterConfig(initial_backoff_s=0.005, backoff_multiplier=1.5, max_backoff_s=0.02)
    scaled = AutoscalingConfig(min_replicas=1, max_replicas=2, target_ongoing_requests=BATCH, upscale_delay_s=1.0)
    ways: dict[str, dict[str, Any]] = {
        "max_ongoing_requests=HELD (in use)": {"max_ongoing_requests": HELD},
        "max_ongoing_requests=64": {"max_ongoing_requests": 64},
        "max_ongoing_requests=64, back-off 5 to 20 ms": {"max_ongoing_requests": 64, "request_router_config": fast},
        "HELD, two replicas": {"max_ongoing_requests": HELD, "num_replicas": 2},
        "HELD, autoscaled to two replicas": {"max_ongoing_requests": HELD, "autoscaling_config": scaled},
    }
    with private_ray():
        serve.start(proxy_location="Disabled")
        logging.getLogger("ray.serve").setLevel(logging.CRITICAL)
        for name, options in ways.items():
            deployment = serve.deployment(name="encoder", ray_actor_options={"num_cpus": 0}, **options)
            handle: Any = serve.run(deployment(SleepingEncoder).bind(), name="encoder", route_prefix=None)
            asyncio.run(called(handle, CALLERS // 8))
            done, seconds, waits = asyncio.run(called(handle, CALLS))
            late = statistics.quantiles(waits, n=20)[18]
            print(f"| {name} | {done:,} of {CALLS:,} | {done / seconds:.1f} | {late:.1f} |", flush=True)
            serve.delete("encoder")


async def called(handle: Any, calls: int) -> tuple[int, float, list[float]]:
    """Make calls for at most ``MOST_S`` seconds; return how many replied, the seconds, and each one's wait."""
    slots, waits = asyncio.Semaphore(CALLERS), list[float]()

    async def one(number: int) -> None:
        async with slots:
            started = time.perf_counter()
            await handle.remote(number)
            waits.append(time.perf_counter() - started)

    started = time.perf_counter()
    running = [asyncio.create_task(one(number)) for number in range(calls)]
    _, late = await asyncio.wait(running, timeout=MOST_S)
    seconds = time.perf_counter() - started
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    return len(waits), seconds, waits


def place() -> None:
    """Ask for spot nodes where there are none, with and without a fallback."""
    with private_ray(labels={"okralong.io/group": "cpu"}):
        task: Any = ray.remote(num_cpus=1)(lambda: 1)
        spot = {"okralong.io/group": "spot"}
        fallback = [{"label_selector": {"okralong.io/group": "cpu"}}]
        ways: dict[str, dict[str, Any]] = {
            "spot": {"label_selector": spot},
            "in(cpu,spot)": {"label_selector": {"okralong.io/group": "in(cpu,spot)"}},
            "spot, falling back to cpu": {"label_selector": spot, "fallback_strategy": fallback},
        }
        ray.get(task.remote())
        for name, options in ways.items():
            started = time.perf_counter()
            done, _ = ray.wait([task.options(**options).remote()], timeout=20)
            print(f"| {name} | {f'{time.perf_counter() - started:.2f} s' if done else 'waits'} |")


class Counter:
    """An actor that does nothing."""

    async def post(self, _: object) -> int:
        """Return at once."""
        return 1


def hook() -> None:
    """Time calls of an actor with and without Ray's tracing hook."""
    for name, options in (("without", {}), ("with", {"_tracing_startup_hook": "benchmarks.ray_parts:trace_nothing"})):
        with private_ray(**options):
            actor: Any = ray.remote(num_cpus=0)(Counter).remote()
            ray.get([actor.post.remote(0) for _ in range(500)])

            def call(actor: Any = actor) -> None:
                ray.get([actor.post.remote(0) for _ in range(2000)])

            best = min(timed(call) for _ in range(5))
            print(f"| {name} | {best / 2000 * 1e3:.3f} |")


def trace_nothing() -> None:
    """Set up OpenTelemetry as Ray's hook asks, with an exporter that drops everything."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nowhere(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nowhere()))
    trace.set_tracer_provider(provider)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


PARTS: Final[Mapping[str, Callable[[], None]]] = {"pool": pool, "serve": replicas, "place": place, "hook": hook}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=list(PARTS))
    PARTS[parser.parse_args().part]()


if __name__ == "__main__":
    main()
