"""The analyzer of readable rules, which needs no model, and the numbers that the trained heads read.

Keywords give the type, literal tokens the pattern, and word overlap the evidence. A label that a rule chose gets a
probability of about 0.7, never 1, and one chosen because no rule matched gets less. Keywords and numbers are ours, not
the paper's. A keyword's weight: 3 alone decides against a lesser one, 1 only leans.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import Stemmer

from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput, make_analysis
from okralong.pipelines.core.types import Analysis, QuestionType

Keyword = tuple[re.Pattern[str], float]


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
"""``extractive`` has no keywords: it is what remains."""

COMPARATIVE: Final = re.compile(
    r"\b(more|less|fewer|higher|lower|larger|smaller|bigger|greater|older|younger|earlier|later|first|longer|shorter|"
    r"faster|slower|better|worse|same|highest|lowest|largest|smallest|oldest|youngest)\b",
    re.IGNORECASE,
)
"""With two names or more in a question, a comparative makes it one of several sources."""

# Words of questions and passages: content words, stems, and what looks like a name.

_WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019&-]*|\d[\d.,]*\d|\d")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d]{2,})[\"\u201d]")
_NAME = re.compile(r"\b[A-Z][\w&'\u2019.-]*(?:\s+(?:of|the|and|&|de|van)\s+(?=[A-Z])|\s+(?=[A-Z]))?")

_UNTOLD = """a about according after all also am an and any are as at be been being between both but by can could did do
does doing done during each either for from given had has have having he her his how if in into is it its itself like
many may me might more most much must neither no nor not of off on one or other our over per please same shall she
should so some such tell than that the their them then there these they this those through to total under until up
upon us was we were what when where whether which while who whom whose why will with within would year years you
your"""

STOP_WORDS = frozenset(_UNTOLD.split())
"""Words that say nothing about where the evidence is; ours."""


@lru_cache(maxsize=1)
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """Words and numbers of ``text`` in lower case, a possessive 's cut off."""
    return [re.sub(r"['\u2019]s?$", "", word) for word in (match.group().lower() for match in _WORD.finditer(text))]


def content_stems(text: str) -> list[str]:
    """Stems of the words that carry content, each once, in the order of their first use."""
    kept = dict.fromkeys(word for word in words(text) if word not in STOP_WORDS and len(word) > 1)
    return list(dict.fromkeys(_stemmer().stemWords(list(kept))))


def names(question: str) -> list[str]:
    """Runs of capitalised words, each once; a lone capitalised word that only opens the sentence does not count."""
    found: list[str] = []
    start, run = 0, ""
    for match in _NAME.finditer(question):
        if run and match.start() == start:
            run += match.group()
        else:
            _keep_name(found, run, start - len(run))
            run = match.group()
        start = match.end()
    _keep_name(found, run, start - len(run))
    return list(dict.fromkeys(found))


def _keep_name(found: list[str], run: str, at: int) -> None:
    name = re.sub(r"['\u2019]s?$", "", run.strip(" .,"))
    first, _, rest = name.partition(" ")
    if at == 0 and first.lower() in STOP_WORDS | {"describe", "explain", "summarise", "summarize", "list", "compare"}:
        name = rest
    if name and name.lower() not in STOP_WORDS:
        found.append(name)


def literal_tokens(question: str) -> list[str]:
    """What a question can be looked up by word for word: numbers, quoted strings, names, ticker-like tokens."""
    quoted = _QUOTED.findall(question)
    numbers = re.findall(r"\d[\d.,]*\d|\d", question)
    tickers = re.findall(r"\b(?:[A-Z]{2}[A-Z\d]*|[A-Za-z]+\d\w*)\b", question)
    return list(dict.fromkeys([*quoted, *numbers, *names(question), *tickers]))


# Features: what can be told of a question and its primary passages without a model, as numbers near 1.
#
# Three kinds: how the two retrievers scored their first chunks and how far they agree, how much of the question stands
# in the passages, and what the question's own words look like. All are ours.

T = TypeVar("T")

Features = npt.NDArray[np.float32]

PASSAGES: Final = 3
"""Passages that are looked at one by one: as many as primary retrieval finds (paper appendix B.3)."""

RANKS: Final = (1, 2, 4, 9, 19)
"""Ranks, from 0, whose scores are held against the first's."""

DEPTHS: Final = (1, 3, 5, 10, 20)
"""How far down the two retrievers' lists are held against each other; ours."""

