"""Which readers a report compares (``configs/training/reader_report.yaml``)."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.llm.config import CompletionLimits, LlmConfig
from okralong.pipelines.models.weights import EMBEDDED

TRIVIAL: Final = "best sentence"
"""The name of the reader that every report has, which is no model."""


class ReaderReportConfig(Settings):
    """``readers`` by the names that the report gives them, each an ``llm`` section with base_url embedded. Their
    ``max_completion_tokens`` are the report's ``limits``.

    ``rows`` answer rows are asked, the first ones of the test side's drawn order, ``split`` and ``step`` rows of those
    roles; ``expressions`` rows of arithmetic type are asked both for the expression and for the result. ``timed``
    further answer rows are for the speed alone. ``base`` names the reader against which the others are held.
    """

    readers: dict[str, LlmConfig] = Field(min_length=1)
    base: str
    rows: Annotated[int, Field(ge=1)]
    split: Annotated[int, Field(ge=0)] = 0
    step: Annotated[int, Field(ge=0)] = 0
    expressions: Annotated[int, Field(ge=0)] = 0
    timed: Annotated[int, Field(ge=1)] = 8
    limits: CompletionLimits = CompletionLimits()

    @model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        if self.base not in self.readers:
            raise ValueError(f"base: {self.base!r} is none of the readers ({', '.join(self.readers)})")
        if TRIVIAL in self.readers:
            raise ValueError(f"readers: {TRIVIAL!r} is the trivial reader's name, which every report has")
        remote = [name for name, llm in self.readers.items() if llm.base_url != EMBEDDED]
        if remote:
            raise ValueError(f"readers.{remote[0]}.base_url: a report serves its readers itself; say embedded")
        return self
