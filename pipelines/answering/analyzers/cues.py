"""The cue words of the rule analyzer, one list for each question type. All of them are ours, not the paper's.

A pattern's weight says how sure it makes us: 3 alone decides against a lesser cue, 1 only leans.
"""

from __future__ import annotations

import re
from typing import Final

from okralong.pipelines.core.types import QuestionType

Cue = tuple[re.Pattern[str], float]


def _cues(*pairs: tuple[str, float]) -> tuple[Cue, ...]:
    return tuple((re.compile(pattern, re.IGNORECASE), weight) for pattern, weight in pairs)


ARITHMETIC: Final = _cues(
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

MULTI_SOURCE: Final = _cues(
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

MULTI_BRIDGE: Final = _cues(
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

ABSTRACTIVE: Final = _cues(
    (r"^(why|how come)\b", 3),
    (r"^how (do|does|did|is|are|was|were|has|have|can|could|will|would|might|should)\b", 2.5),
    (r"\b(describe|summari[sz]e|explain|outline|discuss|elaborate|characteri[sz]e|give an overview)\b", 3.5),
    (r"\bwhat (are|were|is|was) the (main|key|major|primary|principal|most important|overall|general)\b", 3),
    (r"\b(what|which) (factors|reasons|risks|challenges|strategies|steps|measures|themes|trends|issues)\b", 3),
    (r"\b(summary|overview|implications?|rationale|reasons? for|impact of|effects? of|role of|significance)\b", 2.5),
    (r"\bin what ways?\b", 3),
    (r"\bhow\b.{0,60}\b(affect|impact|influence|contribute|work|manage|address|respond)", 2),
)

CUES: Final[dict[QuestionType, tuple[Cue, ...]]] = {
    "arithmetic": ARITHMETIC,
    "multi-source": MULTI_SOURCE,
    "multi-bridge": MULTI_BRIDGE,
    "abstractive": ABSTRACTIVE,
}
"""``extractive`` has no cues: it is what remains."""

COMPARATIVE: Final = re.compile(
    r"\b(more|less|fewer|higher|lower|larger|smaller|bigger|greater|older|younger|earlier|later|first|longer|shorter|"
    r"faster|slower|better|worse|same|highest|lowest|largest|smallest|oldest|youngest)\b",
    re.IGNORECASE,
)
"""With two names or more in a question, a comparative makes it one of several sources."""
