"""An analyzer whose labels are wrong on purpose: how much does the method lose for each wrong label?"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput, make_analysis
from okralong.pipelines.answering.analyzers.base import Analyzer
from okralong.pipelines.core.types import Analysis

Label = TypeVar("Label", bound=str)


@dataclass(frozen=True)
class Corrupted:
    """``analyzer``, each of whose three labels is another one with probability ``share``, drawn evenly.

    Which ones are wrong follows from ``seed`` and the question alone (its query_id, or its words where it has none), so
    that every method and every rerun meets the same; and what is wrong at a share is wrong at every higher one. A label
    that was changed is given as if it were sure.
    """

    analyzer: Analyzer
    share: float
    seed: int

    @property
    def name(self) -> str:
        """See ``Analyzer``."""
        return f"{self.analyzer.name}, {self.share:.0%} corrupted (seed {self.seed})"

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        return [self._wrong(asked, said) for asked, said in zip(batch, self.analyzer.analyze(batch), strict=True)]

    def _wrong(self, asked: AnalysisInput, said: Analysis) -> Analysis:
        key = asked.query_id or asked.question
        held = EVIDENCE[0 if said.evidence else 1]
        kind = self._drawn(key, "type", said.type, TYPES)
        pattern = self._drawn(key, "pattern", said.pattern, PATTERNS)
        evidence = self._drawn(key, "evidence", held, EVIDENCE)
        yes = said.evidence_probability
        return make_analysis(
            said.type_probabilities if kind == said.type else _sure(kind, TYPES),
            said.pattern_probabilities if pattern == said.pattern else _sure(pattern, PATTERNS),
            dict(zip(EVIDENCE, (yes, 1 - yes), strict=True)) if evidence == held else _sure(evidence, EVIDENCE),
            self.name,
        )

    def _drawn(self, key: str, field: str, said: Label, labels: Sequence[Label]) -> Label:
        digest = hashlib.sha256(f"{self.seed}\0{field}\0{key}".encode()).digest()
        dice = random.Random(digest)
        if dice.random() >= self.share:
            return said
        return dice.choice([label for label in labels if label != said])


def _sure(label: str, labels: Sequence[str]) -> dict[str, float]:
    return {each: float(each == label) for each in labels}
