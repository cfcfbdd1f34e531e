"""What a training config may say (``configs/training/*.yaml``); it becomes a ``Recipe``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED
from okralong.pipelines.training.recipe import Kind, Lora, Recipe
from okralong.pipelines.training.self_training import SelfTraining

Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


_PLAIN: Final = Recipe("heads")
_LORA: Final = Lora(())
"""Where the defaults stand."""


class LoraConfig(Settings):
    """See ``Lora``."""

    targets: list[str] = Field(min_length=1)
    rank: Count = _LORA.rank
    alpha: Count = _LORA.alpha
    dropout: Share = _LORA.dropout
    first_block: Annotated[int, Field(ge=0)] = _LORA.first_block


class TrainConfig(Settings):
    """See ``Recipe``, which says what each key means and where its default is from, and ``SelfTraining``."""

    kind: Kind
    model: str = Field(default=EMBEDDED, min_length=1)
    lora: LoraConfig | None = None
    start: str | None = Field(default=None, min_length=1)
    learning_rate: Rate = _PLAIN.learning_rate
    heads_learning_rate: Rate | None = _PLAIN.heads_learning_rate
    epochs: Annotated[float, Field(gt=0, le=1000)] = _PLAIN.epochs
    batch_size: Count = _PLAIN.batch_size
    accumulation: Count = _PLAIN.accumulation
    warmup: Share = _PLAIN.warmup
    weight_decay: Share = _PLAIN.weight_decay
    evaluations: Count = _PLAIN.evaluations
    patience: Count = _PLAIN.patience
    seed: int = _PLAIN.seed
    reads: Literal["question", "pairs"] = _PLAIN.reads
    hidden: Count = _PLAIN.hidden
    dropout: Share = _PLAIN.dropout
    max_tokens: Annotated[int, Field(ge=128)] = _PLAIN.max_tokens
    rows: Count | None = None
    validation_rows: Count | None = None
    self_training: SelfTraining | None = None

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if self.kind != "heads" and self.lora is None:
            raise ValueError(f"a {self.kind} learns an adapter: give lora, with the layers that it targets")
        if self.kind == "heads" and self.start is not None:
            raise ValueError("start is the adapter of a label_scorer or a reader; heads begin anew")
        if self.kind == "reader" and self.self_training is not None:
            raise ValueError("self_training labels questions for an analyzer; a reader has no labels")
        return self

    def recipe(self) -> Recipe:
        """The same as plain values."""
        values = self.model_dump(exclude={"self_training"})
        if self.start not in (None, SHIPPED):
            # A task of the cluster stands elsewhere.
            values["start"] = str(Path(str(self.start)).expanduser().resolve())
        return Recipe.of(values)
