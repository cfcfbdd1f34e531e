"""What every analyzer does, whatever it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.core.types import Analysis


class Analyzer(Protocol):
    """Says of each question what type it is, how its evidence is found, and whether the passages hold it."""

    @property
    def name(self) -> str:
        """Who speaks; written into every ``Analysis``."""
        ...

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """One analysis for each input, in their order."""
        ...
