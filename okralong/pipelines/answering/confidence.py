"""How probably an answer is right, as the cross-encoder judges it: of any generator, from what is cited or shown.

Ours, not in the paper. It rests on the reading of question and passage (``reading.py``): whether the passage holds an
answer, and whether what stands there is this one.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.readers.spans import line_around, whole_words
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Citation, Passage, Reading
from okralong.pipelines.statements.amounts import Amount, amounts, has_cells
from okralong.pipelines.statements.periods import dates

AROUND_CITATION: Final = 900
"""Characters on each side of a citation by which a longer passage is judged: some 450 tokens together; ours."""


async def with_confidence(tools: Tools, question: str, answer: Answer, step: str = "check") -> Answer:
    """``answer`` with the probability that it is right, where it has none and there is something to judge it by.

    That is how well the best cited passage supports it (of all shown ones where none is cited); of "unanswerable" the
    probability that no passage holds an answer. What is worked out (by the answer's analysis), and a choice of the
    answer type, stands in no passage and is not compared with it. Steps: ``step``, one reading of the passages shown.
    """
    known = answer.confidence is not None
    if known or not answer.context or answer.status not in ("answered", "unanswerable"):
        return answer
    texts = [_judged(passage, answer.citations) for passage in answer.context]
    readings = await tools.read(step, question, texts)
    named = AnswerType.of(tools.answer_type).kind in ("boolean", "choices")
    worked_out = answer.analysis is not None and answer.analysis.type == "arithmetic"
    compared = not (named or worked_out)
    judge = partial(support, question, answer, texts, readings, compared=compared)
    confidence = await off_loop(len(answer.answer) + sum(map(len, texts)), judge)
    return replace(answer, confidence=confidence)


def support(
    question: str, answer: Answer, texts: Sequence[str], readings: Sequence[Reading], compared: bool = True
) -> float:
    """How probably the passages say what the answer does, 0 to 1: the best one cited, of all shown where none is; of
    "unanswerable" how probably none of them holds an answer.

    A passage supports an answer by the probability that it holds one at all, less as much as this one differs from
    what stands at the place read, weighed by how sure that place is (``compared`` False: as if it never differed).
    ``texts`` are the parts of the passages of the answer's context that were read, ``readings`` what was read there.
    """
    if answer.status == "unanswerable":
        return 1.0 - max((reading.answerable or 0.0 for reading in readings), default=0.0)
    every = list(zip(answer.context, texts, readings, strict=True))
    cited = [each for each in every if any(holds(each[0], citation) for citation in answer.citations)]
    shares = []
    for _, text, reading in cited or every:
        differs = 1 - agreement(question, answer.answer, *_place(text, reading)) if compared else 0.0
        shares.append((reading.answerable or 0.0) * (1 - math.sqrt(reading.span or 0.0) * differs))
    return max(shares, default=0.0)


def _place(text: str, reading: Reading) -> tuple[str, str]:
    """The words at the place read, and the table row that it stands in; "" for none."""
    if reading.start < 0:
        return "", ""
    start, end = whole_words(text, reading.start, reading.end)
    first, last = line_around(text, start, end)
    return text[start:end], text[first:last] if has_cells(text[first:last]) else ""


def agreement(question: str, answer: str, place: str, row: str = "") -> float:
    """The share of what the answer says that a place says too, 0 to 1: of dates, else of amounts, where both have any,
    else of words; of whichever of the two has fewer. Where the place is the label of a ``row``, the amounts are its.

    1 where the answer says nothing that a place could differ in: yes, no, or one of the question's own choices.
    """
    said, days, given = _said(answer)
    there = set(_telling(place))
    if not said or not there or said[0] in _SHORTLY or _chosen(said, question):
        return 1.0
    others = [day for _, day in dates(place)]
    if days and others:
        known = set(others) | {other[:length] for other in others for length in range(1, len(other))}
        whole = set(others)
        return _share([day in known or any(day[:end] in whole for end in range(len(day))) for day in days], len(others))
    found = amounts(place) or amounts(row)
    if given and found:
        forms = {form for each in found for form in _forms_there(each)}
        return _share([not forms.isdisjoint(_forms_said(one)) for one in given], len(found))
    return _share([word in there for word in dict.fromkeys(said)], len(there))


@lru_cache(maxsize=8)
def _said(answer: str) -> tuple[list[str], list[str], list[Amount]]:
    """Words, dates and amounts of an answer, which is compared with one passage after the other."""
    return _telling(answer), [day for _, day in dates(answer)], amounts(answer)


def _share(shared: Sequence[bool], others: int) -> float:
    return min(1.0, sum(shared) / min(len(shared), others))


def _forms_said(amount: Amount) -> list[tuple[str, Decimal]]:
    """What an amount said shares with an equal one that stands there: without the sign, which words may say ("fell by 5
    %"), and without a scale that only one of them has, which a table's head may say.
    """
    digits = abs(amount.digits)
    return [("both", digits * amount.factor) if amount.scale else ("there", digits), ("neither", digits)]


def _forms_there(amount: Amount) -> list[tuple[str, Decimal]]:
    digits = abs(amount.digits)
    return [("both", digits * amount.factor), ("there", digits)] if amount.scale else [("neither", digits)]


_WORD: Final = re.compile(r"\d(?:[\d.,]*\d)?|[^\W\d_]+")
_LINKS: Final = """a an the of in on at to for from by with and or as than per is are was were be been being it its this
that these those there they he she his her their has have had do does did"""
_LINKING: Final = frozenset(_LINKS.split())
"""Words that tell nothing: without any month, name or number among them, as lists of stop words have."""
_SHORTLY: Final = frozenset({"yes", "no", "true", "false"})
"""What begins an answer that stands at no place."""
_CHOICE: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_]++\W++){1,4}(?<![^\W_])or\b(?:\W++[^\W_]++){1,4}|\bbetween\b(?:\W++[^\W_]++){1,9}"
)
"""Up to four words on each side of "or", or up to nine behind "between": what a question offers to choose from."""


def _telling(text: str) -> list[str]:
    """Words in one form of their letters and accents, without commas in numbers."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    words = (word.replace(",", "") for word in _WORD.findall(plain.casefold()))
    return [word for word in words if word not in _LINKING]


def _chosen(said: Sequence[str], question: str) -> bool:
    """Whether an answer takes one of the question's choices, in this or another form ("increased or decreased")."""
    offered = {word for found in _CHOICE.findall(question.casefold()) for word in _telling(found)}
    names = {word for word in offered if not word[0].isdigit()}
    begun = {name[:_STEM] for name in names if len(name) >= _STEM}
    return any(word in names or word[:_STEM] in begun for word in said)


_STEM: Final = 5
"""Letters that two forms of a word have in common at least; ours."""


def _judged(passage: Passage, citations: Sequence[Citation]) -> str:
    """The text by which a passage is judged: all of it, of a long one the part around its first citation, or, since the
    cross-encoder reads no more, its beginning.
    """
    if len(passage.text) <= 2 * AROUND_CITATION:
        return passage.text
    at = min((each.start_char for each in citations if holds(passage, each)), default=passage.start_char)
    middle = max(at - passage.start_char, AROUND_CITATION)
    return passage.text[middle - AROUND_CITATION : middle + AROUND_CITATION]


def holds(passage: Passage, citation: Citation) -> bool:
    """Whether a part of what is cited stands in the passage."""
    return (
        passage.doc_id == citation.doc_id
        and citation.start_char < passage.end_char
        and citation.end_char > passage.start_char
    )
