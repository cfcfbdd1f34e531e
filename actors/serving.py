"""Starting and ending applications on Ray Serve that are called by handle only: no port is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ray import serve

from okralong.pipelines.core.types import ConfigError

OVERLAP: Final = 2
"""Requests that a replica holds, in batches: one at work and one filling. With fewer, batches never fill."""

GOODBYE_S: Final = 0.1
"""How often a replica that is to end looks whether its last request is done, in seconds; ours. Ray's 2 s would be
waited for at the end of every run."""


def run_apps(applications: Mapping[str, serve.Application]) -> list[Any]:
    """Run applications under their names, all at once: most of a replica's start is imports. Their handles, in order,
    once the replicas are ready.

    Raises ConfigError when a replica cannot start.
    """
    serve.start(proxy_location="Disabled")
    try:
        return list(serve.run_many([serve.RunTarget(app, name, None) for name, app in applications.items()]))
    except RuntimeError as error:
        raise ConfigError(
            f"{' or '.join(applications)} could not be started on Ray Serve: {error}. Check the models, the adapter "
            "and the number of GPUs that the config names."
        ) from error


def remove_apps(names: Sequence[str]) -> None:
    """End applications and free what their replicas held; one that is not running is fine."""
    with ThreadPoolExecutor(len(names)) as pool:  # each waits until its own is gone
        list(pool.map(serve.delete, names))