_OPENINGS: Final = ("who", "whose", "when", "where", "what", "which", "why", "how many", "how much", "how", "in what")
_ASKS_YES_NO: Final = re.compile(r"^(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.I)
_YEAR: Final = re.compile(r"\b(19|20)\d\d\b")
_NUMBER: Final = re.compile(r"\d[\d,.]*")


def features(asked: AnalysisInput) -> Features:
    """The numbers of one question, float32, shape (``COUNT``,). Passages and scores may be missing: they count as 0."""
    return np.array(
        [
            *_exact_scores(asked.scores.exact),
            *_semantic_scores(asked.scores.semantic),
            *_agreement(asked.scores.semantic_ranks),
            *_covered(asked.question, asked.passages),
            *_wording(asked.question),
        ],
        dtype=np.float32,
    )


def _exact_scores(scores: Sequence[float]) -> list[float]:
    """BM25's first score, squashed, and how far it stands out: BM25 has no upper bound, so the rest is relative."""
    first = scores[0] if scores else 0.0
    gaps = [scores[rank] / first if len(scores) > rank and first > 0 else 0.0 for rank in RANKS]
    return [float(first > 0), np.log1p(max(first, 0.0)) / 3, *gaps]


def _semantic_scores(scores: Sequence[float]) -> list[float]:
    """The first cosine, and by how much the others fall behind it."""
    first = scores[0] if scores else 0.0
    gaps = [first - scores[rank] if len(scores) > rank else 0.0 for rank in RANKS]
    return [float(bool(scores)), first, *(4 * gap for gap in gaps)]


def _agreement(semantic_ranks: Sequence[int]) -> list[float]:
    """Shares of the exact retriever's first chunks that stand among as many first ones of the semantic retriever."""
    return [_share(semantic_ranks[:depth], range(depth).__contains__) for depth in DEPTHS]


def _covered(question: str, passages: Sequence[str]) -> list[float]:
    """Shares of the question's content words, names and numbers that the passages hold, together and one by one."""
    stems = [set(content_stems(passage)) for passage in passages]
    wanted, literals = content_stems(question), [token.casefold() for token in literal_tokens(question)]
    texts = [passage.casefold() for passage in passages]
    single = [_share(wanted, held.__contains__) for held in stems[:PASSAGES]]
    together = set().union(*stems)
    everywhere = _share(wanted, lambda stem: all(stem in held for held in stems)) if stems else 0.0
    named = [name.casefold() for name in names(question)]
    return [
        *(single + [0.0] * PASSAGES)[:PASSAGES],
        _share(wanted, lambda stem: stem in together),
        everywhere,
        _share(literals, lambda token: any(token in text for text in texts)),
        _share(named, lambda name: any(name in text for text in texts)),
        max((_share(named, text.__contains__) for text in texts), default=0.0),
        min(len("".join(passages)) / 2000, 2.0),
        min(sum(len(_NUMBER.findall(text)) for text in texts) / 60, 2.0),
    ]


def _wording(question: str) -> list[float]:
    low = question.casefold().strip()
    strongest = [
        max((weight for pattern, weight in keywords if pattern.search(question)), default=0.0) / 3
        for keywords in KEYWORDS.values()
    ]
    return [
        min(len(low.split()) / 20, 3.0),
        min(len(names(question)) / 3, 2.0),
        min(len(_NUMBER.findall(question)) / 3, 2.0),
        min(len(_YEAR.findall(question)) / 2, 2.0),
        float(bool(COMPARATIVE.search(question))),
        float(" or " in low),
        float(" and " in low),
        float(bool(_ASKS_YES_NO.match(low))),
        *(float(low.startswith(opening)) for opening in _OPENINGS),
        *strongest,
    ]


def _share(wanted: Sequence[T], held: Callable[[T], bool]) -> float:
    return sum(map(held, wanted)) / len(wanted) if wanted else 0.0


COUNT: Final = len(features(AnalysisInput("", ())))
"""How many numbers there are."""

EXTRACTIVE_WEIGHT: Final = 1.5
"""What a question with no keyword at all weighs as extractive; one weak keyword does not outweigh it."""

COMPARED_NAMES_WEIGHT: Final = 2.0
"""Two names or more and a comparative, without any other keyword of a comparison."""

SMOOTHING: Final = 0.35
"""Added to every type's weight, so that no type gets probability 0: a single strong keyword ends near 0.6."""

EVIDENCE_SHARE: Final = 0.6
"""Share of the question's content words, by stem, that the passages must hold for "evidence present"."""

EXACT_SHARE: Final = 0.5
"""Share of the question's literal tokens that the passages must hold word for word for "exact"."""

SEMANTIC_SHARE: Final = 0.35
"""With fewer of the content words than this in the passages, the wording differs: "semantic"."""

SURE: Final = 0.7
"""Probability of a pattern that a rule chose; the rest is shared by the others."""


class KeywordRules:
    """Keywords for the type, literal tokens for the pattern, word overlap for the evidence."""

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
    for question_type, keywords in KEYWORDS.items():
        # The strongest keyword counts whole and the others a little: ten weak hints are not one proof.
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
