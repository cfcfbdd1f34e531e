"""Which analyzers a report compares (``configs/training/report.yaml``)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.answering.analyzers.config import AnalyzerConfig
from okralong.pipelines.settings import Settings


class ReportConfig(Settings):
    """``analyzers`` by the names that the report gives them; majority class and keyword rules are always beside them.

    ``timed`` questions are used for each time, at each of the ``batches``; ``written`` names the analyzer (a
    label_scorer) whose base model also writes its reply as text, for the time that this takes; null: none.
    """

    analyzers: dict[str, AnalyzerConfig] = Field(min_length=1)
    timed: Annotated[int, Field(ge=1)] = 32
    batches: list[Annotated[int, Field(ge=1, le=256)]] = Field(default=[1, 16], min_length=1)
    written: str | None = None
