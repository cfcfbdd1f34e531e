"""Connections to Ray, the metrics of its actors, and applications on Ray Serve.

If an address is given or RAY_ADDRESS is set, we connect to that cluster once it has answered a short call; otherwise
we start a private one on this machine. Only its user can reach a private cluster: its ports listen on the loopback
address, and its sockets, logs and spilled objects are in a folder that only the user may enter and that is removed with
the process.

A local ``ray.init`` turns on token authentication and writes its token into the home folder, where a later
``ray start --head`` would require it. So a private cluster gets its own token file, in the same private folder. All
clusters of a process share it, because Ray reads a token only once. (RAY_AUTH_MODE stays as it is: Ray reads it when
imported and sets it itself.)
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import ipaddress
import logging
import os
import re
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import grpc
import ray
from ray._private import grpc_utils, ray_constants, services, utils, worker
from ray.exceptions import AuthenticationError, RayActorError, RayError, RayTaskError
from ray.util.metrics import Counter, Gauge, Histogram
from ray.util.queue import Queue
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from okralong.pipelines.core.config import Place, Settings, unplaceable_parts
from okralong.pipelines.core.stopping import adopt_orphans
from okralong.pipelines.core.storage_errors import storage_failure
from okralong.pipelines.core.types import GO_ON, BrokenError, ConfigError

if TYPE_CHECKING:
    from ray import serve

    from okralong.pipelines.llm.records import Call, Outcome

T = TypeVar("T")

NAMESPACE = "okralong"
LOGICAL_CPUS = 4
"""Minimum number of CPUs declared to a private cluster. Actors that mostly wait (planners, gateway) hold none."""


def named_actor(name: str) -> Any:
    """Return the handle of an actor in okralong's namespace. Raises ValueError if it does not exist."""
    return ray.get_actor(name, NAMESPACE)


ADDRESS: Final = "RAY_ADDRESS"
ANSWER_S: Final = 10.0
"""Seconds in which a cluster must answer a first call. # project default"""
CLUSTER_ID: Final = "/ray.rpc.NodeInfoGcsService/GetClusterId"
"""A call of Ray's that changes nothing, and that only the head of a cluster answers."""

_ours: list[bool] = []
"""For each open connection of this process, whether its cluster is private."""


