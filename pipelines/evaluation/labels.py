"""The analyzer's three labels as gold: from the set's own annotation and from what our retrievers really find.

The bench uses them as the upper bound of any analyzer, training as what is to be learned.
"""

from __future__ import annotations

from typing import Final

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, make_analysis
from okralong.pipelines.core.types import Analysis, Pattern

PATTERN_CHUNKS: Final = 5
"""Chunks of each retriever that are compared: the factoid scope (paper appendix B.3)."""

PATTERN_MARGIN: Final = 0.0
"""One side must hold more of the evidence than the other by more than this share to be preferred. Ours."""


def pattern_label(exact_share: float, semantic_share: float) -> Pattern:
    """The side whose own chunks hold more of the gold evidence (shares 0 to 1), or "same"."""
    if exact_share > semantic_share + PATTERN_MARGIN:
        return "exact"
    return "semantic" if semantic_share > exact_share + PATTERN_MARGIN else "same"


def evidence_label(share: float) -> bool:
    """Whether the primary chunks hold the evidence: all of it (``share`` is 0 to 1)."""
    return share >= 1.0


def gold_analysis(question_type: str, pattern: Pattern, evidence: bool) -> Analysis:
    """An analysis that is sure of these labels. Raises ValueError for a type that is none of the five."""
    if question_type not in TYPES:
        raise ValueError(f"{question_type!r} is none of the question types {', '.join(TYPES)}")
    said = "yes" if evidence else "no"
    return make_analysis(
        {label: float(label == question_type) for label in TYPES},
        {label: float(label == pattern) for label in PATTERNS},
        {label: float(label == said) for label in EVIDENCE},
        "gold",
    )
