"""Starting and ending an application on Ray Serve that is called by handle only: no port is opened."""

from __future__ import annotations

from typing import Any, Final

from ray import serve

from okralong.pipelines.errors import ConfigError

OVERLAP: Final = 2
"""Requests that a replica holds, in batches: one at work and one filling. With fewer, batches never fill."""


def run_app(application: Any, name: str) -> Any:
    """Run ``application`` under ``name`` and return its handle, once its replicas are ready.

    Raises ConfigError when a replica cannot start.
    """
    serve.start(proxy_location="Disabled")
    try:
        return serve.run(application, name=name, route_prefix=None)
    except RuntimeError as error:
        raise ConfigError(
            f"{name} could not be started on Ray Serve: {error}. Check the model, the adapter and the number of GPUs "
            "that the config names."
        ) from error


def remove_app(name: str) -> None:
    """End an application and free what its replicas held; one that is not running is fine."""
    serve.delete(name)
