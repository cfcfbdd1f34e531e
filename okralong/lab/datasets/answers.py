"""Turn gold answers into wordings, and into parts for answer recall, by one convention for all sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from okralong.lab.datasets.files import Row
from okralong.lab.datasets.gold import MOST_WORDS, Parts, answer_recall, findable


def spans_of(row: Row, field: str, answer: Any) -> tuple[str, ...]:
    """Return the spans of a TAT-QA answer, which is a list or one value. Raises InputError for an empty answer."""
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        row.bad(field, "holds no answer")
    return spans


def length_label(answers: Sequence[str]) -> str:
    """Guess the kind of a paper's question if the file does not give it.

    Returns "short answer" if some answer has at most ``MOST_WORDS`` words, else "long answer".
    """
    return "short answer" if min(len(answer.split()) for answer in answers) <= MOST_WORDS else "long answer"


def scaled_wordings(spans: Sequence[str], scale: str) -> tuple[str, ...]:
    """Return the wordings of a TAT-QA answer: its spans joined by "; ", and the same followed by the scale.

    A percentage always keeps its sign, since a bare number would be another quantity.
    """
    if scale == "percent":
        return ("; ".join(span if "%" in span else f"{span}%" for span in spans),)
    answer = "; ".join(spans)
    return (answer, f"{answer} {scale}") if scale else (answer,)


def span_parts(spans: Sequence[str]) -> Parts:
    """Return a part for each span that the answer copies, or no parts if one of them is not searchable."""
    found = findable(spans)
    return tuple((span,) for span in found) if len(found) == len(spans) else ()


def operand_parts(operands: Iterable[str]) -> Parts:
    """Return one part for each operand of a calculation."""
    return tuple((operand,) for operand in operands)


def one_part(answers: Iterable[str]) -> Parts:
    """Return one part with all searchable wordings of an answer."""
    found = findable(answers)
    return (found,) if found else ()


def grounded(parts: Parts, texts: Sequence[str]) -> Parts:
    """Return ``parts``, or no parts if one of them occurs in none of the texts.

    Such an answer was reworded by the annotator, so that no retrieval can show it.
    """
    return parts if not texts or answer_recall(parts, texts) in (None, 1.0) else ()
