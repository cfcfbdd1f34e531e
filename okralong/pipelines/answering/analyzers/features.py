"""Compute features for the trained heads: numbers, about 1 in size, that describe a question and its primary passages.

They are used in addition to the text. There are three kinds: how the two retrievers scored their first chunks and how
much they agree, how much of the question the passages contain, and how the question is worded. Not from the paper.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.rules import COMPARATIVE, KEYWORDS
from okralong.pipelines.answering.analyzers.words import content_stems, literal_tokens, names

T = TypeVar("T")

Features = npt.NDArray[np.float32]

PASSAGES: Final = 3
"""Number of passages with features of their own: as many as primary retrieval returns (paper appendix B.3)."""

RANKS: Final = (1, 2, 4, 9, 19)
"""Ranks (from 0) of the chunks whose scores are compared with the first."""

DEPTHS: Final = (1, 3, 5, 10, 20)  # project default
"""Numbers of first chunks for which the two retrievers' lists are compared."""

_OPENINGS: Final = ("who", "whose", "when", "where", "what", "which", "why", "how many", "how much", "how", "in what")
_ASKS_YES_NO: Final = re.compile(r"^(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.I)
_YEAR: Final = re.compile(r"\b(19|20)\d\d\b")
_NUMBER: Final = re.compile(r"\d[\d,.]*")


def features(asked: AnalysisInput) -> Features:
    """Return the features of one question, float32, shape (``COUNT``,); missing passages and scores count as 0."""
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
    """Return features of BM25's scores: the logarithm of the first, and the others relative to it.

    The logarithm is used because BM25 scores have no upper bound.
    """
    first = scores[0] if scores else 0.0
    gaps = [scores[rank] / first if len(scores) > rank and first > 0 else 0.0 for rank in RANKS]
    return [float(first > 0), np.log1p(max(first, 0.0)) / 3, *gaps]


def _semantic_scores(scores: Sequence[float]) -> list[float]:
    first = scores[0] if scores else 0.0
    gaps = [first - scores[rank] if len(scores) > rank else 0.0 for rank in RANKS]
    return [float(bool(scores)), first, *(4 * gap for gap in gaps)]


def _agreement(semantic_ranks: Sequence[int]) -> list[float]:
    return [_share(semantic_ranks[:depth], range(depth).__contains__) for depth in DEPTHS]


def _covered(question: str, passages: Sequence[str]) -> list[float]:
    """Return the shares of the question's content words, names and numbers in the passages, and the passages' sizes."""
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
"""Number of features."""