def is_private() -> bool:
    """Return whether this process started the connected cluster for itself, so that no other job uses it."""
    return bool(_ours) and _ours[-1]


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Stay connected to Ray while the block runs. A private cluster ends with the block, a shared one stays.

    An existing connection is used and kept.
    """
    if ray.is_initialized():
        yield
        return
    found = answering_cluster(address)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    _ours.append(found is None)
    try:
        _connect(found)
        yield
    finally:
        _ours.pop()
        with _sigterm_kept():
            ray.shutdown()


def cluster_address(address: str | None = None) -> str | None:
    """Return the cluster that ``address`` or else RAY_ADDRESS names, or None for a private one. Empty means unset."""
    named = (address or "").strip()
    if named in ("", "auto"):
        named = os.environ.get(ADDRESS, "").strip() or named
    return None if named in ("", "local") else named


def _connect(address: str | None) -> None:
    if address is None:
        _private_environment()
        adopt_orphans()
        folder = _private_folder()
        try:
            with _sigterm_kept(), _on_loopback():
                ray.init(
                    address="local",
                    num_cpus=max(LOGICAL_CPUS, os.cpu_count() or 1),
                    namespace=NAMESPACE,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=True,
                    _temp_dir=str(folder / "ray"),
                )
        except Exception as error:  # Ray raises a plain one if its processes are not up in time
            if storage_failure(error) is not None:
                raise
            said = " ".join(str(error).split()).rstrip(".")
            raise BrokenError(
                f"Ray did not start on this machine: {said}. Often the machine is overloaded, or short of memory or "
                "processes: wait, or free some, and run the same command again."
            ) from error
        return
    try:
        with _sigterm_kept():
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, RayError) as error:  # another version of Ray, a machine that is no node
        said = str(error).strip().rstrip(".")
        raise ConfigError(f"The Ray cluster at {address} cannot be used from here: {said}.") from error


def answering_cluster(address: str | None = None) -> str | None:
    """Return the HOST:PORT of the cluster to use once it answers, or None for a private one.

    ``ray.init`` waits for minutes, and its errors name no variable. Raises ConfigError.
    """
    named = cluster_address(address)
    if named is None:
        return None
    found, source = named, "--address" if named == (address or "").strip() else ADDRESS
    if named == "auto":
        try:
            found = services.canonicalize_bootstrap_address("auto") or ""
        except (OSError, ValueError) as error:
            raise _unusable(named, source, "no Ray cluster runs on this machine") from error
    if "://" in found:
        raise _unusable(named, source, "a URL is not the address of a cluster")
    if not re.fullmatch(r"(\[[\da-fA-F:.]+\]|[^\s:/\[\]]+):\d{1,5}", found):
        raise _unusable(named, source, "this is not HOST:PORT")
    channel: Any = grpc_utils.init_grpc_channel(found, [("grpc.enable_http_proxy", 0)])
    try:
        channel.unary_unary(CLUSTER_ID)(b"", timeout=ANSWER_S)
    except (grpc.RpcError, AuthenticationError) as error:
        code = error.code() if isinstance(error, grpc.RpcError) else grpc.StatusCode.UNAUTHENTICATED
        if code == grpc.StatusCode.UNAUTHENTICATED:
            raise ConfigError(
                f"{source} is {named!r}, and the cluster there requires its token. Set RAY_AUTH_MODE=token and "
                "RAY_AUTH_TOKEN_PATH as on its nodes."
            ) from error
        why = {
            grpc.StatusCode.UNIMPLEMENTED: f"what answers at {found} is not the head of a Ray cluster",
            grpc.StatusCode.DEADLINE_EXCEEDED: f"{found} has not answered for {ANSWER_S:g} s",
        }
        raise _unusable(named, source, why.get(code, f"no Ray cluster answers at {found}")) from error
    finally:
        channel.close()
    return found


def _unusable(address: str, source: str, why: str) -> ConfigError:
    return ConfigError(
        f"{source} is {address!r}, but {why}. Name the head of a running cluster as HOST:PORT (ray start --head prints "
        f"it; the port is 6379 by default), or {'unset' if source == ADDRESS else 'leave out'} {source} to use this "
        "machine. The dashboard's address, such as http://HEAD:8265, is for okralong submit."
    )


@contextlib.contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Keep the process's own SIGTERM handler, if it has one, while Ray starts or stops in the block.

    Ray's Python handler ends the process with exit code 15. Its C++ handler writes a stack trace and aborts the process
    3 s later; when the connection ends, it restores the default action.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    patched: Any = worker
    taking, disconnect = utils.set_sigterm_handler, patched.disconnect

    def disconnect_and_keep(*given: Any, **options: Any) -> None:
        disconnect(*given, **options)
        signal.signal(signal.SIGTERM, handler)  # ending Ray's processes, which follows, takes seconds

    utils.set_sigterm_handler = lambda _: None
    patched.disconnect = disconnect_and_keep
    try:
        yield
    finally:
        utils.set_sigterm_handler, patched.disconnect = taking, disconnect
        signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster that starts in the block listen on the loopback address only.

    Ray does this on macOS and Windows (``RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER``) and reads the constant at its import. It
    replaces ``_node_ip_address="127.0.0.1"`` with an address that others can reach.
    """
    before, ray_constants.ENABLE_RAY_CLUSTER = ray_constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def messages_to(log: TextIO) -> Iterator[None]:
    """Write Ray's messages to its drivers (retried tasks, missing nodes) to ``log``.

    Ray has no option for this; it prints them to the terminal.
    """
    printing = worker.print_to_stdstream

    def write(data: Mapping[str, Any], *_: Any, **__: Any) -> None:
        with contextlib.suppress(ValueError):  # the log is closed: the message comes from a cluster that has ended
            log.writelines(f"({data.get('pid')}) {line}\n" for line in data.get("lines", ()))

    worker.print_to_stdstream = write
    try:
        yield
    finally:
        worker.print_to_stdstream = printing


def placement_notes(placement: Settings) -> list[str]:
    """Return a message for each part of ``placement`` that no node of the connected cluster can hold now.

    Such a part waits until an autoscaler adds a node.
    """
    listed: Any = ray.nodes  # untyped in Ray
    nodes = [(node.get("Labels") or {}, node.get("Resources") or {}) for node in listed() if node["Alive"]]
    return [
        f"placement.{part}: no node has {', '.join(f'{k}={v}' for k, v in (place.labels | place.resources).items())} "
        "now; this waits until one joins the cluster."
        for part, place in unplaceable_parts(placement, nodes)
    ]


def beside_this_process(place: Place) -> Place:
    """Return ``place``, or this node if the cluster has several machines.

    For actors that use a server that listens only on this machine.
    """
    listed: Any = ray.nodes  # both are untyped in Ray
    here: Any = ray.get_runtime_context
    if len({node["NodeManagerAddress"] for node in listed() if node["Alive"]}) < 2:
        return place
    return Place(labels={"ray.io/node-id": here().get_node_id()})


