"""Structured replies (an analysis, sub-questions, a step): read, asked for once more if they cannot be, then failed.

The further call shows the model its reply and what is wrong with it. It is a call like any other: reserved, in journal
and ledger, replayed by a rerun.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from okralong.pipelines.answering.prompts.frame import neutralise
from okralong.pipelines.core.types import Message, NobodyAsked, Reply, ReplyError

T = TypeVar("T")

REPAIR: Final = "repair"
"""The last part of the step path of the further call."""
NOTHING: Final = "(nothing)"
"""What the further call shows of an empty reply: some servers take no empty message."""

Ask = Callable[[str, Sequence[Message]], Awaitable[Reply]]
"""Asks at a step. Raises ReplyError for a reply in which there is nothing to read."""


def always(messages: Sequence[Message]) -> bool:
    """Any prompt fits."""
    return True


async def ask_and_read(
    ask: Ask,
    step: str,
    messages: Sequence[Message],
    read: Callable[[str], T],
    fits: Callable[[Sequence[Message]], bool] = always,
) -> tuple[T, Reply]:
    """What ``read`` makes of the reply at ``step``, or of the one at ``step/repair`` where it raised ReplyError.

    ``fits`` says whether a prompt fits the window; without room for the further call none is made. Raises ReplyError
    with the raw text of both replies.
    """
    try:
        return await _read(ask, step, messages, read)
    except NobodyAsked:
        raise
    except ReplyError as error:
        first = error
    further = repair_prompt(messages, first)
    if not fits(further):
        raise ReplyError(f"{first} There is no room in the window to show the model its error.", first.raw)
    try:
        return await _read(ask, f"{step}/{REPAIR}", further, read)
    except NobodyAsked:
        raise
    except ReplyError as second:
        raise ReplyError(
            f"{second} It was asked for once more with the error shown. --retry failed asks anew; the raw text is in "
            "failures.",
            f"{first.raw or NOTHING}\n--- asked once more ---\n{second.raw or NOTHING}",
        ) from None


def repair_prompt(messages: Sequence[Message], error: ReplyError) -> list[Message]:
    """The messages, the reply that was no use, and why."""
    said = neutralise(error.raw).strip() or NOTHING
    complaint = f"This reply cannot be used: {neutralise(str(error))} Reply again, in the form that was asked for."
    return [*messages, Message("assistant", said), Message("user", complaint)]


async def _read(ask: Ask, step: str, messages: Sequence[Message], read: Callable[[str], T]) -> tuple[T, Reply]:
    reply = await ask(step, messages)
    try:
        return read(reply.text), reply
    except ReplyError as error:
        raise ReplyError(str(error), reply.text) from error
