"""The cluster: connecting to Ray, what its metrics tell, and applications on Ray Serve.

A connection goes to a cluster when an address is given (or set in RAY_ADDRESS), else a private one on this machine.

A private cluster is reached by its user alone: its ports listen on the loopback address, and its session folder
(sockets, logs, spilled objects) lies in a folder that only the user may enter, which goes with the process.

A local ``ray.init`` turns token authentication on and writes its token into the home folder, which a later
``ray start --head`` would then demand. So a private cluster gets a token file of its own, in the same folder. It is one
for all clusters of the process: Ray reads a token once, and keeps it. (RAY_AUTH_MODE is left alone: Ray reads it when
it is imported, and sets it itself here.)
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import ipaddress
import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import ray
from ray._private import ray_constants, utils, worker
from ray.exceptions import RayActorError, RayTaskError
from ray.util.metrics import Counter, Gauge, Histogram
from ray.util.queue import Queue
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from okralong.pipelines.core.config import Place, Settings, unplaceable_parts
from okralong.pipelines.core.stopping import adopt_orphans
from okralong.pipelines.core.types import GO_ON, BrokenError, ConfigError

if TYPE_CHECKING:
    from ray import serve

    from okralong.pipelines.llm.records import Outcome

T = TypeVar("T")

NAMESPACE = "okralong"
LOGICAL_CPUS = 4
"""Least CPUs declared to a private cluster: actors that wait (planners, gateway) hold none, the rest share."""


def named_actor(name: str) -> Any:
    """The handle of an actor of okralong's namespace. Raises ValueError when there is none of that name."""
    return ray.get_actor(name, NAMESPACE)


_ours: list[bool] = []
"""Whether each connection of this process that is open is to a cluster of its own."""


def is_private() -> bool:
    """Whether the connected cluster was started by this process for itself, so that no other job is on it."""
    return bool(_ours) and _ours[-1]


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A Ray connection for the time of the block; a private cluster ends with it, a shared one is left running.

    A connection that is already there is used and left.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    _ours.append(address is None)
    try:
        _connect(address)
        yield
    finally:
        _ours.pop()
        with _sigterm_kept():
            ray.shutdown()


def _connect(address: str | None) -> None:
    if address is None:
        _private_environment()
        adopt_orphans()
        with _sigterm_kept(), _on_loopback():
            ray.init(
                address="local",
                num_cpus=max(LOGICAL_CPUS, os.cpu_count() or 1),
                namespace=NAMESPACE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
                _temp_dir=str(_private_folder() / "ray"),
            )
    else:
        with _sigterm_kept():
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep the process's own handler of SIGTERM, where it has one, while Ray starts or ends within the block.

    The handler of Ray's Python part ends the process with exit code 15. That of its C++ part writes a stack trace and
    aborts the process 3 s later; when it goes, with the connection, it leaves the default action.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    patched: Any = worker
    taking, disconnect = utils.set_sigterm_handler, patched.disconnect

    def disconnect_and_keep(*given: Any, **options: Any) -> None:
        disconnect(*given, **options)
        signal.signal(signal.SIGTERM, handler)  # Ray's processes are ended after this, which takes seconds

    utils.set_sigterm_handler = lambda _: None
    patched.disconnect = disconnect_and_keep
    try:
        yield
    finally:
        utils.set_sigterm_handler, patched.disconnect = taking, disconnect
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that starts within the block live at the loopback address, on which all of its ports listen then.

    Ray does this on macOS and Windows only (``RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER``), and reads its own constant at its
    import; ``_node_ip_address="127.0.0.1"`` is turned back into an address that others can reach.
    """
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def messages_to(log: TextIO) -> Iterator[None]:
    """Write what Ray tells its drivers (tasks that are tried again, nodes that are missing) to ``log``.

    Ray knows no way to say where these go: it prints them, beside whatever is on the terminal.
    """
    printing = worker.print_to_stdstream

    def write(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
        with contextlib.suppress(ValueError):  # the log is closed: it comes from a cluster that has ended
            log.writelines(f"({data.get('pid')}) {line}\n" for line in data.get("lines", ()))

    worker.print_to_stdstream = write
    try:
        yield
    finally:
        worker.print_to_stdstream = printing


def placement_notes(placement: Settings) -> list[str]:
    """A message for each part of ``placement`` that no node of the connected cluster can hold now; it waits until an
    autoscaler adds one."""
    listed: Any = ray.nodes  # untyped in Ray
    nodes = [(node.get("Labels") or {}, node.get("Resources") or {}) for node in listed() if node["Alive"]]
    return [
        f"placement.{part}: no node has {', '.join(f'{k}={v}' for k, v in (place.labels | place.resources).items())} "
        "now; this waits until one joins the cluster."
        for part, place in unplaceable_parts(placement, nodes)
    ]


def beside_this_process(place: Place) -> Place:
    """``place``, or this very node where the cluster has several machines: for what talks to a server that listens on
    this one alone."""
    listed: Any = ray.nodes  # both are untyped in Ray
    here: Any = ray.get_runtime_context
    if len({node["NodeManagerAddress"] for node in listed() if node["Alive"]}) < 2:
        return place
    return Place(labels={"ray.io/node-id": here().get_node_id()})


def _private_environment() -> None:
    """Set what a private cluster needs, for this process and those that it starts."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's workers run at nice 15 unless told otherwise, and starve beside whatever else the machine does.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_AUTH_TOKEN" not in os.environ:
        token = _private_folder() / "token"
        token.touch(mode=0o600)
        token.write_text(os.urandom(32).hex())
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)


