"""An analyzer with a memory: a sweep asks it the same of a question at every point of every curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from okralong.pipelines.answering.analysis import AnalysisInput, Analyzer
from okralong.pipelines.core.types import Analysis


@dataclass
class Remembered:
    """The same analyzer, asked once for each input."""

    analyzer: Analyzer
    _said: dict[AnalysisInput, Analysis] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See ``Analyzer``."""
        return self.analyzer.name

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        new = [asked for asked in dict.fromkeys(batch) if asked not in self._said]
        self._said.update(zip(new, self.analyzer.analyze(new), strict=True))
        return [self._said[asked] for asked in batch]
