"""An analyzer that applies readable rules and needs no model.

The type is derived from keywords, the pattern from literal tokens, and the evidence from word overlap. A label that a
rule chose has a probability of about 0.7, never 1; a default label has less. The keywords are not from the paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput, analysis_for
from okralong.pipelines.answering.analyzers.words import content_stems, literal_tokens, names
from okralong.pipelines.core.types import Analysis, QuestionType

Keyword = tuple[re.Pattern[str], float]
"""A pattern and its weight: 3 outweighs all smaller ones, 1 is only a hint."""


def _keywords(*pairs: tuple[str, float]) -> tuple[Keyword, ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), weight) for pattern, weight in pairs)


ARITHMETIC: Final = _keywords(
    (r"(\bper\s?cent(age)?\b|%).{0,30}\b(change|increase|decrease|growth|decline|rise|drop|of)\b", 3),
    (r"\b(change|increase|decrease|growth|decline|grow|grew|rise|drop)\b.{0,60}\b(per\s?cent(age)?|%)", 3),
    (r"\bwhat (is|was|were|are|would be) the (net |overall )?(change|difference|increase|decrease|growth)\b", 3),
    (r"\b\w+ (difference|change|ratio|margin)\b.{0,90}\b(between|from|in (fiscal )?(19|20)\d\d)\b", 2.5),
    (r"\b(growth|decline) rate\b|\brate of (growth|return|change)\b", 3),
    (r"\b(average|mean|median)\b", 2.5),
    (r"\b(sum|difference|ratio|proportion|quotient|product) (of|between)\b", 3),
    (r"\b(the )?(total|combined|cumulative|aggregate)\b.{0,50}\b(of|for|over|from|across|between|during)\b", 2),
    (r"\bhow (much|many) (more|less|fewer|higher|lower|larger|greater)\b", 3),
    (r"\bby how (much|many)\b", 3),
    (r"\bwhat (percent(age)?|share|fraction|portion|proportion)\b", 3),
    (r"\bas a (percent(age)?|share|fraction|proportion) of\b", 3),
    (r"\b(calculate|compute|add up|subtract)\b", 3),
    (r"\bhow (much|many)\b.{0,60}\b(in total|altogether|combined)\b", 3),
    (r"\b(change|increase|decrease|grow|rise|fall)\b.{0,40}\b(from|between)\b.{0,12}\b(19|20)\d\d\b", 2),
)

MULTI_SOURCE: Final = _keywords(
    (r"\b(which|who|what|whose)\b.{0,90}\b\w+(er|more|less|earlier|first|later)\b.{0,90},?\s\w[^,?]*\bor\b", 3.5),
    (r"\b(which|who|what) of\b.{0,60}\b(two|three|four|these|them|following|companies|segments)\b", 3),
    (r"\bwhich (one )?(is|was|has|had)\b.{0,60}\bor\b", 3),
    (r"\b(compare|compared (with|to)|in comparison|versus|vs\.?)\b", 3),
    (r"\bboth\b.{0,60}\band\b", 3),
    (r"\b(is|are|was|were|do|does|did|have|has)\b.{0,80}\b(both|the same|in common|also)\b", 2.5),
    (r"^(which|who|what)\b.{4,120}?,\s+(the )?[\w\"'][^?]{0,80}\bor\b[^?]+\??\s*$", 3.5),
    (r"^(is|are|was|were|did|does|do|has|have)\b.{0,80}\bor\b", 3),
    (r"\bin common\b", 3),
    (r"\b(difference|differ)\b.{0,20}\bbetween\b.{0,40}\b(approach|method|policy|strategy|view|model)", 2),
)

MULTI_BRIDGE: Final = _keywords(
    (r"\b(of|by|for|in|with|from|at|did|is|was|does|has) the \w+(\s\w+){0,3}(,)? (that|who|which|whose|where)\b", 3),
    (
        r"\bthe (company|firm|person|man|woman|author|actor|actress|director|subsidiary|segment|team|band|city|country|"
        r"university|officer|executive|film|book|founder) (that|who|which|whose|where)\b",
        3,
    ),
    (r"\b(where|when|what|which|who)\b.{0,40}\bthe \w+ of the \w+(\s\w+){0,3} of\b", 3),
    (
        r"\b(where|when)\b.{0,12}\b(was|were|did|is|does) the \w+(\s\w+){0,2} of\b.{0,80}"
        r"\b(born|die|died|live|study|studied|educated|graduate|graduated|work|worked|headquartered|located|founded)\b",
        3.5,
    ),
    (
        r"\b(where|when|what|which|who|why)\b.{0,60}\b(the|a) (director|performer|composer|author|founder|writer|"
        r"singer|producer|star|wife|husband|spouse|father|mother|child|son|daughter|maker|creator|owner|inventor) of\b",
        3,
    ),
    (
        r"\b(paternal|maternal) grand\w+|\b(father|mother|brother|sister|son|daughter|child)-in-law\b|"
        r"\bstep(father|mother)",
        3,
    ),
    (
        r"\b\w+ (of|by) the (same )?\w+ (starring|written|directed|founded|acquired|led|run|headed|sold|"
        r"headquartered)\b",
        2.5,
    ),
    (
        r"\b(?!(?:who|what|it|there|that)['\u2019]s)\w+['\u2019]s? (\w+['\u2019]s|(husband|wife|father|mother|spouse|"
        r"predecessor|successor|founder|parent company))\b",
        2,
    ),
    (r"\b(starring|featuring|directed by|written by) (an?|the) \w+( \w+){0,3} (of|from|who|that|born)\b", 3),
)

ABSTRACTIVE: Final = _keywords(
    (r"^(why|how come)\b", 3),
    (r"^how (do|does|did|is|are|was|were|has|have|can|could|will|would|might|should)\b", 2.5),
    (r"\b(describe|summari[sz]e|explain|outline|discuss|elaborate|characteri[sz]e|give an overview)\b", 3.5),
    (r"\bwhat (are|were|is|was) the (main|key|major|primary|principal|most important|overall|general)\b", 3),
    (r"\b(what|which) (factors|reasons|risks|challenges|strategies|steps|measures|themes|trends|issues)\b", 3),
    (r"\b(summary|overview|implications?|rationale|reasons? for|impact of|effects? of|role of|significance)\b", 2.5),
    (r"\bin what ways?\b", 3),
    (r"\bhow\b.{0,60}\b(affect|impact|influence|contribute|work|manage|address|respond)", 2),
)

KEYWORDS: Final[dict[QuestionType, tuple[Keyword, ...]]] = {
    "arithmetic": ARITHMETIC,
    "multi-source": MULTI_SOURCE,
    "multi-bridge": MULTI_BRIDGE,
    "abstractive": ABSTRACTIVE,
}
"""The keywords of each type. ``extractive`` has none, because it is the default."""

COMPARATIVE: Final = re.compile(
    r"\b(more|less|fewer|higher|lower|larger|smaller|bigger|greater|older|younger|earlier|later|first|longer|shorter|"
    r"faster|slower|better|worse|same|highest|lowest|largest|smallest|oldest|youngest)\b",
    re.IGNORECASE,
)
"""Comparatives. In a question with two or more names, one of them indicates several sources."""

EXTRACTIVE_WEIGHT: Final = 1.5
"""The weight of ``extractive``, which a single weak keyword of another type does not exceed."""

COMPARED_NAMES_WEIGHT: Final = 2.0
"""The least weight of ``multi-source`` for a question with two or more names and a comparative."""

SMOOTHING: Final = 0.35
"""Added to the weight of every type, so that none has probability 0. A single strong keyword then yields about 0.6."""

EVIDENCE_SHARE: Final = 0.6
"""Share of the question's content words, by stem, that the passages must contain for the evidence label "yes"."""

