"""Which analyzers a report compares (``configs/training/report.yaml``)."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from okralong.pipelines.answering.analyzer import AnalyzerConfig
from okralong.pipelines.core.config import Settings


class LeftOut(Settings):
    """An analyzer trained with ``okralong train --leave-out`` on each of the ``sets``; ``beside`` names that of the
    report which learned from all sets."""

    sets: list[str] = Field(min_length=1)
    analyzer: AnalyzerConfig
    beside: str


class ReportConfig(Settings):
    """``analyzers`` by the names that the report gives them; majority class and keyword rules are always beside them.

    ``timed`` questions are used for each time, at each of the ``batches``; ``written`` names the analyzer (a
    label_scorer) whose base model also writes its reply as text, for the time that this takes; null: none.
    ``sampled`` says on how many rows a slow analyzer is tried, the first ones of the test side's shuffled order.
    ``left_out`` are analyzers that were trained without certain sets, and are held against the rows of those alone.
    """

    analyzers: dict[str, AnalyzerConfig] = Field(min_length=1)
    timed: Annotated[int, Field(ge=1)] = 32
    batches: list[Annotated[int, Field(ge=1, le=256)]] = Field(default=[1, 16], min_length=1)
    written: str | None = None
    sampled: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    left_out: list[LeftOut] = Field(default_factory=list)

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        named = [("written", self.written), *(("sampled", name) for name in self.sampled)]
        named += [("left_out.beside", each.beside) for each in self.left_out]
        for key, name in named:
            if name is not None and name not in self.analyzers:
                raise ValueError(f"{key}: {name!r} is none of the analyzers ({', '.join(self.analyzers)})")
        return self
