"""Asking again what costs nothing: a replica on Ray Serve that dies takes its calls with it, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ray.exceptions import RayActorError
from ray.serve.exceptions import RayServeException

from okralong.actors.ledger import plain_errors

T = TypeVar("T")

PATIENCE_S: Final = 180.0
"""How long a replica may take to come back, loading of its model included, before the run stops. Ours."""
PAUSE_S: Final = 0.5
"""Between two tries. Ours."""
GONE: Final = (RayActorError, RayServeException)
"""What a call raises whose replica died, or that found none."""


async def asked_again(ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` brings, asked again while its replica is away; for calls that may be made twice.

    Raises the last error when the replica is not back in ``PATIENCE_S``.
    """
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        try:
            return await plain_errors(ask())
        except GONE:
            if asyncio.get_running_loop().time() > deadline:
                raise
        await asyncio.sleep(PAUSE_S)
