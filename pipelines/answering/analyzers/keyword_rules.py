"""An analyzer made of readable rules, which needs no model.

It is honest about its limits: a label that a rule chose gets about 0.7, never 1, and one chosen because no rule spoke
gets less. Every number here is ours, not the paper's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput, make_analysis
from okralong.pipelines.answering.analyzers.cues import COMPARATIVE, CUES
from okralong.pipelines.answering.analyzers.words import content_stems, literal_tokens, names
from okralong.pipelines.core.types import Analysis

EXTRACTIVE_WEIGHT: Final = 1.5
"""What a question with no cue at all weighs as extractive; one weak cue does not outweigh it."""

COMPARED_NAMES_WEIGHT: Final = 2.0
"""Two names or more and a comparative, without any other cue of a comparison."""

SMOOTHING: Final = 0.35
"""Added to every type's weight, so that no type gets probability 0: a single strong cue ends near 0.6."""

EVIDENCE_SHARE: Final = 0.6
"""Share of the question's content words, by stem, that the passages must hold for "evidence present"."""

EXACT_SHARE: Final = 0.5
"""Share of the question's literal tokens that the passages must hold word for word for "exact"."""

SEMANTIC_SHARE: Final = 0.35
"""With fewer of the content words than this in the passages, the wording differs: "semantic"."""

SURE: Final = 0.7
"""Probability of a pattern that a rule chose; the rest is shared by the others."""


class KeywordRules:
    """Cue words for the type, literal tokens for the pattern, word overlap for the evidence."""

    name = "keyword-rules"

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """One analysis for each input, in their order. Any text is accepted."""
        return [
            make_analysis(type_scores(item.question), *_passage_scores(item.question, item.passages), self.name)
            for item in batch
        ]


def type_scores(question: str) -> Mapping[str, float]:
    """A positive weight for each question type."""
    weights: dict[str, float] = dict.fromkeys(TYPES, 0.0)
    weights["extractive"] = EXTRACTIVE_WEIGHT
    for question_type, cues in CUES.items():
        # The strongest cue counts whole and the others a little: ten weak hints are not one proof.
        found = sorted((weight for pattern, weight in cues if pattern.search(question)), reverse=True)
        if found:
            weights[question_type] = found[0] + 0.2 * len(found[1:])
    if len(names(question)) >= 2 and COMPARATIVE.search(question):
        weights["multi-source"] = max(weights["multi-source"], COMPARED_NAMES_WEIGHT)
    strongest = max(weights.values())
    if strongest > EXTRACTIVE_WEIGHT:
        weights["extractive"] = EXTRACTIVE_WEIGHT / 3
    return {label: weight + SMOOTHING for label, weight in weights.items()}


def _passage_scores(question: str, passages: Sequence[str]) -> tuple[Mapping[str, float], Mapping[str, float]]:
    share = covered_share(question, passages)
    text = "\n".join(passages).casefold()
    literals = literal_tokens(question)
    literal_share = sum(token.casefold() in text for token in literals) / len(literals) if literals else 0.0
    pattern = "same"
    if literals and literal_share >= EXACT_SHARE:
        pattern = "exact"
    elif share < SEMANTIC_SHARE:
        pattern = "semantic"
    other = (1 - SURE) / (len(PATTERNS) - 1)
    patterns: dict[str, float] = {label: SURE if label == pattern else other for label in PATTERNS}
    return patterns, dict(zip(EVIDENCE, _evidence(share), strict=True))


def covered_share(question: str, passages: Sequence[str]) -> float:
    """Share of the question's content words, by stem, that stand in the passages; 0 when it has none."""
    wanted = content_stems(question)
    found = set(content_stems("\n".join(passages)))
    return sum(stem in found for stem in wanted) / len(wanted) if wanted else 0.0


def _evidence(share: float) -> tuple[float, float]:
    """Probabilities of yes and no: 0.5 at the threshold, at most 0.8 and at least 0.2 at the ends."""
    above = (share - EVIDENCE_SHARE) / (1 - EVIDENCE_SHARE)
    below = (share - EVIDENCE_SHARE) / EVIDENCE_SHARE
    yes = 0.5 + 0.3 * (above if share >= EVIDENCE_SHARE else below)
    return yes, 1 - yes
