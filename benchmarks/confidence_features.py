"""What is known of an answer, and weights by which that foretells whether it is right.

Ours, and not in the product: on test these weights order answers no better than the cross-encoder's own probability
(benchmarks/results/confidence_test.md, made by ``benchmarks.confidence``). Everything rests on its reading of the
question with each passage shown, on what the answer says and cites, and on the question's analysis.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from okralong.pipelines.answering.confidence import holds
from okralong.pipelines.answering.reading import probability
from okralong.pipelines.core.types import Answer, InputError, Reading
from okralong.pipelines.reporting.statistics import Floats

PENALTY: Final = 0.1
"""Inverse strength of the penalty on weights; ours: 0.01 and 0.1 order answers alike (areas under the risk-coverage
curve within 0.003 on validation, cross-validated)."""
LEAST: Final = 1e-4
"""A probability counts as at least so far from 0 and 1 where its logarithm is taken; ours."""
FARTHEST: Final = 8.0
"""Relevances farther apart than this, in the cross-encoder's own unit, count as this far; ours."""

Features = Mapping[str, float]
"""What is known of an answer, by name."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A logistic regression that says how probably an answer is right: sigmoid(``shift`` + sum of weight x feature)."""

    shift: float
    weights: Mapping[str, float]

    def probability(self, features: Features) -> float:
        """The probability for ``answer_features``. Raises KeyError for a weight whose feature is missing."""
        total = self.shift + sum(weight * features[name] for name, weight in self.weights.items())
        return 1 / (1 + math.exp(-min(max(total, -30.0), 30.0)))


def fit_judge(rows: Sequence[Features], marks: Floats) -> Judge:
    """Weights by which the features foretell the marks (0 to 1, a half counts as half right), shape (rows,).

    Features are brought to unit variance before the penalty on their weights. Raises InputError where there are no
    rows, or marks are all 0 or all 1.
    """
    from sklearn.linear_model import LogisticRegression

    if not rows or not 0 < float(marks.mean()) < 1:
        raise InputError(
            f"Weights cannot be fitted on {len(rows)} answers with a mean mark of "
            f"{float(marks.mean()) if len(marks) else 0:.2f}: right and wrong ones are needed. Ask more questions."
        )
    names = sorted(rows[0])
    values = np.array([[row[name] for name in names] for row in rows], dtype=np.float64)
    center, spread = values.mean(axis=0), np.maximum(values.std(axis=0), 1e-6)
    twice = (np.concatenate([values, values]) - center) / spread
    truth, counts = np.repeat([1, 0], len(rows)), np.concatenate([marks, 1 - marks])
    held = counts > 0
    model = LogisticRegression(C=PENALTY, max_iter=1000).fit(twice[held], truth[held], counts[held])
    weights = model.coef_[0] / spread
    shift = float(model.intercept_[0] - weights @ center)
    return Judge(shift, {name: float(weight) for name, weight in zip(names, weights, strict=True)})


def _behind(answer: Answer, readings: Sequence[Reading]) -> list[Reading]:
    """The readings of the passages cited; of all shown where none is."""
    pairs = zip(answer.context, readings, strict=True)
    cited = [reading for passage, reading in pairs if any(holds(passage, each) for each in answer.citations)]
    return cited or list(readings)


# What is known. Each feature is a small number; of what is not known the value that says nothing.

_WORD: Final = re.compile(r"\d(?:[\d.,]*\d)?|[^\W\d_]+")
_NAME: Final = re.compile(r"(?<!^)(?<![.?!]\s)\b[A-Z][\w&-]*|\d(?:[\d.,]*\d)?")
"""A word with a capital that does not begin the sentence, or a number: what a question is about by name."""
_LINKING: Final = """
a an the of in on at to for from by with and or is was were are be been did do does has have had what which who whom
whose when where why how much many it its this that these those as than per not no if
"""
_COMMON: Final = frozenset(_LINKING.split())
"""Words that tell nothing of what a question is about."""
_FEW: Final = 6
"""Words that an amount may have at most; ours."""
_SAID_SHORTLY: Final = frozenset({"yes", "no", "maybe", "true", "false"})


def _passage_features(question: str, texts: Sequence[str], readings: Sequence[Reading]) -> dict[str, float]:
    """Of a question with its passages: ``holds`` (logit of the most probable passage to hold the answer),
    ``holds_next`` (of the second), ``span`` (logarithm of the most probable place's share in its passage), ``lead`` (by
    how much the best place is more probable than the second passage's), ``relevance`` (the highest), ``margin`` (to the
    second), ``covered`` (share of the question's words that stand in the best passage), ``named`` (of its names and
    numbers, in any passage), ``named_best`` (in the best one), ``long`` (logarithm of its words).
    """
    order = sorted(range(len(readings)), key=lambda n: -probability(readings[n]))
    held = sorted((each.answerable or 0.0 for each in readings), reverse=True)
    relevant = sorted((each.relevance for each in readings), reverse=True)
    sure = [probability(readings[n]) for n in order]
    wanted = _telling(question)
    best = _words(texts[order[0]]) if order else frozenset()
    names = [_plain(each) for each in _NAME.findall(question)]
    shown = frozenset(chain.from_iterable(map(_words, texts)))
    return {
        "holds": _logit(held[0] if held else 0.0),
        "holds_next": _logit(held[1] if len(held) > 1 else 0.0),
        "span": math.log(max(readings[order[0]].span or 0.0, LEAST)) if order else math.log(LEAST),
        "lead": sure[0] - sure[1] if len(sure) > 1 else (sure[0] if sure else 0.0),
        "relevance": relevant[0] if relevant else 0.0,
        "margin": min(relevant[0] - relevant[1], FARTHEST) if len(relevant) > 1 else FARTHEST,
        "covered": _share(wanted, best),
        "named": _share(names, shown),
        "named_best": _share(names, best),
        "long": math.log1p(len(_WORD.findall(question))),
    }


