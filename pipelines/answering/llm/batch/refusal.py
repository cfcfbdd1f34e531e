"""Why an endpoint has refused a whole batch, and what is to be done with its requests. None of them was billed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

MOST_TOLD: Final = 100
"""An endpoint need not tell of more wrong lines; so many may mean that all are wrong. Ours."""
FULL: Final = frozenset({"token_limit_exceeded"})
"""Codes by which OpenAI and Azure say that the account has too many tokens in unfinished batches."""
TOO_LARGE: Final = frozenset({"too_many_tasks"})


@dataclass(frozen=True, slots=True)
class BatchError:
    """One of a batch's errors; ``line`` counts from 1 and is None where it is about none."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """``reason`` full: wait, and send less at a time; large: send less at a time; lines: the requests of ``lines``
    (from 1) are wrong and the others may go again; all: no batch of this kind will be taken.
    """

    reason: Literal["full", "large", "lines", "all"]
    message: str
    lines: frozenset[int] = frozenset()


def read_refusal(errors: Sequence[BatchError], requests: int) -> Refusal:
    """What is wrong with a batch of so many requests."""
    said = "; ".join(f"{'' if e.line is None else f'line {e.line}: '}{e.code}: {e.message}" for e in errors[:3])
    said = said[:500] or "it named no reason"
    codes = {error.code for error in errors}
    if codes & FULL:
        return Refusal("full", said)
    if codes & TOO_LARGE and requests > 1:
        return Refusal("large", said)
    lines = frozenset(error.line for error in errors if error.line is not None)
    everything = any(error.line is None for error in errors) or len(lines) >= min(requests, MOST_TOLD)
    if not lines or (everything and requests > 1):
        return Refusal("all", said)
    return Refusal("lines", said, lines)
