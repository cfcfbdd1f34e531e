"""How an analyzer is trained, and what it learns from: plain values, for a machine that has little but PyTorch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput
from okralong.pipelines.values import RetrieverScores

Kind = Literal["label_scorer", "heads"]

UNKNOWN: Final = -100
"""The index of a label that nobody knows: PyTorch's own sign for "not in the loss"."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A low-rank adapter; the defaults are the paper's (appendix B.1). ``targets`` are names of a block's matrices.

    Blocks before ``first_block`` (from 0) are left as they are, and nothing is passed back through them: a third less
    work when a third is left.
    """

    targets: tuple[str, ...]
    rank: int = 8
    alpha: int = 16
    dropout: float = 0.1
    first_block: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """One training. ``model`` is "embedded", a folder or a hub name; ``lora`` None leaves it frozen.

    Learning rate, epochs and accumulation default to the paper's (appendix B.1: 1e-4, 5, 64); the rest is ours.
    ``evaluations`` are made an epoch; after ``patience`` of them without a lower loss on validation it stops.
    ``reads``, ``hidden``, ``dropout`` and ``heads_learning_rate`` (None: that of the encoder's adapter) are for heads
    alone. ``max_tokens`` bounds a label scorer's prompt.
    """

    kind: Kind
    model: str = "embedded"
    lora: Lora | None = None
    learning_rate: float = 1e-4
    heads_learning_rate: float | None = None
    epochs: float = 5.0
    batch_size: int = 1
    accumulation: int = 64
    warmup: float = 0.05
    weight_decay: float = 0.0
    evaluations: int = 1
    patience: int = 3
    seed: int = 7
    reads: Literal["question", "pairs"] = "question"
    hidden: int = 128
    dropout: float = 0.2
    max_tokens: int = 1024
    rows: int | None = None
    validation_rows: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values, as ``asdict`` or a config gives them."""
        lora = values["lora"]
        targeted = None if lora is None else Lora(**{**lora, "targets": tuple(lora["targets"])})
        return cls(**{**values, "lora": targeted})


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its labels as indices into TYPES, PATTERNS and EVIDENCE, UNKNOWN where nobody knows."""

    asked: AnalysisInput
    labels: tuple[int, int, int]


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


def write_examples(path: Path, examples: Sequence[Example]) -> None:
    """One JSON object a line, for a machine without Parquet."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in examples), encoding="utf-8")


def read_examples(path: Path) -> list[Example]:
    """What ``write_examples`` wrote."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked = row["asked"]
        scores = RetrieverScores(**{name: tuple(values) for name, values in asked["scores"].items()})
        found.append(Example(AnalysisInput(asked["question"], tuple(asked["passages"]), scores), tuple(row["labels"])))
    return found
