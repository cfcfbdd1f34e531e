"""What models learn from: plain values, for a machine that has little but PyTorch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput
from okralong.pipelines.core.types import QUESTION_MARK, RetrieverScores

UNKNOWN: Final = -100
"""The index of a label that nobody knows: PyTorch's own sign for "not in the loss"."""


class Learned(Protocol):
    """What a training needs of an example to put batches together. Its repr tells it from others."""

    @property
    def length(self) -> int:
        """Characters that a model reads and writes of it."""

    @property
    def instructions(self) -> str:
        """What prompts share that may stand in one batch."""

    @property
    def context(self) -> str:
        """What prompts share beyond that; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its labels as indices into TYPES, PATTERNS and EVIDENCE, UNKNOWN where nobody knows."""

    asked: AnalysisInput
    labels: tuple[int, int, int]

    @property
    def length(self) -> int:
        """Characters that a model reads of it: what its tokens grow with."""
        return len(self.asked.question) + sum(map(len, self.asked.passages))

    @property
    def instructions(self) -> str:
        """What prompts share that may stand in one batch: an analyzer has but one."""
        return ""

    @property
    def context(self) -> str:
        """What prompts share beyond that: nothing."""
        return ""


@dataclass(frozen=True, slots=True)
class ReadingExample:
    """A prompt of the executor and the reply that is to be learned; ``instructions`` are its system message."""

    instructions: str
    user: str
    reply: str

    @property
    def context(self) -> str:
        """The passages, which prompts may share that ask of the same ones; empty where there are none."""
        return self.user[: max(0, self.user.rfind(QUESTION_MARK))]

    @property
    def length(self) -> int:
        """Characters that a model reads and writes of it."""
        return len(self.instructions) + len(self.user) + len(self.reply)


AnyExample = Example | ReadingExample


def example(asked: AnalysisInput, question_type: str | None, pattern: str | None, evidence: bool | None) -> Example:
    """An example from labels by name."""
    said = None if evidence is None else EVIDENCE[0 if evidence else 1]
    pairs: tuple[tuple[str | None, Sequence[str]], ...] = (
        (question_type, TYPES),
        (pattern, PATTERNS),
        (said, EVIDENCE),
    )
    kind, how, held = (UNKNOWN if label is None else labels.index(label) for label, labels in pairs)
    return Example(asked, (kind, how, held))


def write_examples(path: Path, examples: Sequence[AnyExample]) -> None:
    """One JSON object a line, for a machine without Parquet."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in examples), encoding="utf-8")


def read_examples(path: Path) -> list[AnyExample]:
    """What ``write_examples`` wrote."""
    found: list[AnyExample] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "reply" in row:
            found.append(ReadingExample(**row))
            continue
        asked = row["asked"]
        scores = RetrieverScores(**{name: tuple(values) for name, values in asked["scores"].items()})
        found.append(Example(AnalysisInput(asked["question"], tuple(asked["passages"]), scores), tuple(row["labels"])))
    return found
