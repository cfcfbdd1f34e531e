"""Signals: what a run knows about an answer, as named numbers from which its confidence is estimated.

They are stored with the answer, so that a model can be fitted again from run folders (``okralong calibrate``). A signal
that is not known is left out. Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from okralong.pipelines.answering.agreement import agreement, holds, place_of
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.answering.answer_types import AMOUNTS, TEXT, AnswerType
from okralong.pipelines.answering.retrieve import names_in
from okralong.pipelines.answering.support import Sought, stems
from okralong.pipelines.core.types import Analysis, Answer, Passage, Reading, RetrieverScores
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.periods import YEAR, dates


def retrieval_signals(scores: RetrieverScores) -> dict[str, float]:
    """Return the signals of primary retrieval."""
    found: dict[str, float] = {}
    if scores.exact:
        fifth = scores.exact[min(4, len(scores.exact) - 1)]
        found["bm25"] = math.log1p(max(scores.exact[0], 0.0))
        found["bm25_gap"] = 1 - fifth / scores.exact[0] if scores.exact[0] > 0 else 0.0
    if scores.semantic:
        found["cosine"] = scores.semantic[0]
        found["cosine_gap"] = scores.semantic[0] - scores.semantic[min(4, len(scores.semantic) - 1)]
    return found


def scope_signals(documents: int, named: Mapping[str, float], answer: Answer) -> dict[str, float]:
    """Return the signals of the scope.

    Args:
        documents: The number of documents in scope.
        named: The documents that the question names, with their shares; empty if the scope is one document.
        answer: The answer.
    """
    found = {"documents": math.log1p(documents), "named": 1.0 if documents == 1 else max(named.values(), default=0.0)}
    if answer.citations:
        best = max(named.values(), default=0.0)
        cited = max(named.get(each.doc_id, 0.0) for each in answer.citations)
        found["named_cited"] = 1.0 if documents == 1 else cited / best if best else 0.0
    return found


def text_signals(question: str, wanted: AnswerType, answer: Answer, texts: Sequence[str]) -> dict[str, float]:
    """Return the signals that question, answer and passages give without a model.

    Args:
        question: The question.
        wanted: The type of its answer.
        answer: The answer.
        texts: The parts of its context's passages that are judged.
    """
    asks = asked_kind(question)
    years, names = set(YEAR.findall(question)), names_in(question)
    shown = "\n".join([*texts, *dict.fromkeys(each.doc_id for each in answer.context)]).casefold()
    topic = stems(question)
    found = {
        "typed": float(wanted != TEXT),
        "amount": float(wanted.kind in AMOUNTS and not wanted.many),
        "question_words": math.log1p(len(question.split())),
        "question_years": float(bool(years)),
        **{f"asks_{kind}": float(asks == kind) for kind in _KINDS},
        "passages": math.log1p(len(answer.context)),
        "tokens": math.log1p(sum(each.n_tokens for each in answer.context)),
        "names_shown": _share(name.casefold() in shown for name in names),
        "years_shown": _share(year in shown for year in years),
        "topic_shown": max((_overlap(topic, stems(text)) for text in texts), default=0.0),
        "escalated": float(bool(answer.escalated)),
        **_analysis_signals(answer.analysis),
    }
    if answer.status == "answered":
        found |= _answer_signals(question, asks, answer, texts, topic, years)
    return found


def _analysis_signals(analysis: Analysis | None) -> dict[str, float]:
    if analysis is None:
        return {}
    found = {f"type_{name}": analysis.type_probabilities.get(name, 0.0) for name in TYPES}
    if analysis.evidence_probability is not None:
        found["evidence"] = analysis.evidence_probability
    return found


def _answer_signals(
    question: str, asks: str, answer: Answer, texts: Sequence[str], topic: frozenset[str], years: set[str]
) -> dict[str, float]:
    said = answer.answer
    sought = Sought.of(said, question)
    quotes = "\n".join(each.quote for each in answer.citations)
    around = [text for passage, text in zip(answer.context, texts, strict=True) if _is_cited(passage, answer)]
    cited = "\n".join([quotes, *around, *(each.doc_id for each in answer.citations)])
    fits = kind_fits(asks, said)
    found = {
        "words": math.log1p(len(said.split())),
        "numbers": float(bool(sought.numbers)),
        "open": float(sought.is_open),
        "rare": float(sought.is_rare),
        "citations": math.log1p(len(answer.citations)),
        "held_shown": max((sought.share_in(text) for text in texts), default=0.0),
    }
    if fits is not None:
        found["kind_fits"] = float(fits)
    if answer.citations:
        found["held_cited"] = sought.share_in(quotes)
        found["topic_cited"] = _overlap(topic, stems(quotes))
        found["years_cited"] = _share(year in cited for year in years)
    return found


def reading_signals(
    question: str, answer: Answer, texts: Sequence[str], readings: Sequence[Reading]
) -> dict[str, float]:
    """Return the signals of the cross-encoder's readings of the passages.

    Args:
        question: The question.
        answer: The answer.
        texts: The parts of its context's passages that were read.
        readings: The readings of these texts, at least one.
    """
    sure = sorted((each.answerable or 0.0 for each in readings), reverse=True)
    relevance = sorted((each.relevance for each in readings), reverse=True)
    found = {
        "answerable": sure[0],
        "answerable_second": sure[1] if len(sure) > 1 else 0.0,
        "answerable_mean": sum(sure) / len(sure),
        "relevance": relevance[0],
    }
    if len(relevance) > 1:
        found["relevance_gap"] = relevance[0] - relevance[1]
    every = list(zip(answer.context, texts, readings, strict=True))
    if answer.status == "unanswerable":
        return found | {"span": max(readings, key=lambda each: each.answerable or 0.0).span or 0.0}
    cited = [each for each in every if _is_cited(each[0], answer)]
    if cited:
        found["answerable_cited"] = max(reading.answerable or 0.0 for _, _, reading in cited)
    best = -1.0
    for _, text, reading in cited or every:
        agrees = agreement(question, answer.answer, *place_of(text, reading))
        support = (reading.answerable or 0.0) * (1 - math.sqrt(reading.span or 0.0) * (1 - agrees))
        if support > best:
            best = support
            found |= {"support": support, "agreement": agrees, "span": reading.span or 0.0}
    return found


def _is_cited(passage: Passage, answer: Answer) -> bool:
    return any(holds(passage, citation) for citation in answer.citations)


def _share(there: Iterable[bool]) -> float:
    """Return the share of true values, 1 if there are none."""
    values = list(there)
    return sum(values) / len(values) if values else 1.0


def _overlap(wanted: frozenset[str], there: frozenset[str]) -> float:
    return len(wanted & there) / len(wanted) if wanted else 1.0


# --------
# The kind of answer that the words of a question ask for.

_KINDS: Final = ("number", "date", "person", "yes_no", "reason")
_ASKS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("date", re.compile(r"\bwhen\b|\b(?:what|which)\s+(?:\w+\s+){0,2}(?:year|date|day|month|century|decade)\b", re.I)),
    (
        "number",
        re.compile(
            r"\bhow\s+(?:much|many|large|big|long|old|far|high|tall|often)\b|\bwhat\s+percent|\bpercentage\b"
            r"|\b(?:number|amount|value|total|average|ratio|rate|proportion)\s+of\b|\bby\s+how\b",
            re.I,
        ),
    ),
    ("person", re.compile(r"\bwho(?:se|m)?\b", re.I)),
    ("reason", re.compile(r"\bwhy\b|^\W*how\b", re.I)),
    (
        "yes_no",
        re.compile(
            r"^\W*(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|may|might)\b(?!.*\bor\b)",
            re.I,
        ),
    ),
)
_YES_NO: Final = re.compile(r"^\W*(?:yes|no|true|false)\b", re.IGNORECASE)


def asked_kind(question: str) -> str:
    """Return the kind of answer that a question asks for: number, date, person, yes_no, reason or ""."""
    return next((kind for kind, pattern in _ASKS if pattern.search(question)), "")


def kind_fits(asks: str, answer: str) -> bool | None:
    """Return whether an answer has what a question asks for; None if that cannot be told."""
    if asks == "number":
        return bool(amounts(answer))
    if asks == "date":
        return bool(dates(answer) or YEAR.search(answer))
    if asks == "yes_no":
        return _YES_NO.match(answer) is not None
    if asks == "person":
        return any(word[:1].isupper() for word in answer.split())
    return None
