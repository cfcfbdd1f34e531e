"""Asking a generator about many training rows: what is left out, and what ends the asking."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from okralong.pipelines.core.types import CallFailed, EndpointError, OverBudget, QuestionError, ReplyError

R = TypeVar("R")
S = TypeVar("S")


async def ask_each(
    rows: Sequence[R], ask: Callable[[R], Awaitable[S]], at_once: int, done: str
) -> tuple[list[S | None], dict[str, int]]:
    """What ``ask`` returns for each row, in their order, ``at_once`` asked at a time; and how many rows are counted
    under ``done``, "over_budget" and "failed". None stands for a row that could not be had: the reply was of no use,
    the call failed, or the cap is reached.

    Raises EndpointError when the endpoint is gone, once the calls in flight have ended; what was replied until then is
    in the journal, and costs nothing the next time.
    """
    counts: Counter[str] = Counter()
    places = asyncio.Semaphore(at_once)
    gone: list[EndpointError] = []

    async def one(row: R) -> S | None:
        async with places:
            if gone:
                return None
            try:
                found = await ask(row)
            except EndpointError as error:
                gone.append(error)
                return None
            except OverBudget:
                counts["over_budget"] += 1
                return None
            except (ReplyError, CallFailed, QuestionError):
                counts["failed"] += 1
                return None
        counts[done] += 1
        return found

    found = await asyncio.gather(*map(one, rows))
    if gone:
        raise gone[0]
    return list(found), dict(counts)
