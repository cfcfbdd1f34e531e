"""A generator without an endpoint, for running a strategy at no cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from okralong.pipelines.answering.models import Generator, GeneratorCall
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.types import NobodyAsked, Plan, Reply, Usage
from okralong.pipelines.llm.config import ANALYZE


async def shortest_reply(call: GeneratorCall) -> Reply:
    """Reply "unanswerable".

    Raises NobodyAsked for roles whose reply is structured. The keyword rules then analyze, and there are no further
    look-ups.
    """
    if call.role in (ANALYZE, "split", "step", "documents"):
        raise NobodyAsked("Nobody was asked: this is an estimate.")
    return Reply(f"Answer: {UNANSWERABLE}", "none", Usage(), "stop", 0.0)


class OfflineGenerator(Generator):
    """A generator that replies in this process, for use instead of ``LlmClient``; calls cost nothing.

    ``calls`` has the calls that were made, in order.
    """

    def __init__(self, reply: Callable[[GeneratorCall], Awaitable[Reply]] = shortest_reply) -> None:
        self.calls: list[GeneratorCall] = []
        self._reply = reply

    async def complete(self, call: GeneratorCall) -> Reply:
        """See ``Generator``."""
        self.calls.append(call)
        return await self._reply(call)


class MemoryLog:
    """A journal in memory (see ``StepLog``). ``kept`` maps step path and kind to the body."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def recorded(self, path: str, kind: str) -> str | None:
        """Return the body recorded under a step path, or None."""
        return self.kept.get((path, kind))

    async def record(self, path: str, kind: str, body: str) -> None:
        """Store a body in memory."""
        self.kept[path, kind] = body

    async def admit(self, plan: Plan) -> None:
        """Admit every plan, since no call costs anything."""
