"""Read amounts of line items from sentences such as "net sales were $5 million".

Only known line items (``configs/line_items.yaml``) are read, and only if the words around the name do not make it
another item, such as "deferred revenue" or "net income of affiliates".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from okralong.pipelines.answering.answer_types import AMOUNTS
from okralong.pipelines.answering.readers.spans import (
    LONGEST_LINE,
    level_of,
    lists_in,
    same_time,
    times_in,
)
from okralong.pipelines.core.types import Answer, Document, TypedValue
from okralong.pipelines.statements.amounts import BEFORE, SCALES, WORD_SCALE, Amount, amounts, has_cells
from okralong.pipelines.statements.asked import line_item_of
from okralong.pipelines.statements.cited import cited_answer
from okralong.pipelines.statements.line_items import LineItem, mentions, with_substitutes
from okralong.pipelines.statements.periods import YEAR, Span, dates, periods
from okralong.pipelines.statements.times import TIME_PHRASE
from okralong.pipelines.statements.values import Context, read_value


def stated_in(question: str, kind: str) -> Callable[[str], Span | None] | None:
    """Return a function that finds, in a sentence, the amount of the line item that ``question`` asks for.

    The function returns the amount's span, or None. If the question asks for no line item, return None instead of a
    function.
    """
    item = line_item_of(question) if kind in AMOUNTS and kind != "percent" else None
    if item is None:
        return None

    def amount_in(sentence: str) -> Span | None:
        spans = (span for each in with_substitutes(item) for span in mentions(each, sentence))
        found = (_amount_of(kind, sentence, *span, question) for span in spans)
        return next((each for each in found if each is not None), None)

    return amount_in


ABOVE: Final = 16_000  # project default
"""Characters before and after an amount that are searched for the scale of the amounts around it."""
ROUNDED: Final = 0.015
"""Largest relative difference between amounts that count as the same. project default"""
_AMOUNT_NEXT: Final = rf"(?=(?:[A-Z]{{3}}\s?)?[(\u2212-]?\s?(?:{BEFORE})?\s?[(\u2212-]?\s?\d)"
_STATES: Final = re.compile(
    rf"""
    (?:\s?\([^)\n]{{1,40}}\))?
    (?:,?\s(?:attributable|applicable|available)\sto\s[^.,;$\d\n]{{3,70}}?)?
    (?P<when>,?\s{TIME_PHRASE})??
    ,?\s?(?:
      \s?\b(?:was|were|is|of|totaled|totalled|amounted\sto|came\sto|came\sin\sat|reached|stood\sat)\s
        (?:(?:approximately|about|around|nearly|over|a\srecord|record)\s)?{_AMOUNT_NEXT}
      | \s?\b(?P<moved>(?:has\s|have\s)?(?:increased|decreased|declined|grew|rose|fell|dropped|improved)
        |(?:was|were)\s(?:up|down))\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The words between a line item and its amount in a sentence."""
_NOT_ALL: Final = re.compile(
    r"\s(?:related|relating|associated|resulting|(?P<from>from)|on|recorded|recognized|due|excluding|per)\b",
    re.IGNORECASE,
)
"""Words after an amount which say that it is only a part of the item."""
_STOP: Final = re.compile(r"[.!?](?=\s|[A-Z\u2022]|$)(?<!\.[A-Z]\.)|(?<=[a-z)])\.(?=(?:19|20)\d\d\s)|[\n\u2022]")
_REACH: Final = 160  # project default
"""Characters after "increased" that are searched for the resulting amount."""
_QUARTER: Final = re.compile(r"\bquarter|\bthree months|\b1[23] weeks|\bQ[1-4]\b", re.IGNORECASE)
_YEARLY: Final = re.compile(r"\b(?:annual|year|twelve months|5[23] weeks)\b", re.IGNORECASE)
_IN_HEADS: Final = re.compile(
    rf"\b(?:dollars?|amounts?|tables?|[$€£])\s(?:are\s)?in\s(?P<scale>{WORD_SCALE})s\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Stated:
    """A sentence that states the amount of a line item.

    Attributes:
        start: Beginning of the sentence.
        end: End of the sentence.
        amount: Characters of the amount.
        value: The amount.
        time: The latest time that the sentence names.
        period: The amount's own time, "" if it has none.
        asked: Whether the amount is for the time that the question names.
        length: Whether the amount is for a span of the length (quarter or year) that the question names.
        whole: Whether the sentence says that the amount is for the whole company.
    """

    start: int
    end: int
    amount: Span
    value: TypedValue
    time: str
    period: str
    asked: bool
    length: bool
    whole: bool


def stated(question: str, kind: str, item: LineItem, document: Document) -> Answer | None:
    """Return the amount of a line item that a sentence of the document states, or None.

    It is for the time that the question names, or else for the latest time that any sentence names; the first such
    sentence is used. Return None if no sentence is for the question's time, or if sentences state different amounts for
    the same time, as for the segments of a bank. If no sentence has the item, those are read that have an item which
    reports state in its place.
    """
    timed = bool(times_in(question))
    found: list[_Stated] = []
    for one in with_substitutes(item):
        found = [each for each in _sentences(question, kind, one, document.text) if each.asked or not timed]
        if found:
            break
    if not found:
        return None
    best = max(found, key=lambda each: (each.time, each.length, -each.start))
    same = [each for each in found if each.period == best.period and each.time == best.time]
    whole = [each for each in same if each.whole] or same
    if any(not _alike(each.value, whole[0].value) for each in whole):
        return None
    best = whole[0]
    value = best.value if best.value.period == best.period else replace(best.value, period=best.period)
    return cited_answer(document, document.text[slice(*best.amount)], value, best.start, best.end)


def _alike(one: TypedValue, other: TypedValue) -> bool:
    """Return whether two values may be equal after rounding: "$8.9 billion" and "$8,929 million"."""
    if one.number is None or other.number is None:
        return one.value == other.value
    return abs(one.number - other.number) <= ROUNDED * max(abs(one.number), abs(other.number))


def _sentences(question: str, kind: str, item: LineItem, text: str) -> Iterator[_Stated]:
    asked = [time for _, time in times_in(question)]
    by_quarter, by_year = _QUARTER.search(question), _YEARLY.search(question)
    for start, end in mentions(item, text):
        first, last = sentence_around(text, start, end)
        sentence = text[first:last]
        place = None if has_cells(sentence) else _amount_of(kind, sentence, start - first, end - first, question)
        if place is None:
            continue
        said, period = sentence[slice(*place)], _time_of(kind, sentence, place)
        try:
            value = read_value(kind, said, Context(sentence, *place, question, verbatim=True))
        except ValueError:
            continue
        named = [time for _, time in times_in(sentence)]
        latest = max((time if len(time) > 4 else f"{time}-12" for time in named), default="")
        fits = _QUARTER.search(sentence) if by_quarter else by_year and _YEARLY.search(sentence)
        meant = any(same_time(time, each) for time in named for each in asked)
        yield _Stated(
            first,
            last,
            (first + place[0], first + place[1]),
            _scaled(value, said, text, first, last),
            latest,
            period,
            meant,
            bool(fits),
            _WHOLE.search(sentence[: start - first]) is not None,
        )


_WHOLE: Final = re.compile(
    r"\b(?:total|consolidated|our|we|firmwide|firm|company\S*|\S+ reported|group)\s+(?:\w+\s+){0,2}$", re.I
)
"""Words before a line item which say that it is for the whole company."""
_AND_MORE: Final = re.compile(r"cash\s(?:\w+\s){1,3}operati\w+(?:\sactivities)?\sand\b", re.IGNORECASE)
"""Line items of cash: only these are listed as in "$5 million of cash generated from operations and $3 million of
proceeds"."""
_BEHIND: Final = re.compile(r"\s(?:of|in)\s(?:our\s|total\s|net\s)?$", re.IGNORECASE)


def _amount_of(kind: str, sentence: str, start: int, end: int, question: str) -> Span | None:
    """Return the amount that a sentence states for the line item at ``start:end``, or None.

    The amount follows or precedes: "net sales were $5 million", "$5 million of cash generated from operations".
    """
    there = _money(kind, sentence)
    said = _STATES.match(sentence, end)
    if said is not None:
        reach = said.end() + (_REACH if said["moved"] else 4)
        after = [each for each in there if said.end() - 4 <= each.start <= reach]
    elif end == len(sentence) or _AND_MORE.match(sentence, start):
        after = [each for each in there if _BEHIND.fullmatch(sentence, each.end, start)]
    else:
        return None
    if not after:
        return None
    level = level_of(kind, sentence, (after[0].start, after[0].end), question)
    part = None if level is None else _NOT_ALL.match(sentence, level[1])
    reached = part is not None and part["from"] and said is not None and said["moved"]  # "rose to $9 million from"
    return level if part is None or reached else None


def _time_of(kind: str, sentence: str, place: Span) -> str:
    """Return the time of an amount in a sentence, or "" if the sentence names none.

    If the sentence lists amounts and times, an amount has the time at the same place of the list. Otherwise it has the
    last time before it, or else the first after it that is not the time of a comparison.
    """
    times = [(span, each) for span, each in periods(sentence) if each and not _YEARS.fullmatch(each)]
    for span, each in [*dates(sentence), *((match.span(), match[0]) for match in YEAR.finditer(sentence))]:
        if not any(span[0] < taken[1] and taken[0] < span[1] for taken, _ in times):
            times.append((span, each))
    times.sort()
    run = next(
        (each for each in lists_in(sentence, [(a.start, a.end) for a in _money(kind, sentence)]) if place in each),
        [place],
    )
    if len(run) > 1:
        for listed in lists_in(sentence, [span for span, _ in times]):
            if len(listed) == len(run):
                return dict(times)[listed[run.index(place)]]
        return ""
    before = [each for span, each in times if span[1] <= place[0]]
    behind = [(span, each) for span, each in times if span[0] >= place[1]]
    if behind and _RIGHT_BEHIND.fullmatch(sentence[place[1] : behind[0][0][0]]):
        return behind[0][1]
    if before:
        return before[-1]
    if behind and not _COMPARED.search(sentence[place[1] : behind[0][0][0]]):
        return behind[0][1]
    return ""


_YEARS: Final = re.compile(r"\d{4} to \d{4}")
_RIGHT_BEHIND: Final = re.compile(r"\s(?:for|in|during)\s(?:the\s)?", re.IGNORECASE)
_COMPARED: Final = re.compile(r"\b(?:compared|versus|vs|from|over|than|against)\b", re.IGNORECASE)


def sentence_around(text: str, start: int, end: int) -> Span:
    """Return the sentence around ``start:end``, with at most ``LONGEST_LINE`` characters on each side."""
    least = max(0, start - LONGEST_LINE)
    first = max((stop.end() for stop in _STOP.finditer(text, least, start)), default=least)
    most = min(len(text), end + LONGEST_LINE)
    ended = _STOP.search(text, end, most)
    return first, ended.start() if ended else most


def _money(kind: str, sentence: str) -> list[Amount]:
    found = [each for each in amounts(sentence) if not each.year and each.unit != "%"]
    return [each for each in found if each.currency or each.scale] if kind == "money" else found


def _scaled(value: TypedValue, said: str, text: str, start: int, end: int) -> TypedValue:
    """Scale an amount that has no scale ("$38,314") if the report states one for all amounts above its statements."""
    if value.scale or value.number is None or "," not in said:
        return value
    heads, scaled = _scales_of(text)
    near = bisect_left(scaled, max(0, start - ABOVE))
    if not heads or (near < len(scaled) and scaled[near] < end + ABOVE):
        return value
    scale = ([each for at, each in heads if at < start] or [heads[0][1]])[-1]
    number = Decimal(value.value) * SCALES[scale]
    return replace(value, value=f"{number:f}", number=float(number), scale=scale)


@lru_cache(maxsize=8)
def _scales_of(text: str) -> tuple[tuple[tuple[int, str], ...], tuple[int, ...]]:
    """Return where a document states the scale of its amounts, and where amounts have a scale of their own.

    Cached for the last few documents, since it is needed for each sentence.
    """
    heads = tuple((each.start(), each["scale"].lower()) for each in _IN_HEADS.finditer(text))
    pieces = range(0, len(text), ABOVE) if heads else ()
    scaled = {
        at + each.start
        for at in pieces
        for each in amounts(text[at : at + ABOVE + _LONGEST_AMOUNT])
        if each.scale and each.currency
    }
    return heads, tuple(sorted(scaled))


_LONGEST_AMOUNT: Final = 200  # project default
"""Characters by which pieces of a document overlap, so that no amount is cut."""
