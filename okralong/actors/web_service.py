"""A service's replica and HTTP proxy on Ray Serve.

One replica answers: it holds the run of the day, which has one writer. Ray Serve restarts it if it dies, and the proxy
answers 503 meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from ray import serve
from ray.serve.config import HTTPOptions
from starlette.types import ASGIApp

from okralong.actors.cluster import connected, keep_replica_private
from okralong.pipelines.core.types import BrokenError, ConfigError
from okralong.pipelines.serving.guard import ONGOING

APP: Final = "okralong-service"
QUEUED: Final = 1_024
"""Requests that wait for the replica beyond ``ONGOING``; the next one gets a 503. # project default"""
HEALTH_S: Final = 2.0
"""Interval of the checks whether the replica lives. # project default: Ray's 10 s would delay its restart"""

PRIVATE: Final = 0o077
"""The umask of a service: only its user may read what it writes."""

STEADY_MEMORY: Final = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Variables that keep glibc from holding freed memory in an arena for each thread, with which the replica grew five
times as fast (benchmarks/results/serving.md). # project default"""


@serve.ingress()
class WebReplica:
    """Serves an ASGI application that ``build`` makes in the replica's process."""

    def __init__(self, build: Callable[[], ASGIApp], cwd: str) -> None:
        keep_replica_private()
        os.umask(PRIVATE)
        os.chdir(cwd)  # the config may name files by relative paths
        self._build = build

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Return the application."""
        return self._build()


def free_port(host: str, port: int) -> int:
    """Return ``port``, or a free one for 0. Raises ConfigError if it cannot be listened on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError as error:
            raise ConfigError(
                f"{host}:{port} cannot be listened on: {error.strerror}. Stop the other program, or choose another "
                "--port."
            ) from error
        return int(tried.getsockname()[1])


@contextmanager
def serving(build: Callable[[], ASGIApp], host: str, port: int, grace_s: float) -> Iterator[None]:
    """Serve an application over HTTP while the block runs, on a private Ray.

    Args:
        build: Makes the application; it is sent to the replica.
        host: The address to listen on.
        port: The port.
        grace_s: Seconds that a replica which stops has for its requests.

    Raises:
        BrokenError: The replica does not start.
    """
    for name, value in STEADY_MEMORY.items():
        os.environ.setdefault(name, value)  # Ray's processes inherit it
    with connected():
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        options: dict[str, Any] = {
            "num_replicas": 1,
            "max_ongoing_requests": ONGOING,
            "max_queued_requests": QUEUED,
            "health_check_period_s": HEALTH_S,
            "graceful_shutdown_wait_loop_s": 0.1,
            "graceful_shutdown_timeout_s": grace_s,
            "ray_actor_options": {"num_cpus": 0},
        }
        serve.start(proxy_location="HeadOnly", http_options=HTTPOptions(host=host, port=port))
        deployment: Any = serve.deployment(WebReplica)
        try:
            serve.run(deployment.options(name=APP, **options).bind(build, os.getcwd()), name=APP, route_prefix="/")
        except RuntimeError as error:
            raise BrokenError(f"The service cannot start: {str(error).strip()[-1500:]}") from error
        try:
            yield
        finally:
            serve.delete(APP)
