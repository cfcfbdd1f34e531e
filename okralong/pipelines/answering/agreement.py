"""Compare an answer with the span that the cross-encoder reads in a passage: dates and amounts by value, else words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

from okralong.pipelines.answering.readers.spans import line_around, whole_words
from okralong.pipelines.core.types import Citation, Passage, Reading
from okralong.pipelines.statements.amounts import Amount, amounts, has_cells
from okralong.pipelines.statements.periods import dates


def place_of(text: str, reading: Reading) -> tuple[str, str]:
    """Return the words of the span that was read, and its line if that is a table's row."""
    if reading.start < 0:
        return "", ""
    start, end = whole_words(text, reading.start, reading.end)
    first, last = line_around(text, start, end)
    return text[start:end], text[first:last] if has_cells(text[first:last]) else ""


def agreement(question: str, answer: str, place: str, row: str = "") -> float:
    """Return how much an answer and a span agree, 0 to 1.

    Dates are compared if both have any, else amounts, else words. The result is the share of the shorter list that the
    other contains. If the span is the label of a ``row``, the row's amounts count as the span's. The result is 1 for
    answers that cannot be compared with a span: yes, no, or one of the question's choices.
    """
    said, days, given = parts_said(answer)
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
def parts_said(answer: str) -> tuple[list[str], list[str], list[Amount]]:
    """Return the words, dates and amounts of an answer."""
    return _telling(answer), [day for _, day in dates(answer)], amounts(answer)


def _share(shared: Sequence[bool], others: int) -> float:
    return min(1.0, sum(shared) / min(len(shared), others))


def _forms_said(amount: Amount) -> list[tuple[str, Decimal]]:
    """Return the forms of an answer's amount; it matches a text's amount if ``_forms_there`` returns one of them.

    The sign is ignored, since words may express it ("fell by 5 %"). A scale that only one of the two has is ignored,
    since a table's head may state it.
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
"""Function words. Unlike common lists of stop words, this has no months, names or numbers."""
_SHORTLY: Final = frozenset({"yes", "no", "true", "false"})
"""The beginnings of answers that do not occur in passages."""
_CHOICE: Final = re.compile(
    r"(?<![^\W_])(?:[^\W_]++\W++){1,4}(?<![^\W_])or\b(?:\W++[^\W_]++){1,4}|\bbetween\b(?:\W++[^\W_]++){1,9}"
)
"""The choices in a question: up to four words on each side of "or", or up to nine after "between"."""


def _telling(text: str) -> list[str]:
    """Return the meaningful words of a text in lower case, without accents and without commas in numbers."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    words = (word.replace(",", "") for word in _WORD.findall(plain.casefold()))
    return [word for word in words if word not in _LINKING]


def _chosen(said: Sequence[str], question: str) -> bool:
    """Return whether an answer is one of the question's choices, in any form ("increased or decreased")."""
    offered = {word for found in _CHOICE.findall(question.casefold()) for word in _telling(found)}
    names = {word for word in offered if not word[0].isdigit()}
    begun = {name[:_STEM] for name in names if len(name) >= _STEM}
    return any(word in names or word[:_STEM] in begun for word in said)


_STEM: Final = 5  # project default
"""Number of first letters that two forms of a word must share."""


def holds(passage: Passage, citation: Citation) -> bool:
    """Return whether the passage contains part of a citation."""
    return (
        passage.doc_id == citation.doc_id
        and citation.start_char < passage.end_char
        and citation.end_char > passage.start_char
    )
