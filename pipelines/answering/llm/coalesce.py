"""All callers of one process behind one message: the process's side of leases in blocks.

At most one ``take`` and one ``put_back`` are on their way at a time, however many callers wait; what comes meanwhile
goes with the next. Callers are served in order of arrival.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from okralong.pipelines.answering.llm.leases import Ask, PutBack, Returned, Take, Taken
from okralong.pipelines.answering.llm.ports import Grant
from okralong.pipelines.answering.llm.quota_headers import SILENT, Notice
from okralong.pipelines.core.types import QuestionError

logger = logging.getLogger(__name__)

BLOCK = 256
"""Most callers in one ``take``: more than any answer to it serves at once, and a small message. Ours."""


@dataclass(frozen=True, eq=False, slots=True)
class _Caller:
    ask: Ask
    lease: asyncio.Future[int]


class CoalescingLimiter:
    """A ``LimiterClient`` for any number of callers of one event loop, over the two messages of ``leases.py``.

    A caller that is cancelled while its ask is on the way gets no lease: it is given back as soon as it comes. An error
    of ``take`` is raised in every caller that it was for.
    """

    def __init__(self, take: Take, put_back: PutBack) -> None:
        self._take, self._put_back = take, put_back
        self._tickets = itertools.count()
        self._callers: dict[int, _Caller] = {}  # by ticket, in order of arrival
        self._taking: asyncio.Task[None] | None = None
        self._ended: list[Returned] = []
        self._next_post: asyncio.Task[None] | None = None  # takes along what is in ``_ended`` when its turn comes
        self._posts: set[asyncio.Task[None]] = set()
        self._one_post = asyncio.Lock()

    async def acquire(self, tokens: int, lease_s: float) -> Grant:
        """Wait for leave to send. Raises QuestionError when no minute can hold ``tokens``."""
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        caller = _Caller(Ask(next(self._tickets), tokens, lease_s), loop.create_future())
        self._callers[caller.ask.ticket] = caller
        if self._taking is None:
            self._taking = loop.create_task(self._take_while_wanted())
        try:
            lease = await caller.lease
        except asyncio.CancelledError:
            self._callers.pop(caller.ask.ticket, None)
            if _came(caller.lease):  # in the same moment
                self._give_back([Returned(caller.lease.result(), unsent=True)])
            raise
        return Grant(lease, time.perf_counter() - start)

    async def release(self, lease: int, notice: Notice = SILENT, *, unsent: bool = False) -> None:
        """The request is over (see ``LimiterClient``); returns when the limiter knows."""
        await asyncio.shield(self._give_back([Returned(lease, notice, unsent)]))

    async def _take_while_wanted(self) -> None:
        try:
            await asyncio.sleep(0)  # callers of the same moment go together
            while self._callers:
                asks = [caller.ask for caller in islice(self._callers.values(), BLOCK)]
                try:
                    self._hand_out(await self._take(asks))
                except Exception as error:
                    for ask in asks:
                        self._fail(ask.ticket, error)
        finally:
            self._taking = None

    def _hand_out(self, taken: Taken) -> None:
        unwanted: list[Returned] = []
        for ticket, lease in taken.granted.items():
            caller = self._callers.pop(ticket, None)
            if caller is None or caller.lease.done():
                unwanted.append(Returned(lease, unsent=True))
            else:
                caller.lease.set_result(lease)
        for ticket, why in taken.refused.items():
            self._fail(ticket, QuestionError(why))
        if unwanted:
            self._give_back(unwanted)

    def _fail(self, ticket: int, error: Exception) -> None:
        caller = self._callers.pop(ticket, None)
        if caller is not None and not caller.lease.done():
            caller.lease.set_exception(error)

    def _give_back(self, ended: Sequence[Returned]) -> asyncio.Task[None]:
        """The message that will take these along."""
        self._ended.extend(ended)
        if self._next_post is None:
            self._next_post = asyncio.get_running_loop().create_task(self._post())
            self._posts.add(self._next_post)
            self._next_post.add_done_callback(self._posted)
        return self._next_post

    async def _post(self) -> None:
        async with self._one_post:
            self._next_post = None
            ended, self._ended = self._ended, []
            await self._put_back(ended)

    def _posted(self, post: asyncio.Task[None]) -> None:
        self._posts.discard(post)
        if not post.cancelled() and (error := post.exception()) is not None:
            logger.warning("Leases were not given back, and end by themselves: %s: %s", type(error).__name__, error)


def _came(lease: asyncio.Future[int]) -> bool:
    return lease.done() and not lease.cancelled() and lease.exception() is None
