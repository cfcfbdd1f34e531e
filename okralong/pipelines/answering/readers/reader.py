"""The interface of readers, and a function that tries them in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from okralong.pipelines.answering.answer_kinds import fits, kind_asked
from okralong.pipelines.answering.answer_types import TEXT, value_read
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.core.types import Answer, Way, Workflow

Stage = Literal["before", "after"]
"""When a reader is tried: before the workflow retrieves, or after it, on the retrieved chunks."""


class Reader(ABC):
    """Finds the answer to some questions without calling the generator.

    To add a reader, write a subclass in a new file and list it in ``READERS`` of ``methods/okralong.py``. ``way`` is
    that of its answers, unless an answer has its own; without one they get no confidence.
    """

    way: ClassVar[Way | Literal[""]] = ""
    stage: ClassVar[Stage] = "before"
    workflows: ClassVar[Sequence[Workflow]] = ("linear", "extend", "split", "step")

    @abstractmethod
    def fits(self, ask: Ask) -> bool:
        """Return whether the run and the policy allow this reader to try the question.

        A reader that uses the cross-encoder must check ``ask.tools.reads_answers`` (see ``cross_encoder_reads``).
        """

    @abstractmethod
    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the answer, or None to leave the question to the next reader.

        Args:
            ask: The question.
            finds: The chunks that the workflow retrieved; empty in the stage "before".
        """


async def first_reading(readers: Sequence[Reader], stage: Stage, ask: Ask, finds: Finds = ()) -> Answer | None:
    """Try the readers of a stage in order; return the first answer of the type or kind asked for, or None."""
    for reader in readers:
        if reader.stage != stage or ask.plan.workflow not in reader.workflows or not reader.fits(ask):
            continue
        found = await reader.read(ask, finds)
        if found is None:
            continue
        found = await value_read(ask.question, ask.wanted, found)
        if found.status == "answered" and ask.wanted == TEXT and not fits(kind_asked(ask.question), found.answer):
            continue
        if found.status != "invalid_output":
            by = found.replied_by or (ask.tools.cross_encoder,)
            return replace(found, way=found.way or reader.way, replied_by=by)
    return None


def cross_encoder_reads(ask: Ask) -> bool:
    """Return whether the cross-encoder may answer questions of this type."""
    return ask.tools.reads_answers and ask.is_one_of(ask.tools.policy.read.types)
