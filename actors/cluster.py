"""Connecting to Ray: a cluster when an address is given (or set in RAY_ADDRESS), else a private one on this machine.

A local ``ray.init`` turns token authentication on and writes its token into the home folder, which a later
``ray start --head`` would then demand. So a private cluster gets a token file of its own, in a temporary folder that
goes with the process. (RAY_AUTH_MODE is left alone: Ray reads it when it is imported, and sets it itself here.)
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from okralong.pipelines.core.config import Place, Settings, homeless

NAMESPACE = "okralong"
LOGICAL_CPUS = 4
"""Least CPUs declared to a private cluster: actors that wait (planners, ledger, limiter) hold none, the rest share."""


def named_actor(name: str) -> Any:
    """The handle of an actor of okralong's namespace. Raises ValueError when there is none of that name."""
    return ray.get_actor(name, NAMESPACE)


@contextlib.contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """A Ray connection for the time of the block; a private cluster ends with it, a shared one is left running.

    A connection that is already there is used and left. Ray takes SIGTERM for itself, and would print a stack trace of
    its own at one; a handler that the process had set before is put back, and keeps it.
    """
    if ray.is_initialized():
        yield
        return
    on_sigterm = signal.getsignal(signal.SIGTERM)
    address = address or os.environ.get("RAY_ADDRESS")
    for noisy in ("ray.serve", "ray.data"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="okralong-ray-") as folder:
        if address is None:
            ours = _private_environment(Path(folder))
            ray.init(
                address="local",
                num_cpus=max(LOGICAL_CPUS, os.cpu_count() or 1),
                namespace=NAMESPACE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=True,
            )
        else:
            ours = ()
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        if callable(on_sigterm) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)
        try:
            yield
        finally:
            ray.shutdown()
            for name in ours:
                os.environ.pop(name, None)


def homes_to_come(placement: Settings) -> list[str]:
    """A sentence for each part of ``placement`` for which the connected cluster has no node now. It will wait for one,
    which an autoscaler may bring, and nobody would know why."""
    listed: Any = ray.nodes  # untyped in Ray
    nodes = [(node.get("Labels") or {}, node.get("Resources") or {}) for node in listed() if node["Alive"]]
    return [
        f"placement.{part}: no node has {', '.join(f'{k}={v}' for k, v in (place.labels | place.resources).items())} "
        "now; this waits until one joins the cluster."
        for part, place in homeless(placement, nodes)
    ]


def beside_this_process(place: Place) -> Place:
    """``place``, or this very node where the cluster has several machines: for what talks to a server that listens on
    this one alone."""
    listed: Any = ray.nodes  # both are untyped in Ray
    here: Any = ray.get_runtime_context
    if len({node["NodeManagerAddress"] for node in listed() if node["Alive"]}) < 2:
        return place
    return Place(labels={"ray.io/node-id": here().get_node_id()})


def _private_environment(folder: Path) -> tuple[str, ...]:
    """Set what a private cluster needs; the names of variables that must go when ``folder`` goes."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if "RAY_AUTH_TOKEN_PATH" not in os.environ and "RAY_AUTH_TOKEN" not in os.environ:
        token = folder / "token"
        token.write_text(os.urandom(32).hex())
        token.chmod(0o600)
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
        return ("RAY_AUTH_TOKEN_PATH",)
    return ()
