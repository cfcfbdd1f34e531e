"""A training as plain values: its recipe and its examples, which can be exported as JSON for another machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, Self

from pydantic import Field, field_validator, model_validator

from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import QUESTION_MARK, RetrieverScores
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED, Precision

Kind = Literal["label_scorer", "heads", "reader", "sara", "cross_encoder", "token_classifier", "question_writer"]
"""The kinds of models that can be trained. SARA's stages have their own command."""

BLOCKS: Final = ("cross_encoder", "token_classifier")
"""Kinds for which the last blocks of an encoder are trained directly, without an adapter."""

Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Epochs = Annotated[float, Field(gt=0, le=1000)]


class Lora(Settings):
    """A low-rank adapter. The defaults are the paper's (appendix A.2). ``targets`` are the names of a block's matrices.

    Blocks before ``first_block`` (counted from 0) stay frozen and need no backward pass.
    """

    targets: list[str] = Field(min_length=1)
    rank: Count = 8
    alpha: Count = 16
    dropout: Share = 0.1
    first_block: Annotated[int, Field(ge=0)] = 0


class Recipe(Settings):
    """A training, as a file in ``configs/training`` describes it.

    ``model`` is "embedded", a folder or a hub name; without ``lora`` it stays frozen. The defaults of learning rate,
    epochs and accumulation are the paper's (appendix A.2: 1e-4, 5, 64), the others are the project's.

    ``evaluations`` is the number of validations per epoch; training stops after ``patience`` of them in a row without a
    lower loss. Only the first ``rows`` rows are used for training, and the first ``validation_rows`` for validation
    (None: all).

    The training and the measurements on its card run in ``precision``, whatever the processor; bfloat16 is about three
    times as fast on a GPU and on processors that multiply it.

    ``hidden`` is for the kind "heads"; ``dropout`` and ``heads_learning_rate`` (None: the encoder's)
    also for cross-encoders and token classifiers, which train the encoder's blocks from ``first_block`` on. ``written``
    is the config with the kinds of questions that a question writer learns.

    A label scorer's prompt, a cross-encoder's pair and a token classifier's passage are truncated to ``max_tokens``
    tokens; a reader's row is skipped if its prompt and reply have more.

    A label scorer, a reader or a cross-encoder starts from ``start``: "shipped" or a folder with a model of the same
    shape. If it is None, training starts from a neutral adapter or the plain encoder. The final weights of a
    cross-encoder are averaged with those of ``start``, which have the share ``start_weight``, so that it forgets less
    (Wortsman et al. 2022, Robust fine-tuning of zero-shot models).
    """

    kind: Kind
    model: str = Field(default=EMBEDDED, min_length=1)
    lora: Lora | None = None
    start: str | None = Field(default=None, min_length=1)
    start_weight: Share = 0.0
    learning_rate: Rate = 1e-4
    heads_learning_rate: Rate | None = None
    epochs: Epochs = 5.0
    batch_size: Count = 1
    accumulation: Count = 64
    warmup: Share = 0.05
    weight_decay: Share = 0.0
    evaluations: Count = 1
    patience: Count = 3
    seed: int = 7
    precision: Precision = "float32"
    hidden: Count = 128
    dropout: Share = 0.2
    first_block: Annotated[int, Field(ge=0)] = 0
    max_tokens: Annotated[int, Field(ge=128)] = 1024
    rows: Count | None = None
    validation_rows: Count | None = None
    written: str = "training/written.yaml"

    @field_validator("start")
    @classmethod
    def _absolute(cls, start: str | None) -> str | None:
        # The path is made absolute, since a task on the cluster has another working directory.
        return start if start in (None, SHIPPED) else str(Path(str(start)).expanduser().resolve())

    @field_validator("written")
    @classmethod
    def _absolute_where_local(cls, written: str) -> str:
        return str(Path(written).resolve()) if Path(written).is_file() else written

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if self.kind in ("label_scorer", "reader") and self.lora is None:
            raise ValueError(f"a {self.kind} learns an adapter: give lora, with the layers that it targets")
        if self.kind in BLOCKS and self.lora is not None:
            raise ValueError(f"a {self.kind} learns whole blocks from first_block on: leave lora out")
        if self.kind == "question_writer" and self.lora is not None:
            raise ValueError("a question_writer learns all of its weights: leave lora out")
        if self.kind in ("heads", "token_classifier", "question_writer") and self.start is not None:
            raise ValueError(
                "start applies to a label_scorer, a reader or a cross_encoder; the others start from scratch"
            )
        if self.start_weight and (self.kind != "cross_encoder" or self.start is None):
            raise ValueError("start_weight requires a cross_encoder with a start")
        if self.kind in ("label_scorer", "reader", "question_writer") and self.heads_learning_rate is not None:
            raise ValueError(f"a {self.kind} has no heads: leave heads_learning_rate out")
        return self

    def changed(self, **values: object) -> Recipe:
        """Return a validated copy with other values."""
        return Recipe.model_validate({**{name: getattr(self, name) for name in Recipe.model_fields}, **values})

    def schedule_words(self) -> str:
        """Describe the schedule of the training for the model card."""
        heads = "" if self.heads_learning_rate is None else f" (heads {self.heads_learning_rate:g})"
        mean = f", and averaged with what it started from ({self.start_weight:g})" if self.start_weight else ""
        return (
            f"Learning rate {self.learning_rate:g}{heads}, at most {self.epochs:g} epochs, batches of "
            f"{self.batch_size} x {self.accumulation}, seed {self.seed}; the state of the least loss on validation was "
            f"kept{mean}."
        )

    def learned_words(self) -> str:
        """Describe the part of the model that is trained, for the model card."""
        lora = self.lora
        if self.kind in BLOCKS:
            more = "" if self.start is None else f", going on from `{Path(self.start).name}`"
            more += f", averaged with it ({self.start_weight:g})" if self.start_weight else ""
            return f"the blocks from {self.first_block} on, and heads{more}"
        if lora is None:
            return "heads over the frozen encoder"
        learned = f"LoRA on {', '.join(lora.targets)}"
        learned += f" of the blocks from {lora.first_block} on" if lora.first_block else ""
        learned += f" (rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout:g})"
        learned += "" if self.start is None else f", going on from the adapter `{Path(self.start).name}`"
        return learned + (", and heads" if self.kind == "heads" else "")


