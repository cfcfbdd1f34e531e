"""How a process that read a document can be lost, and the paragraph that says so in ``failures``."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final, Literal

from okralong.pipelines.indexing.limits import Limits
from okralong.pipelines.indexing.reading.confinement import OUT_OF_MEMORY

CLOCK_SECONDS_A_SECOND: Final = 5
"""Seconds by the clock for each of processor time that a document may take; ours. A busy machine or slow storage is not
the document's fault, but a read that hangs must end as well."""

How = Literal["processor", "clock", "memory", "crash"]


@dataclass(frozen=True, slots=True)
class Loss:
    """How the process ended: a limit on time that it passed, memory that it was refused, or of itself, with ``why``."""

    how: How
    why: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether the document alone is to blame, also when the process had read others before it."""
        return self.how in ("processor", "clock")


def loss_of(code: int) -> Loss:
    """The loss behind an exit code as subprocess gives it, negative for a signal."""
    if code == OUT_OF_MEMORY:
        return Loss("memory")
    if code == -signal.SIGXCPU:
        return Loss("processor")
    if code < 0:
        return Loss("crash", f"by signal {signal.strsignal(-code) or -code}")
    return Loss("crash", f"with code {code}")


def paragraph(loss: Loss, place: str, limits: Limits) -> str:
    """What ``failures`` says of the document at ``place``: the limit, and the remedy."""
    split = "leave it out of the folder, or split it"
    gib = f"limits.document_gib = {limits.memory_bytes / 2**30:g}"
    seconds = f"limits.document_s = {limits.seconds:g}"
    if loss.how == "processor":
        return f"{place} took more than {seconds} of processor time and was given up. Raise the limit, {split}."
    if loss.how == "clock":
        return (
            f"{place} was not read within {limits.seconds * CLOCK_SECONDS_A_SECOND:g} s by the clock, "
            f"{CLOCK_SECONDS_A_SECOND} times {seconds}, and was given up: its storage does not answer, or the machine "
            f"is very busy. Look at both, raise the limit, {split}."
        )
    if loss.how == "memory":
        return f"{place} needed more memory than {gib} and was given up. Raise the limit, {split}."
    return (
        f"{place} ended the process that read it ({loss.why}). It is damaged, or needs more memory than {gib}. Save it "
        f"again with the program that made it, raise the limit, {split}."
    )