def _private_environment() -> None:
    """Set the environment of a private cluster, for this process and those that it starts."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # By default Ray's workers run at nice 15 and starve when the machine has other work.
    os.environ.setdefault("RAY_worker_niceness", "0")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_AUTH_TOKEN" not in os.environ:
        token = _private_folder() / "token"
        token.touch(mode=0o600)
        token.write_text(os.urandom(32).hex())
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)


LONGEST_BASE: Final = 16
"""Longest path, in characters, in which the private folder may be created. Ray's sockets add 86, and a socket's path
may have 103 (macOS)."""


PREFIX: Final = "okra-ray-"
OWNER: Final = "owner"
"""A file in a private folder that its process locks. The lock ends with the process, whatever ends that."""


@cache
def _private_folder() -> Path:
    """Return a folder that only the user may enter; it is removed at the end of the process.

    A process that is killed cannot do so, and its folder is removed here, at the next start.
    """
    base = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    base = base if len(base) <= LONGEST_BASE else "/tmp"
    _remove_dead(Path(base))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    lock = os.open(folder / f"{OWNER}.new", os.O_WRONLY | os.O_CREAT, 0o600)  # open until the process ends
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / f"{OWNER}.new").rename(folder / OWNER)  # so an owner's file is locked from its first moment
    return folder


def _remove_dead(base: Path) -> None:
    """Remove the user's own private folders whose processes have ended."""
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, a link, one that has just been made, or locked
            held = folder.lstat()
            if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid():
                continue
            lock = os.open(folder / OWNER, os.O_WRONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


SECONDS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
SIZES: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Upper bounds of the histograms' bins. # project default"""


class LedgerMetrics:
    """Metrics of a run's ledger (see ``LedgerWatch``): questions, calls, tokens, dollars, waiting times."""

    def __init__(self) -> None:
        self._questions = Counter("okralong_questions", "Questions that have ended.", ("status",))
        self._calls = Counter("okralong_llm_calls", "Attempts, by outcome.", ("status", "model", "mode"))
        self._tokens = Counter("okralong_llm_tokens", "Tokens that were billed.", ("kind", "model"))
        self._dollars = Counter("okralong_llm_usd", "US dollars that were billed.", ("model",))
        self._queue = Histogram("okralong_llm_queue_seconds", "Waits for a permit to send.", list(SECONDS), ("model",))
        self._latency = Histogram("okralong_llm_latency_seconds", "Waits for replies.", list(SECONDS), ("model",))

    def intended(self, call: Call) -> None:
        """Ignore it: only its outcome counts."""

    def settled(self, outcome: Outcome) -> None:
        """Count an attempt that has ended."""
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

    def finished(self, row: Mapping[str, Any]) -> None:
        """Count a question that has ended."""
        self._questions.inc(1, {"status": str(row["status"])})

    def close(self) -> None:
        """Do nothing: Ray collects the metrics."""


class LimiterMetrics:
    """Metrics of a limiter: calls in flight and allowed, waiting callers, the pause after a 429."""

    def __init__(self, limiter: str) -> None:
        self._tags = {"limiter": limiter}
        self._gauges: dict[str, Any] = {
            "in_flight": Gauge("okralong_limiter_in_flight", "Calls in flight.", ("limiter",)),
            "allowed": Gauge("okralong_limiter_allowed", "Calls currently allowed in flight.", ("limiter",)),
            "waiting": Gauge("okralong_limiter_waiting", "Calls that wait for a permit.", ("limiter",)),
            "paused": Gauge("okralong_limiter_paused_seconds", "Seconds of pause left after a 429.", ("limiter",)),
        }

    def show(self, **values: float) -> None:
        """Set the gauges named above."""
        for name, value in values.items():
            self._gauges[name].set(value, self._tags)


class IndexMetrics:
    """Metrics of an index job: chunks, embedded texts, and the seconds of embedding."""

    def __init__(self) -> None:
        self._chunks = Counter("okralong_chunks", "Chunks of all sizes.")
        self._texts = Counter("okralong_texts_embedded", "Distinct chunk texts that were embedded.")
        self._seconds = Counter("okralong_embed_seconds", "Seconds of embedding.")

    def chunked(self, chunks: int) -> None:
        """Count chunks."""
        if chunks:
            self._chunks.inc(chunks)

    def embedded(self, texts: int, seconds: float) -> None:
        """Count a batch of embedded texts."""
        if texts:
            self._texts.inc(texts)
            self._seconds.inc(max(seconds, 1e-6))


@cache
def index_metrics() -> IndexMetrics:
    """Return this process's metrics; Ray allows each metric once per process."""
    return IndexMetrics()


def query_batch_sizes() -> Histogram:
    """Return the histogram of the sizes of embedding batches."""
    return Histogram("okralong_query_batch_size", "Questions embedded in one pass.", list(SIZES))


REPLICA_SHUTDOWN_POLL_S: Final = 0.1
"""Interval of the checks whether a stopping replica is idle, in seconds. # project default: Ray's 2 s
would delay the end of every run"""
REPLICA_SHUTDOWN_GRACE_S: Final = 1.0
"""Seconds that a stopping replica may still work on its calls. # project default: their callers have ended and they
cost nothing, and Ray's 20 s would delay Ctrl-C"""


def run_apps(applications: Mapping[str, serve.Application]) -> list[Any]:
    """Start applications under their names and return their handles, in order, once the replicas are ready.

    All start at the same time, since a replica spends most of its start on imports. Raises ConfigError if a replica
    cannot start.
    """
    # Imported here, as below: Ray Serve takes a second and 60 MB, and the many index shards do not need it.
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)  # its import sets another level
    serve.start(proxy_location="Disabled")
    try:
        return list(serve.run_many([serve.RunTarget(app, name, None) for name, app in applications.items()]))
    except RuntimeError as error:
        raise ConfigError(
            f"{' or '.join(applications)} could not be started on Ray Serve: {error}. Check the models, the adapter "
            "and the number of GPUs that the config names."
        ) from error


