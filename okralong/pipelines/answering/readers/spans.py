"""Process spans that the cross-encoder predicts: complete their words, find their line, choose a sentence's amount."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.answering.answer_kinds import UNKNOWN, Kind, fits, repeats
from okralong.pipelines.answering.answer_types import AMOUNTS
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.core.types import Answer, Citation, Passage, Reading
from okralong.pipelines.statements.amounts import amounts, has_cells
from okralong.pipelines.statements.asked import ASKS_CHANGE
from okralong.pipelines.statements.periods import YEAR, Span, dates, periods
from okralong.pipelines.statements.values import spans_of

LONGEST_LINE: Final = 400  # project default
"""The most characters around an answer that are quoted as its source."""


def probability(reading: Reading) -> float:
    """Return the probability that the passage contains the answer and that it is the reading's span."""
    return _probability(reading, reading.span)


def _probability(reading: Reading, share: float | None) -> float:
    return (reading.answerable or 0.0) * math.sqrt(share or 0.0)


LEAST_SHARE: Final = 0.25  # project default
"""A span of the kind asked for is used in place of the most probable one if it has this share of its probability."""


def span_answer(
    shown: Sequence[Passage], readings: Sequence[Reading], kind: Kind = UNKNOWN, question: str = ""
) -> Answer:
    """Return the most probable span of a kind in what passages show, citing its line or sentence.

    The text may be empty. Spans that repeat words of ``question`` are passed over. The answer is "unanswerable", with
    the reason, if no span that is nearly as probable as the best one is of the kind.
    """
    offered = [
        (_probability(reading, share), passage, start, end)
        for passage, reading in zip(shown, readings, strict=True)
        for start, end, share in ((reading.start, reading.end, reading.span), *reading.others)
    ]
    offered.sort(key=lambda each: -each[0])
    for likely, passage, at, stop in offered:
        first, last = whole_words(passage.shown_text, at, stop)
        text = passage.shown_text[first:last].strip()
        if likely < LEAST_SHARE * offered[0][0]:
            break
        if not text or (fits(kind, text) and not repeats(question, text)):
            start, end = passage.span_of(*line_around(passage.shown_text, first, last)) or (0, len(passage.text))
            signals = {"span_probability": likely}
            return Answer("answered", text, (cited(passage, start, end),), context=tuple(shown), signals=signals)
    return not_of_kind(kind, shown)


def not_of_kind(kind: Kind, shown: Sequence[Passage]) -> Answer:
    """Return "unanswerable": the likely spans of the passages are of another kind, or repeat the question."""
    why = f"The question asks for {kind}, and no answer found in the passages is one."
    if kind == UNKNOWN:
        why = "What was found in the passages only repeats the question."
    return Answer("unanswerable", UNANSWERABLE, context=tuple(shown), error=why)


def cited(passage: Passage, start: int, end: int) -> Citation:
    """Return a citation of ``start:end`` in the passage's text."""
    at = passage.start_char
    return Citation(passage.doc_id, at + start, at + end, passage.text[start:end])


