"""Turn gold answers into wordings and into the parts that answer recall looks for, alike for all sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from okralong.lab.datasets.files import Row
from okralong.lab.datasets.gold import MOST_WORDS, Parts, answer_recall, findable

# --------
# Gold answers as wordings, and the parts of them that answer recall looks for; one convention for all sets.


def spans_of(row: Row, field: str, answer: Any) -> tuple[str, ...]:
    """The spans of a TAT-QA answer, which is a list or one value. Raises InputError where there is none."""
    spans = tuple(str(span) for span in (answer if isinstance(answer, list) else [answer]) if str(span).strip())
    if answer is None or not spans:
        row.bad(field, "holds no answer")
    return spans


def length_label(answers: Sequence[str]) -> str:
    """A guess at what a paper's question asks for, where the file does not say: "short answer" when some answer has at
    most ``MOST_WORDS`` words, else "long answer".
    """
    return "short answer" if min(len(answer.split()) for answer in answers) <= MOST_WORDS else "long answer"


def scaled_wordings(spans: Sequence[str], scale: str) -> tuple[str, ...]:
    """The wordings of a TAT-QA answer: its spans with "; " between, and the same with the scale behind it.

    A percentage always has its sign, since a bare number would be another quantity.
    """
    if scale == "percent":
        return ("; ".join(span if "%" in span else f"{span}%" for span in spans),)
    answer = "; ".join(spans)
    return (answer, f"{answer} {scale}") if scale else (answer,)


def span_parts(spans: Sequence[str]) -> Parts:
    """One part for each copied span; none at all when one of them cannot be looked for."""
    found = findable(spans)
    return tuple((span,) for span in found) if len(found) == len(spans) else ()


def operand_parts(operands: Iterable[str]) -> Parts:
    """One part for each operand of a calculation."""
    return tuple((operand,) for operand in operands)


def one_part(answers: Iterable[str]) -> Parts:
    """One part with all wordings of an answer that can be looked for."""
    found = findable(answers)
    return (found,) if found else ()


def grounded(parts: Parts, texts: Sequence[str]) -> Parts:
    """``parts``, or none when there are texts and one part stands in none of them.

    Such an answer was put in other words by its annotator, and no retrieval could show it.
    """
    return parts if not texts or answer_recall(parts, texts) in (None, 1.0) else ()