UNKNOWN: Final = -100
"""The index of an unknown label. It is PyTorch's value for "ignored by the loss"."""


class Learned(Protocol):
    """The interface of examples that batching needs. The repr of an example identifies it."""

    @property
    def length(self) -> int:
        """The number of characters that a model reads and writes for it, roughly proportional to its tokens."""

    @property
    def instructions(self) -> str:
        """The part that is the same in all prompts of a batch."""

    @property
    def context(self) -> str:
        """A further part that is the same in several prompts, such as their passages; "" if there is none."""


class _Alone:
    """An example that may be in a batch with any others."""

    __slots__ = ()

    @property
    def instructions(self) -> str:
        """See ``Learned``."""
        return ""

    @property
    def context(self) -> str:
        """See ``Learned``."""
        return ""


@dataclass(frozen=True, slots=True)
class Example(_Alone):
    """A question with its labels, as indexes into TYPES, PATTERNS and EVIDENCE, or UNKNOWN."""

    asked: AnalysisInput
    labels: tuple[int, int, int]

    @property
    def length(self) -> int:
        """See ``Learned``."""
        return len(self.asked.question) + sum(map(len, self.asked.passages))


def example(asked: AnalysisInput, question_type: str | None, pattern: str | None, evidence: bool | None) -> Example:
    """Make an example from labels by name; None is unknown."""
    held = None if evidence is None else EVIDENCE[0 if evidence else 1]
    return Example(asked, (_index(TYPES, question_type), _index(PATTERNS, pattern), _index(EVIDENCE, held)))


def _index(labels: Sequence[str], label: str | None) -> int:
    return UNKNOWN if label is None else labels.index(label)


@dataclass(frozen=True, slots=True)
class ReadingExample:
    """A prompt, as a run sends it, and its target reply; ``instructions`` is the system message."""

    instructions: str
    user: str
    reply: str

    @property
    def length(self) -> int:
        """See ``Learned``."""
        return len(self.instructions) + len(self.user) + len(self.reply)

    @property
    def context(self) -> str:
        """The passages, which are the same in prompts about them."""
        return self.user[: max(0, self.user.rfind(QUESTION_MARK))]


@dataclass(frozen=True, slots=True)
class RankingExample(_Alone):
    """A query with passages.

    ``relevance`` is 0 to 1, ``answerable`` 1, 0 or UNKNOWN; ``starts`` and ``ends`` are the characters of the answer in
    each passage, or -1.
    """

    question: str
    passages: tuple[str, ...]
    relevance: tuple[float, ...]
    answerable: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def length(self) -> int:
        """Characters of all pairs; passages are padded to the longest."""
        return len(self.passages) * (len(self.question) + max(map(len, self.passages)))


LEFT, ASKED, ANSWERED = 0, 1, 2
"""The labels of a word in a passage: not named, named by a question, named by an answer."""


@dataclass(frozen=True, slots=True)
class KeepExample(_Alone):
    """A passage with a label for each of its words: LEFT, ASKED or ANSWERED."""

    text: str
    labels: tuple[int, ...]

    @property
    def length(self) -> int:
        """See ``Learned``."""
        return len(self.text)


AnyExample = Example | ReadingExample | RankingExample | KeepExample


def write_examples(path: Path, examples: Sequence[AnyExample]) -> None:
    """Write examples as JSON lines, for a machine without Parquet."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in examples), encoding="utf-8")


def read_examples(path: Path) -> list[AnyExample]:
    """Read a file that ``write_examples`` wrote."""
    found: list[AnyExample] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "reply" in row:
            found.append(ReadingExample(**row))
            continue
        if "relevance" in row:
            question = row.pop("question")
            found.append(RankingExample(question, **{name: tuple(values) for name, values in row.items()}))
            continue
        if "text" in row:
            found.append(KeepExample(row["text"], tuple(row["labels"])))
            continue
        asked = row["asked"]
        scores = RetrieverScores(**{name: tuple(values) for name, values in asked["scores"].items()})
        found.append(Example(AnalysisInput(asked["question"], tuple(asked["passages"]), scores), tuple(row["labels"])))
    return found


def export_files(
    recipe: Recipe, train: Sequence[AnyExample], validation: Sequence[AnyExample], out: Path
) -> list[Path]:
    """Write recipe.json, train.jsonl and validation.jsonl, for ``training.learners.fit`` on another machine."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / "recipe.json", out / "train.jsonl", out / "validation.jsonl"]
    paths[0].write_text(recipe.model_dump_json(indent=1), encoding="utf-8")
    write_examples(paths[1], train)
    write_examples(paths[2], validation)
    return paths