_CELLS: Final = re.compile(r"[ \t]{2,}|\t|(?<!\s)\s*+\|\s*")
"""The separator of columns in a table row."""
_WORD: Final = re.compile(r"\((?:[$€£¥]\s?)?\d[\d.,]*\)|(?:[$€£¥]\s?)?-?\d+(?:[.,]\d+)*\s?%?|\w+(?:[.'\u2019/&-]\w+)*")
"""A word, or an amount with its currency, brackets or percent sign."""


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to whole words and numbers; of several table columns keep the first.

    A model's tokens are parts of words and numbers, and "462", a part of "462,118", is another number.
    """
    span = text[start:end]
    lead = len(span) - len(span.lstrip(" \t|"))
    if (gap := _CELLS.search(span, lead)) is not None and gap.start() > lead:
        start, end = start + lead, start + gap.start()
    around = max(0, start - LONGEST_LINE)
    for word in _WORD.finditer(text, around, min(len(text), end + LONGEST_LINE)):
        if word.start() >= end:
            break
        if word.end() > start and word[0].strip():
            start, end = min(start, word.start()), max(end, word.start() + len(word[0].rstrip()))
    return start, end


def line_around(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the line around ``start:end``, or the sentence in a long line; at most ``LONGEST_LINE`` characters."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    last = len(text) if last < 0 else last
    if last - first > LONGEST_LINE:
        first = max(first, text.rfind(". ", first, start) + 2 if ". " in text[first:start] else first)
        stop = text.find(". ", end, last)
        last = stop + 1 if stop >= 0 else last
        first, last = max(first, start - LONGEST_LINE), min(last, end + LONGEST_LINE)
    while first < start and text[first].isspace():
        first += 1
    return first, last


_CHANGED: Final = re.compile(
    r"\b(?:increas|decreas|declin|grew|grow|rose|ris|fell|fall|dropp?|improv|reduc)\w*\s+(?:(?:by|of)\s+)?"
    r"(?:approximately\s+|about\s+)?$",
    re.IGNORECASE,
)
"""Words directly before the amount by which something changed."""
_CHANGE: Final = re.compile(r"\s+(?:increas|decreas|declin|growth|ris|drop|improv|reduc)\w*\b", re.IGNORECASE)
"""Words directly after such an amount."""
_TO: Final = re.compile(r"\bto\s+(?:approximately\s+|about\s+)?$", re.IGNORECASE)
_COMPARED: Final = re.compile(r"\b(?:compared\s+(?:to|with)|versus|vs\.?)\s[^.;]*$", re.IGNORECASE)
_JOINED: Final = re.compile(r"\s*(?:,|,?\s*\band\b)\s*", re.IGNORECASE)
"""The text between the members of a list."""


def level_of(kind: str, text: str, span: Span, question: str) -> Span | None:
    """Return the amount that a sentence states for the question, if ``span`` is one of its amounts, else None.

    ``span`` may be the wrong amount: "increased $1.3 billion to $2.2 billion" has the change first, "$4.8 billion and
    $19.0 billion for Q1 2023 and Q1 2024" is a list over times, and "$1.0 billion, compared to $0.4 billion" ends with
    the previous year's. In a list, the amount for the question's time is chosen, or else that for the latest time,
    which is the report's own. Return None for table rows and for questions about a change.
    """
    first, last = line_around(text, *span)
    there = [each for each in spans_of(kind, text) if kind in AMOUNTS and first <= each[0] and each[1] <= last]
    if kind == "money":  # in a sentence with amounts of money, bare numbers are not money: "page 67", "Note 15"
        said = {(each.start, each.end) for each in amounts(text) if each.currency or each.scale}
        there = [each for each in there if each in said] if span in said else there
    if span not in there or has_cells(text[first:last]) or ASKS_CHANGE.search(question):
        return span
    at = there.index(span)
    asked = [time for _, time in times_in(question)]

    def is_change(each: Span) -> bool:
        return bool(_CHANGED.search(text[first : each[0]]) or _CHANGE.match(text[each[1] : last]))

    if is_change(span):
        reached = [each for each in there[at + 1 :] if _TO.search(text[first : each[0]])]
        kept = reached[:1] or [each for each in there[:at] if not is_change(each)][:1]
        if not kept:
            return None
        at = there.index(kept[0])
    elif at and _COMPARED.search(text[there[at - 1][1] : span[0]]):
        behind = text[span[1] : there[at + 1][0] if at + 1 < len(there) else last]
        at -= not any(same_time(time, each) for _, time in times_in(behind) for each in asked)
    run = next(each for each in lists_in(text, there) if there[at] in each)
    times = times_in(text[first:last])
    for each in lists_in(text[first:last], [place for place, _ in times]) if len(run) > 1 else ():
        when = [dict(times)[place] for place in each]
        if len(when) == len(run) and len(set(when)) == len(when):
            meant = [n for n, time in enumerate(when) if any(same_time(time, each) for each in asked)]
            return run[meant[0] if len(meant) == 1 else when.index(max(when))]
    return there[at]


def lists_in(text: str, spans: Sequence[Span]) -> list[list[Span]]:
    """Group consecutive spans that are separated only by a comma or "and"."""
    found: list[list[Span]] = []
    for each in spans:
        if found and _JOINED.fullmatch(text[found[-1][-1][1] : each[0]]):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def same_time(one: str, other: str) -> bool:
    """Return whether two times of ``times_in`` may be the same; a day or quarter matches its year."""
    return one.startswith(other) or other.startswith(one)


def times_in(text: str) -> list[tuple[Span, str]]:
    """Return days, quarters and years of a text, in a form that sorts by time ("2023-03", "2023")."""
    found = [(place, day[:7]) for place, day in dates(text)]
    for place, written in periods(text):
        if quarter := re.fullmatch(r"Q([1-4]) (?:FY)?(\d{4})", written):
            found.append((place, f"{quarter[2]}-{3 * int(quarter[1]):02}"))
    taken = [place for place, _ in found]
    years = [(each.span(), each[0]) for each in YEAR.finditer(text)]
    return sorted(found + [one for one in years if not any(a <= one[0][0] < b for a, b in taken)])