LONGEST_BASE: Final = 16
"""Characters at most of the path in which the folder below is made: those of Ray's sockets have 86 more, and a socket's
path may have 103 (macOS)."""


@cache
def _private_folder() -> Path:
    """A folder of this process that only its user may enter; it goes at the end of the process."""
    base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    folder = Path(tempfile.mkdtemp(prefix="okra-ray-", dir=base if len(base) <= LONGEST_BASE else "/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper ends of the bins of histograms; ours."""


class LedgerMetrics:
    """Of a run's ledger: questions with an end, attempts at calls, tokens, dollars, waits."""

    def __init__(self) -> None:
        self._questions = Counter("okralong_questions", "Questions that have their end.", ("status",))
        self._calls = Counter(
            "okralong_llm_calls", "Attempts at calls, by how they ended.", ("status", "model", "mode")
        )
        self._tokens = Counter("okralong_llm_tokens", "Tokens that were billed.", ("kind", "model"))
        self._dollars = Counter("okralong_llm_usd", "US dollars that were billed.", ("model",))
        self._queue = Histogram("okralong_llm_queue_seconds", "Waits for a permit to send.", list(SECONDS), ("model",))
        self._latency = Histogram("okralong_llm_latency_seconds", "Waits for replies.", list(SECONDS), ("model",))

    def settled(self, outcome: Outcome) -> None:
        """An attempt has its end."""
        model = {"model": outcome.call.model}
        self._calls.inc(1, {**model, "status": outcome.status, "mode": outcome.call.mode})
        if outcome.status != "ok":
            return
        usage = outcome.usage
        kinds = {
            "prompt": usage.prompt_tokens,
            "cached": usage.cached_tokens,
            "completion": usage.completion_tokens,
            "reasoning": usage.reasoning_tokens,
        }
        for kind, tokens in kinds.items():
            if tokens:
                self._tokens.inc(tokens, {**model, "kind": kind})
        if outcome.cost_usd:
            self._dollars.inc(outcome.cost_usd, model)
        self._queue.observe(outcome.call.queue_s, model)
        self._latency.observe(outcome.latency_s, model)

    def finished(self, status: str) -> None:
        """A question has its end."""
        self._questions.inc(1, {"status": status})


class LimiterMetrics:
    """Of the limiter called ``limiter``: calls in flight, how many may be, callers that wait, a pause after a 429."""

    def __init__(self, limiter: str) -> None:
        self._tags = {"limiter": limiter}
        self._gauges: dict[str, Any] = {
            "in_flight": Gauge("okralong_limiter_in_flight", "Calls in flight.", ("limiter",)),
            "allowed": Gauge("okralong_limiter_allowed", "Calls that may be in flight now.", ("limiter",)),
            "waiting": Gauge("okralong_limiter_waiting", "Calls that wait for leave.", ("limiter",)),
            "paused": Gauge("okralong_limiter_paused_seconds", "Seconds of pause left after a 429.", ("limiter",)),
        }

    def show(self, **values: float) -> None:
        """The limiter's state now, by the names above."""
        for name, value in values.items():
            self._gauges[name].set(value, self._tags)


class IndexMetrics:
    """Of an index job: chunks that were cut, texts that got a vector, and the seconds that these took."""

    def __init__(self) -> None:
        self._chunks = Counter("okralong_chunks", "Chunks cut, of all sizes.")
        self._texts = Counter("okralong_texts_embedded", "Distinct texts of chunks that got a vector.")
        self._seconds = Counter("okralong_embed_seconds", "Seconds of embedding.")

    def chunked(self, chunks: int) -> None:
        """Documents were cut into chunks."""
        if chunks:
            self._chunks.inc(chunks)

    def embedded(self, texts: int, seconds: float) -> None:
        """A batch of texts has its vectors."""
        if texts:
            self._texts.inc(texts)
            self._seconds.inc(max(seconds, 1e-6))


@cache
def index_metrics() -> IndexMetrics:
    """Those of this process: Ray wants each metric once a process."""
    return IndexMetrics()


def query_batch_sizes() -> Histogram:
    """The sizes of the batches in which questions are embedded."""
    return Histogram("okralong_query_batch_size", "Questions embedded in one pass.", list(SIZES))


REPLICA_SHUTDOWN_POLL_S: Final = 0.1
"""How often a replica that is to end looks whether its last request is done, in seconds; ours. Ray's 2 s would be
waited for at the end of every run."""
REPLICA_SHUTDOWN_GRACE_S: Final = 1.0
"""How long a replica that is to end works on calls that it holds, in seconds; ours. Whoever asked has ended, or is
stopped, and they cost nothing: Ray's 20 s would be waited for at Ctrl-C."""


def run_apps(applications: Mapping[str, serve.Application]) -> list[Any]:
    """Run applications under their names, all at once: most of a replica's start is imports. Their handles, in order,
    once the replicas are ready.

    Raises ConfigError when a replica cannot start.
    """
    # Imported here, as below: Ray Serve takes a second and 60 MB, and index shards, of which there are many, need none.
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its import has set another
    serve.start(proxy_location="Disabled")
    try:
        return list(serve.run_many([serve.RunTarget(app, name, None) for name, app in applications.items()]))
    except RuntimeError as error:
        raise ConfigError(
            f"{' or '.join(applications)} could not be started on Ray Serve: {error}. Check the models, the adapter "
            "and the number of GPUs that the config names."
        ) from error


def keep_replica_private() -> None:
    """Let the gRPC server that Ray Serve starts in this replica, after its constructor, listen where the node does.

    It has the token like all of Ray's servers, but Ray 2.60 has no option that takes it from all interfaces.
    """
    here: Any = ray.util.get_node_ip_address
    if not ipaddress.ip_address(here()).is_loopback:
        return
    serving: Any = importlib.import_module("ray.serve._private.replica")
    opening = serving.add_port_to_grpc_server
    serving.add_port_to_grpc_server = lambda server, _: opening(server, f"{here()}:0")


def remove_apps(names: Sequence[str]) -> None:
    """End applications and free what their replicas held; one that is not running is fine."""
    from ray import serve

    with ThreadPoolExecutor(len(names)) as pool:  # each waits until its own is gone
        list(pool.map(serve.delete, names))


REPLICA_RETRY_S: Final = 180.0
"""How long a replica may take to come back, loading of its model included, before the run stops. Ours."""
REPLICA_PAUSE_S: Final = 0.5
"""Between two tries. Ours."""


async def retry_replica(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` brings from a replica on Ray Serve, asked again while that is away: one that dies takes its calls
    with it, and comes back. For calls that cost nothing and may be made twice.

    Raises the last error when the replica is not back in ``REPLICA_RETRY_S``: RayActorError, or BrokenError.
    """
    from ray.serve.exceptions import RayServeException

    retrying = AsyncRetrying(
        retry=retry_if_exception_type((RayActorError, RayServeException)),  # it died, or there is none
        stop=stop_after_delay(REPLICA_RETRY_S),
        wait=wait_fixed(REPLICA_PAUSE_S),
        reraise=True,
    )

    async def asked() -> T:  # tenacity awaits what a coroutine function makes, and not what a lambda returns
        return await plain_errors(ask())

    try:
        return await retrying(asked)
    except RayServeException as error:
        said = str(error).strip()[:500].rstrip(".")
        raise BrokenError(f"{type(error).__name__}: {said}. {GO_ON}") from error


async def plain_errors(reference: Awaitable[T]) -> T:
    """Await a Ray call; an error raised inside is raised here as it was, without Ray's wrapping and traceback text."""
    try:
        return await reference
    except RayTaskError as error:
        raise error.cause from None


LINES_EVERY_S: Final = 0.5
"""How often the driver looks for lines of a task, in seconds; ours."""


def run_on_cluster(work: Callable[..., None], say: Callable[[str], None]) -> None:
    """Run ``work(say=...)`` as one task of the connected Ray, on a GPU where the cluster has one, and wait for it.

    What it says on the way reaches ``say`` here; what it raises is raised here.
    """
    resources: Any = ray.cluster_resources  # untyped in Ray
    has_gpu = resources().get("GPU", 0) >= 1
    # Killed workers are not started again by Ray: the same command goes on from the last checkpoint.
    task = ray.remote(num_cpus=1, num_gpus=1 if has_gpu else 0, max_retries=0)(_with_lines)
    lines: Any = Queue(actor_options={"num_cpus": 0})
    try:
        running = task.remote(work, lines)
        done = False
        while not done:
            done = bool(ray.wait([running], timeout=LINES_EVERY_S)[0])
            for line in lines.get_nowait_batch(lines.qsize()):
                say(str(line))
        ray.get(running)
    finally:
        lines.shutdown(force=True)


def _with_lines(work: Callable[..., None], lines: Any) -> None:
    work(say=lines.put)
