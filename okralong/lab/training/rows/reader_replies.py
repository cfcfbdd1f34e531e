"""Write perfect replies: answers, quotations and formulas that are derived from a set's annotation.

Each function is the inverse of its parser in ``answering/prompts.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.lab.datasets.gold import words
from okralong.lab.datasets.pooling import Span
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import Passage
from okralong.pipelines.reporting.metrics import numeric_match

Quote = tuple[int, str]
"""The number of a passage, counted from 1, and words from it."""

MOST_WORDS: Final = 20  # project default
"""Most words of a quotation. It must identify its place, and each word costs tokens."""

LEAST_WORDS: Final = 6  # project default
"""Fewest words of a quotation, if its sentence or row has so many: a single figure occurs too often."""

MOST_QUOTES: Final = 3  # project default
"""Most quotations of a reply."""

NO_REPLY: Final = "none"

_WORD: Final = re.compile(r"\S+")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
_SCALE: Final = re.compile(r"\b(thousand|million|billion)\b")
_UNIT: Final = re.compile(r"[%a-z]\s*$")


def answer_reply(answer: str, evidence: Sequence[Quote]) -> str:
    """Return the reply to an answer prompt: a line per quotation, then the answer."""
    return "\n".join([*map(_evidence_line, evidence), f"Answer: {answer}"])


def held_back_reply() -> str:
    """Return the reply to an answer prompt whose passages do not contain the answer."""
    return f"Answer: {UNANSWERABLE}"


def step_reply(evidence: Sequence[Quote], query: str, answer: str) -> str:
    """Return the reply to a step prompt: quotations, next query, answer. An empty query or answer becomes "none"."""
    found = [*map(_evidence_line, evidence)] or [f"Evidence: {NO_REPLY}"]
    return "\n".join([*found, f"Query: {query or NO_REPLY}", f"Answer: {answer or NO_REPLY}"])


def split_reply(queries: Sequence[str]) -> str:
    """Return the reply to a split prompt: one sub-question per line."""
    return "\n".join(queries)


def _evidence_line(quote: Quote) -> str:
    number, words = quote
    return f'Evidence: [{number}] "{words}"'


def spoken_answer(answers: Sequence[str], most_words: int) -> str | None:
    """Return the answer as one line, truncated after a whole sentence if it is too long; None if nothing is left."""
    for answer in answers:
        plain = " ".join(answer.split())
        if plain and len(plain.split()) <= most_words:
            return plain
    for answer in answers:
        kept: list[str] = []
        for sentence in _SENTENCE_END.split(" ".join(answer.split())):
            if len(" ".join([*kept, sentence]).split()) > most_words:
                break
            kept.append(sentence)
        if kept:
            return " ".join(kept)
    return None


def formula(calculation: str, answers: Sequence[str]) -> str | None:
    """Return the formula for a calculation ("=(12 - 10) / 10 * 100 %"), or None if its result is not a gold answer.

    Sets omit the last step: shares must be converted to percent, amounts need the scale of the table.
    """
    plain = " ".join(calculation.strip().lstrip("=").split())
    if not plain:
        return None
    for candidate in _candidates(plain, answers):
        result = calculate(candidate)
        if result != candidate.removeprefix("=").strip() and numeric_match(result, answers):
            return candidate
    return None


def _candidates(plain: str, answers: Sequence[str]) -> list[str]:
    if _UNIT.search(plain):
        return [f"={plain}"]
    bracketed = plain if re.fullmatch(r"[\d.,]+ ?[/*] ?[\d.,]+", plain) else f"({plain})"
    bracketed = plain if plain.endswith(")") or re.search(r"\)\s*/\s*[\d.,]+$", plain) else bracketed
    scale = next((match.group() for answer in answers if (match := _SCALE.search(answer.lower()))), None)
    if any("%" in answer for answer in answers):
        return [f"={bracketed} * 100 %", f"={plain} %"]
    return [f"={plain} {scale}", f"={plain}"] if scale else [f"={plain}"]


def quotes(passages: Sequence[Passage], evidence: Sequence[Span], answer: str = "") -> list[Quote]:
    """Return distinct quotations, up to ``MOST_QUOTES``, of the pieces of ``evidence`` that the passages show.

    A long piece is shortened to ``MOST_WORDS`` words around ``answer``, or else to its first words. A piece of a word
    or two is quoted with its sentence or row.
    """
    found: dict[Quote, None] = {}
    for piece in evidence:
        for number, passage in enumerate(passages, start=1):
            start = max(piece.start_char, passage.start_char)
            end = min(piece.end_char, passage.end_char)
            if piece.doc_id != passage.doc_id or start >= end:
                continue
            words_of_it = quotable(_enough(passage, start, end), answer)
            if words_of_it:
                found.setdefault((number, words_of_it))
            break
    return list(found)[:MOST_QUOTES]


def _enough(passage: Passage, start: int, end: int) -> str:
    """Return the text of a range of the document or, if it is too short, that of the sentences or rows around it."""
    first, last = start - passage.start_char, end - passage.start_char
    piece = passage.text[first:last]
    if len(piece.split()) >= LEAST_WORDS:
        return piece
    ends = list(boundaries(passage.text, ()))
    return passage.text[
        max((each for each in ends if each <= first), default=0) : min(each for each in ends if each >= last)
    ]


def quotable(text: str, answer: str) -> str:
    """Return words of ``text`` that fit on one line between quote marks and can be found again in it, or ""."""
    stretches = [stretch for stretch in text.split('"') if any(char.isalnum() for char in stretch)]
    if not stretches:
        return ""
    told = " ".join(words(answer))
    holding = [stretch for stretch in stretches if told and told in " ".join(words(stretch))]
    chosen = holding[0] if holding else max(stretches, key=len)
    found = [match.group() for match in _WORD.finditer(chosen)]
    first = _place(found, words(answer)) if holding else 0
    start = max(0, min(first - MOST_WORDS // 3, len(found) - MOST_WORDS))
    return " ".join(found[start : start + MOST_WORDS]).strip(" |")


def _place(found: Sequence[str], wanted: Sequence[str]) -> int:
    """Return the index of the word at which the answer begins."""
    for at, word in enumerate(found):
        if wanted and wanted[0] in words(word):
            return at
    return 0
