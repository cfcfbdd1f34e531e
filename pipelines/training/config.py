"""What a training config may say (``configs/training/*.yaml``); it becomes a ``Recipe``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.models.embedded import EMBEDDED
from okralong.pipelines.settings import Settings
from okralong.pipelines.training.recipe import Lora, Recipe

Rate = Annotated[float, Field(gt=0, le=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class LoraConfig(Settings):
    """See ``Lora``."""

    targets: list[str] = Field(min_length=1)
    rank: Count = 8
    alpha: Count = 16
    dropout: Share = 0.1


class TrainConfig(Settings):
    """See ``Recipe``, which says what each key means and where its default is from."""

    kind: Literal["label_scorer", "heads"]
    model: str = Field(default=EMBEDDED, min_length=1)
    lora: LoraConfig | None = None
    learning_rate: Rate = 1e-4
    epochs: Annotated[float, Field(gt=0, le=1000)] = 5.0
    batch_size: Count = 1
    accumulation: Count = 64
    warmup: Share = 0.05
    weight_decay: Share = 0.0
    evaluations: Count = 1
    patience: Count = 3
    seed: int = 7
    reads: Literal["question", "pairs"] = "question"
    hidden: Count = 128
    dropout: Share = 0.2
    max_tokens: Annotated[int, Field(ge=128)] = 1024
    rows: Count | None = None
    validation_rows: Count | None = None

    @model_validator(mode="after")
    def _learns_something(self) -> Self:
        if self.kind == "label_scorer" and self.lora is None:
            raise ValueError("a label_scorer learns an adapter: give lora, with the layers that it targets")
        return self

    def recipe(self) -> Recipe:
        """The same as plain values."""
        values = self.model_dump()
        lora = values.pop("lora")
        return Recipe(**values, lora=None if lora is None else Lora(**{**lora, "targets": tuple(lora["targets"])}))
