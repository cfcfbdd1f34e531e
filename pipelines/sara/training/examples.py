"""What a stage learns from: what is shown as text, what is shown compressed, and the reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from okralong.pipelines.core.types import Passage
from okralong.pipelines.sara.prompts import (
    MixedMessage,
    Vectors,
    alignment_prompt,
    answer_prompt,
    reconstruction_prompt,
)
from okralong.pipelines.sara.training.stage_names import Stage

Embeddings = NDArray[np.float32]

SHOWN_AS: Final = "document"
"""What passages are said to be of. An example's own document is named by those that hold the answer: it would tell."""


@dataclass(frozen=True, slots=True, eq=False)
class MixedExample:
    """``embeddings`` (compressed, inputs) are the sentence embeddings of the texts ``compressed``.

    ``document`` is what the bootstrap draws: the source of a text, or those that a question asks about. ``passages``
    and ``question`` are of the instruction stage alone; in the others the reply is what the compressed texts say.
    """

    stage: Stage
    document: str
    compressed: tuple[str, ...]
    reply: str
    embeddings: Embeddings = field(repr=False)
    question: str = ""
    passages: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Characters that a model reads and writes of it."""
        return len(self.question) + len(self.reply) + sum(map(len, self.passages))

    @property
    def instructions(self) -> str:
        """What prompts share that may stand in one batch."""
        return self.stage

    @property
    def context(self) -> str:
        """What prompts share beyond that: nothing."""
        return ""


def prompt_of(example: MixedExample, vectors: Sequence[Tensor]) -> list[MixedMessage]:
    """The prompt with ``vectors``, one tensor (vectors_per_chunk, hidden) for each compressed text."""
    pieces = [Vectors(each) for each in vectors]
    if example.stage == "alignment":
        return alignment_prompt(*pieces)
    if example.stage == "reconstruction":
        return reconstruction_prompt(pieces)
    shown = [Passage(SHOWN_AS, 0, len(text), text, 0, 0.0) for text in example.passages]
    return answer_prompt(example.question, shown, pieces)
