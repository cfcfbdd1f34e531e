"""Mark answers of readers (models with reader adapters): F1, citations, refusals, with intervals over documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from okralong.lab.datasets.pooling import Span
from okralong.lab.training.rows.tables import ReadingRow
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import Citation, Passage, ReplyError
from okralong.pipelines.reporting.metrics import best, exact_match, gold_quantity, numeric_match, token_f1
from okralong.pipelines.reporting.statistics import (
    Estimate,
    Floats,
    Resample,
    estimate,
    joined_by_documents,
    ratio,
    resample,
)

_EVIDENCE: Final = r'Evidence: \[\d{1,2}\] "[^"\n]+"'
_FORMS: Final = {
    "generate": re.compile(rf"(?:{_EVIDENCE}\n)*Answer: [^\n]+"),
    "step": re.compile(rf"(?:{_EVIDENCE}\n|Evidence: none\n)+Query: [^\n]+\nAnswer: [^\n]+"),
    "split": re.compile(r"[^\n]+\?(?:\n[^\n]+\?){0,3}"),
}
"""The exact form of replies that the prompts ask for. The parsers accept much more."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one answer.

    Attributes:
        answer: Its text.
        f1: 0 to 1. It is 1 if the answer is only a number and right, because gold numbers are rounded in many ways.
        exact: Exact match, with the same exception.
        numeric: Whether the number is right, or None if no gold answer is a number.
        said_unanswerable: Whether the reply is "unanswerable".
        cited: The number of citations.
        right: The number of citations that overlap gold evidence.
        pieces: The number of pieces of gold evidence in the prompt.
        found: The number of these pieces that a citation overlaps.
    """

    answer: str
    f1: float
    exact: float
    numeric: bool | None
    said_unanswerable: bool
    cited: int
    right: int
    pieces: int
    found: int


def mark(row: ReadingRow, reply: str, calculator: bool = True) -> Marks:
    """Mark a reply to an answer prompt. All marks of a reply without an answer are 0.

    With ``calculator``, a formula is evaluated, as in a run whose prompts ask for formulas.
    """
    try:
        parsed = parse_answer(reply)
    except ReplyError:
        return mark_text(row, "")
    answer = calculate(parsed.answer) if calculator else parsed.answer
    return mark_text(row, answer, find_citations(parsed.evidence, row.passages))


def well_formed(role: str, reply: str) -> bool:
    """Return whether a reply has exactly the form that its prompt asks for."""
    return _FORMS[role].fullmatch(reply.strip()) is not None


def mark_text(row: ReadingRow, answer: str, citations: Sequence[Citation] = ()) -> Marks:
    """Mark an answer with its citations."""
    shown = [piece for piece in row.evidence if any(_touch(piece, each) for each in row.passages)]
    right = [each for each in citations if any(_touch(piece, each) for piece in row.evidence)]
    f1, exact, numeric = scores(answer, row.answers)
    return Marks(
        answer=answer,
        f1=f1,
        exact=exact,
        numeric=numeric,
        said_unanswerable=answer == UNANSWERABLE,
        cited=len(citations),
        right=len(right),
        pieces=len(shown),
        found=sum(any(_touch(piece, each) for each in citations) for piece in shown),
    )


def scores(answer: str, golds: Sequence[str]) -> tuple[float, float, bool | None]:
    """Return F1, exact match and numeric match of an answer against the best of ``golds``.

    The last is None if no gold answer is a number. As in UDA and FinQA, numbers are compared by value: an answer that
    is only the right number has F1 and exact match 1. A number within a sentence is scored by the words of the
    sentence. Raises ValueError without golds.
    """
    numeric = numeric_match(answer, golds)
    if numeric and gold_quantity(answer) is not None:
        return 1.0, 1.0, True
    return best(token_f1, answer, golds), best(exact_match, answer, golds), numeric


def _touch(piece: Span, place: Passage | Citation) -> bool:
    """Return whether a piece of evidence and a passage or citation overlap."""
    return piece.doc_id == place.doc_id and piece.start_char < place.end_char and piece.end_char > place.start_char


Ratio = Callable[[ReadingRow, Marks], tuple[float, float]]
"""A function that returns what a row adds to the numerator and denominator of a figure; (0, 0) if nothing."""


def _mean(of: Callable[[Marks], float], when: Callable[[ReadingRow], bool] = lambda row: True) -> Ratio:
    return lambda row, marks: (of(marks), 1.0) if when(row) else (0.0, 0.0)


def _refused(row: ReadingRow, marks: Marks) -> bool:
    return marks.said_unanswerable and not row.answerable


_IN_VIEW: Final[Callable[[ReadingRow], bool]] = attrgetter("answerable")

FIGURES: Final[dict[str, Ratio]] = {
    "F1": _mean(lambda marks: marks.f1),
    "EM": _mean(lambda marks: marks.exact),
    "F1, evidence in view": _mean(lambda marks: marks.f1, _IN_VIEW),
    "EM, evidence in view": _mean(lambda marks: marks.exact, _IN_VIEW),
    "citation precision": lambda row, marks: (marks.right, marks.cited) if row.answerable and row.evidence else (0, 0),
    "citation recall": lambda row, marks: (marks.found, marks.pieces) if row.answerable else (0, 0),
    "unanswerable precision": lambda row, marks: (_refused(row, marks), marks.said_unanswerable),
    "unanswerable recall": lambda row, marks: (_refused(row, marks), not row.answerable),
}
"""The figures. Each is a ratio of two sums over rows.

Citations count only if there is evidence to cite, so not for unanswerable questions, nor if the set marks none."""


def figure(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> Estimate:
    """Return a figure with its 95 % interval. It is undefined if no row counts."""
    return estimate(*ratio(*_sums(of, rows, marks), _drawn(rows)))


def difference(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks], others: Sequence[Marks]) -> Estimate:
    """Return the figure of ``marks`` minus that of ``others``, on the same rows and in the same bootstrap draws."""
    drawn = _drawn(rows)
    (mine, own), (theirs, other) = (ratio(*_sums(of, rows, each), drawn) for each in (marks, others))
    return estimate(mine - theirs, None if own is None or other is None else own - other)


def _sums(of: Ratio, rows: Sequence[ReadingRow], marks: Sequence[Marks]) -> tuple[Floats, Floats]:
    pairs = np.array([of(row, each) for row, each in zip(rows, marks, strict=True)], dtype=np.float64)
    return pairs[:, 0], pairs[:, 1]


def _drawn(rows: Sequence[ReadingRow]) -> Resample | None:
    return resample(joined_by_documents([row.documents for row in rows]))


Embed = Callable[[list[str]], NDArray[np.float32]]
"""A function that returns unit vectors of texts, shape (texts, dimension)."""


def best_sentence(row: ReadingRow, embed: Embed) -> Marks:
    """Mark a trivial answer: the sentence whose embedding is nearest to the question's, which cites itself."""
    places = [(passage, start, end) for passage in row.passages for start, end in _sentences(passage)]
    texts = [passage.text[start:end] for passage, start, end in places]
    vectors = embed([row.question, *texts])
    passage, start, end = places[int(np.argmax(vectors[1:] @ vectors[0]))]
    quote = passage.text[start:end]
    citation = Citation(passage.doc_id, passage.start_char + start, passage.start_char + end, quote)
    return mark_text(row, " ".join(quote.split()), [citation])


def _sentences(passage: Passage) -> list[tuple[int, int]]:
    ends = list(boundaries(passage.text, ()))
    spans = zip([0, *ends], ends, strict=False)
    return [(start, end) for start, end in spans if passage.text[start:end].strip()]