def answer_features(
    question: str, answer: Answer, texts: Sequence[str], readings: Sequence[Reading]
) -> dict[str, float]:
    """Those of ``passage_features``, and of the answer: ``cited`` (it names a source that was found), ``cited_holds``
    (logit of the best cited passage to hold the answer), ``cited_relevance`` (less the highest relevance), ``agrees``
    (words that it shares with the most probable place, as F1; ``agrees_any``: with that of any passage), ``verbatim``
    (it stands in a passage cited, word for word; where none is cited, in one shown), ``told`` (share of its words that
    stand in the passages), ``length``, ``yes_no``, ``fits`` (1 where it is of the kind that is asked for, -1 where of
    another, 0 where none is known), ``sum`` (the question is for a calculation), ``wordy`` (it repeats the
    question), the question's type as analysed with how sure that is, and whether the question was taken
    apart (``parts``).
    """
    features = _passage_features(question, texts, readings)
    behind = _behind(answer, readings)
    best = max(behind, key=lambda each: each.answerable or 0.0, default=Reading(0.0))
    said = _listed(answer.answer)
    places = [
        (probability(reading), _overlap(said, _listed(text[reading.start : reading.end])))
        for text, reading in zip(texts, readings, strict=True)
        if reading.start >= 0
    ]
    cited = [
        text
        for passage, text in zip(answer.context, texts, strict=bool(readings))
        if any(holds(passage, each) for each in answer.citations)
    ]
    shown = frozenset(chain.from_iterable(map(_words, texts)))
    kind = "" if answer.analysis is None else answer.analysis.type
    sure = 0.0 if answer.analysis is None else answer.analysis.type_probabilities.get(kind, 0.0)
    workflow = "" if answer.plan is None else answer.plan.workflow
    return features | {
        "cited": float(bool(answer.citations)),
        "cited_holds": _logit(best.answerable or 0.0),
        "cited_relevance": max(best.relevance - features["relevance"], -FARTHEST) if behind else 0.0,
        "agrees": max(places, default=(0.0, 0.0))[1],
        "agrees_any": max((share for _, share in places), default=0.0),
        "verbatim": float(any(_stands(said, text) for text in cited or texts)),
        "told": _share(said, shown),
        "length": math.log1p(len(said)),
        "yes_no": float(bool(said) and said[0] in _SAID_SHORTLY),
        "fits": _fits(question, answer.answer),
        "sum": float(bool(_SUM.search(question))),
        "wordy": _share(said, _telling(question)) if said else 0.0,
        **{each: float(kind == each) * sure for each in ("arithmetic", "abstractive", "multi-source", "multi-bridge")},
        "parts": float(workflow in ("split", "step")),
    }


_KINDS: Final = (
    (re.compile(r"^(is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b", re.I), "yes or no"),
    (re.compile(r"\b(when|(what|which)( \w+)? (year|date|day|month))\b", re.I), "date"),
    (
        re.compile(
            r"\bhow (many|much|large|old|long|high|far)\b"
            r"|\b(amounts?|percent(age)?|number|values?|rates?|ratio|totals?|price|costs?|revenues?|sales|income|expenses?"
            r"|balance) (of|was|were|is|are|for|in|from|to)\b",
            re.I,
        ),
        "number",
    ),
    (re.compile(r"\bwho(m|se)?\b", re.I), "name"),
)
"""What a question asks for, by its words; the first that fits."""
_SUM: Final = re.compile(
    r"\b(change|difference|increase|decrease|growth|grow|decline|average|sum|combined|ratio|proportion|portion|exceed|"
    r"(more|less|higher|lower|greater) than|compared|as a percent(age)?)\b",
    re.I,
)
_YEAR: Final = re.compile(r"\b(1[89]|20)\d\d\b|\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b", re.I)


def _fits(question: str, said: str) -> float:
    asked = next((kind for pattern, kind in _KINDS if pattern.search(question.strip())), "")
    words = _listed(said)
    if not asked or not words:
        return 0.0
    is_kind = {
        "yes or no": words[0] in _SAID_SHORTLY,
        "date": _YEAR.search(said) is not None,
        "number": any(word[0].isdigit() for word in words) and len(words) <= _FEW,
        "name": any(word[0].isupper() for word in _WORD.findall(said)),
    }
    return 1.0 if is_kind[asked] else -1.0


def _plain(word: str) -> str:
    return word.replace(",", "").rstrip(".").casefold()


def _listed(text: str) -> list[str]:
    return [_plain(word) for word in _WORD.findall(text)]


def _words(text: str) -> frozenset[str]:
    return frozenset(_listed(text))


def _telling(text: str) -> frozenset[str]:
    return _words(text) - _COMMON


def _share(wanted: Sequence[str] | frozenset[str], held: frozenset[str]) -> float:
    """The share of ``wanted`` that is among ``held``; 1 where nothing is wanted."""
    return sum(word in held for word in wanted) / len(wanted) if wanted else 1.0


def _overlap(one: Sequence[str], other: Sequence[str]) -> float:
    """F1 of the words of two texts, each word once; 0 to 1."""
    shared = len(set(one) & set(other))
    return 2 * shared / (len(set(one)) + len(set(other))) if shared else 0.0


def _stands(said: Sequence[str], text: str) -> bool:
    return bool(said) and f" {' '.join(said)} " in f" {' '.join(_listed(text))} "


def _logit(share: float) -> float:
    share = min(max(share, LEAST), 1 - LEAST)
    return math.log(share / (1 - share))
