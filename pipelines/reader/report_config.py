"""Which readers a report compares (``configs/training/reader_report.yaml``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.llm.config import CompletionLimits, LlmConfig
from okralong.pipelines.settings import Settings


class ReaderReportConfig(Settings):
    """``readers`` by the names that the report gives them, each an ``llm`` section with base_url embedded.

    ``rows`` answer rows are asked, the first ones of the test side's drawn order, ``split`` and ``step`` rows of those
    roles; ``expressions`` rows of arithmetic type are asked both for the expression and for the result.
    ``timed`` further answer rows are for the speed alone. ``base`` names the reader against which the others are held.
    """

    readers: dict[str, LlmConfig] = Field(min_length=1)
    base: str
    rows: Annotated[int, Field(ge=1)]
    split: Annotated[int, Field(ge=0)] = 0
    step: Annotated[int, Field(ge=0)] = 0
    expressions: Annotated[int, Field(ge=0)] = 0
    timed: Annotated[int, Field(ge=1)] = 8
    limits: CompletionLimits = CompletionLimits()
