"""Questions in progress, their events, and the requests that wait for them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Final

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.llm.journal import JournalRow
from okralong.pipelines.reporting.cited import cited
from okralong.pipelines.serving.asked import Event, Refused, citation, plan_event, retrieved_spans

RETRIEVALS_SHOWN: Final = 4
"""Events ``sources`` of a question, at most. # project default"""
_BESIDE: Final = ("/wide", "/named")
"""Ends of the paths of retrievals that only raise the scores of others."""


class InProgress:
    """A question that is being answered.

    Attributes:
        listeners: The number of requests that wait for it.
        abandoned: Whether no further call is sent for it, because no request waits.
        over: Set when it has ended.
    """

    def __init__(self) -> None:
        self.listeners = 0
        self.abandoned = False
        self.over = asyncio.Event()
        self._events: list[Event] = []
        self._error: Refused | None = None
        self._changed = asyncio.Event()

    def push(self, event: Event) -> None:
        """Add an event; no-op after the end."""
        if not self.over.is_set():
            self._events.append(event)
            self._wake()

    def end(self, error: Refused | None = None) -> None:
        """End the question, with an error if it has no answer."""
        self._error = error
        self.over.set()
        self._wake()

    async def listen(self, deadline: float) -> AsyncIterator[Event]:
        """Yield all events, also earlier ones, until the question ends.

        Raises Refused if it ended with an error, and TimeoutError at the ``deadline`` of ``time.monotonic``.
        """
        seen = 0
        while True:
            changed = self._changed
            for event in self._events[seen:]:
                seen += 1
                yield event
            if self.over.is_set() and seen == len(self._events):
                break
            if changed is not self._changed:
                continue
            await asyncio.wait_for(changed.wait(), max(0.0, deadline - time.monotonic()))
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class StepEvents:
    """Turns the steps of a question into events, in the event loop that makes it."""

    def __init__(self, question: InProgress, archive: Archive, links: bool) -> None:
        self._question, self._archive, self._links = question, archive, links
        self._loop = asyncio.get_running_loop()
        self._sources: list[asyncio.Task[None]] = []
        self._planned = False

    def watch(self, row: JournalRow) -> None:
        """Note a step of the question; may be called from any thread."""
        if row.kind == "plan" or (row.kind == "retrieval" and not row.path.endswith(_BESIDE)):
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._take, row)

    def _take(self, row: JournalRow) -> None:
        if row.kind == "plan" and not self._planned:
            self._planned = True
            self._question.push(plan_event(row))
        elif row.kind == "retrieval" and len(self._sources) < RETRIEVALS_SHOWN:
            self._sources.append(asyncio.create_task(self._show(row.path, retrieved_spans(row))))

    async def complete(self, row: Mapping[str, Any]) -> None:
        """Wait until all events before the answer are pushed; without a retrieval, push the context as sources."""
        if not self._sources and row.get("context"):
            await self._show("context", list(row["context"]))
        await asyncio.gather(*self._sources, return_exceptions=True)

    async def _show(self, step: str, spans: list[dict[str, Any]]) -> None:
        found = await asyncio.to_thread(
            lambda: [citation(cited(self._archive, span), self._links, quote=False) for span in spans]
        )
        self._question.push(Event("sources", {"step": step, "sources": found}))