EXACT_SHARE: Final = 0.5
"""Share of the question's literal tokens that the passages must contain for the pattern "exact"."""

SEMANTIC_SHARE: Final = 0.35
"""The pattern is "semantic" if the passages contain less than this share of content words: the wording differs."""

SURE: Final = 0.7
"""Probability of the pattern that a rule chose; the others share the rest."""


class KeywordRules:
    """Derives the type from keywords, the pattern from literal tokens, the evidence from word overlap."""

    name = "keyword-rules"

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """Return one analysis for each input, in their order. Any text is accepted."""
        return [
            analysis_for(item, self.name, type_scores(item.question), *_passage_scores(item.question, item.passages))
            for item in batch
        ]


def type_scores(question: str) -> Mapping[str, float]:
    """Return a positive weight for each question type."""
    weights: dict[str, float] = dict.fromkeys(TYPES, 0.0)
    weights["extractive"] = EXTRACTIVE_WEIGHT
    for question_type, keywords in KEYWORDS.items():
        # The strongest keyword counts fully and the others only a little, since many weak hints are no proof.
        found = sorted((weight for pattern, weight in keywords if pattern.search(question)), reverse=True)
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
    """Return the share of the question's content words, by stem, that are in the passages; 0 if it has none."""
    wanted = content_stems(question)
    found = set(content_stems("\n".join(passages)))
    return sum(stem in found for stem in wanted) / len(wanted) if wanted else 0.0


def _evidence(share: float) -> tuple[float, float]:
    """Return the probabilities of "yes" and "no", between 0.2 and 0.8; both are 0.5 for a share at the threshold."""
    above = (share - EVIDENCE_SHARE) / (1 - EVIDENCE_SHARE)
    below = (share - EVIDENCE_SHARE) / EVIDENCE_SHARE
    yes = 0.5 + 0.3 * (above if share >= EVIDENCE_SHARE else below)
    return yes, 1 - yes