def keep_replica_private() -> None:
    """Make the gRPC server that Ray Serve starts after this replica's constructor listen where the node does.

    The server requires the token like all of Ray's servers, but Ray 2.60 has no option to bind it to one interface.
    """
    here: Any = ray.util.get_node_ip_address
    if not ipaddress.ip_address(here()).is_loopback:
        return
    serving: Any = importlib.import_module("ray.serve._private.replica")
    opening = serving.add_port_to_grpc_server
    serving.add_port_to_grpc_server = lambda server, _: opening(server, f"{here()}:0")


def remove_apps(names: Sequence[str]) -> None:
    """Stop applications and free their memory; one that is not running is ignored."""
    from ray import serve

    with ThreadPoolExecutor(len(names)) as pool:  # each call waits until its application is gone
        list(pool.map(serve.delete, names))


REPLICA_RETRY_S: Final = 180.0
"""Seconds that a replica may take to come back, including loading its model, before the run stops. # project default"""
REPLICA_PAUSE_S: Final = 0.5
"""Seconds between retries. # project default"""


async def retry_replica(ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call to a replica on Ray Serve, and repeat the call while the replica is away.

    A replica that dies loses its calls and is restarted. Only for calls that are free and idempotent.

    Raises:
        RayActorError, BrokenError: The replica was not back within ``REPLICA_RETRY_S``.
    """
    from ray.serve.exceptions import RayServeException

    retrying = AsyncRetrying(
        retry=retry_if_exception_type((RayActorError, RayServeException)),  # it died, or none is running
        stop=stop_after_delay(REPLICA_RETRY_S),
        wait=wait_fixed(REPLICA_PAUSE_S),
        reraise=True,
    )

    async def asked() -> T:  # tenacity awaits coroutine functions, not lambdas that return awaitables
        return await plain_errors(ask())

    try:
        return await retrying(asked)
    except RayServeException as error:
        said = str(error).strip()[:500].rstrip(".")
        raise BrokenError(f"{type(error).__name__}: {said}. {GO_ON}") from error


async def plain_errors(reference: Awaitable[T]) -> T:
    """Await a Ray call; raise its error as it was raised inside, without Ray's wrapper and traceback text."""
    try:
        return await reference
    except RayTaskError as error:
        raise error.cause from None


LINES_EVERY_S: Final = 0.5
"""Polling interval for a task's lines, in seconds. # project default"""


def run_on_cluster(work: Callable[..., None], say: Callable[[str], None]) -> None:
    """Run ``work(say=...)`` as one task of the connected Ray, on a GPU if there is one, and wait for it.

    Lines that it passes to ``say`` reach ``say`` here; its exception is raised here.
    """
    resources: Any = ray.cluster_resources  # untyped in Ray
    has_gpu = resources().get("GPU", 0) >= 1
    # Ray does not restart a killed worker: the same command continues from the last checkpoint.
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
