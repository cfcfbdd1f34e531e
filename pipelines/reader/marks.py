"""What one reply is worth: answer, sources and form, each held against the row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.generate import calculate
from okralong.pipelines.answering.prompts import UNANSWERABLE, parse_answer
from okralong.pipelines.core.types import Citation, Passage, ReplyError
from okralong.pipelines.evaluation.datasets.pooling import Span
from okralong.pipelines.evaluation.scores import scores
from okralong.pipelines.reader.rows import ReadingRow

_EVIDENCE: Final = r'Evidence: \[\d{1,2}\] "[^"\n]+"'
_FORMS: Final = {
    "generate": re.compile(rf"(?:{_EVIDENCE}\n)*Answer: [^\n]+"),
    "step": re.compile(rf"(?:{_EVIDENCE}\n|Evidence: none\n)+Query: [^\n]+\nAnswer: [^\n]+"),
    "split": re.compile(r"[^\n]+\?(?:\n[^\n]+\?){0,3}"),
}
"""The replies that the contracts ask for, word for word; the parsers forgive much more."""


@dataclass(frozen=True, slots=True)
class Marks:
    """One answer. ``f1`` and ``exact`` are 0 to 1, ``numeric`` None where no gold answer is a number. Of an
    answer that is nothing but the right number both are 1: gold numbers are rounded as their writers liked.

    ``said_unanswerable`` is what the reply says; ``cited`` counts its citations, ``right`` those that touch gold
    evidence, ``pieces`` the gold pieces in the prompt and ``found`` those that a citation touches.
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
    """The marks of a reply to an answer prompt; one that holds no answer has 0 throughout.

    With ``calculator`` a formula is worked out, as the executor does where the prompt asked for one.
    """
    try:
        parsed = parse_answer(reply)
    except ReplyError:
        return _marks(row, "", ())
    answer = calculate(parsed.answer) if calculator else parsed.answer
    return _marks(row, answer, find_citations(parsed.evidence, row.passages))


def mark_text(row: ReadingRow, answer: str, citations: Sequence[Citation] = ()) -> Marks:
    """The marks of an answer that no model wrote."""
    return _marks(row, answer, citations)


def well_formed(role: str, reply: str) -> bool:
    """Whether a reply has the form that its prompt asks for, to the letter."""
    return _FORMS[role].fullmatch(reply.strip()) is not None


def _marks(row: ReadingRow, answer: str, citations: Sequence[Citation]) -> Marks:
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


def _touch(piece: Span, place: Passage | Citation) -> bool:
    """Whether a piece of evidence and a passage or citation have a character in common."""
    return piece.doc_id == place.doc_id and piece.start_char < place.end_char and piece.end_char > place.start_char
