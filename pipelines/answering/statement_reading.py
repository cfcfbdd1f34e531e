"""Values read off statements by code: the row or the sentence that says what is asked for, and the period of a report.

For typed questions of one document, where nobody else reads well: the label of a statement's row, or the subject of a
sentence, says in a word or two what a cross-encoder has to guess from a page of figures. Only line items whose names
are known (``configs/line_items.yaml``) are read off sentences, and only where nothing stands at the name that makes it
another item: "deferred revenue", "net income of affiliates". Also the scale and the currency of a value, which often
stand above the piece of the table that was shown. Ours, not in the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from okralong.pipelines.answering.amounts import BEFORE, SCALES, WORD_SCALE, Amount, amounts, has_cells
from okralong.pipelines.answering.answer_types import AMOUNTS, AnswerType
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.line_items import line_items
from okralong.pipelines.answering.periods import YEAR, Span, dates, periods
from okralong.pipelines.answering.reading import (
    ASKS_CHANGE,
    LONGEST_LINE,
    level_of,
    lists_in,
    read_value_of,
    same_time,
    times_in,
)
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.answering.values import Context, read_value
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Citation, Document, Hit, Passage, TypedValue

ALIKE: Final = 0.5
"""Share of the words of label and measure together that both must have; ours."""
ABOVE: Final = 6000
"""Characters before a value in which the head of its table is looked for; ours, for a long balance sheet."""
SHOWN: Final = 600
"""Characters on each side of what was read that go along as its context; ours."""
_LEAD: Final = re.compile(
    r"^\s*(?:what|how(?:\s+(?:much|many))?)\s+(?:(?:is|are|was|were)\s+)?(?:the\s+)?(?:(?:number|amount|value) of\s+)?",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"(?:[\s,]*\b(?:in|for|during|as|at|of|on|by|the|fiscal|financial|years?|ended|ending|fy|f)\b)*[\s,']*\x00",
    re.IGNORECASE,
)
"""A time (in its place stands a zero) with the words before it that belong to it."""
_EMPTY: Final = frozenset(
    [
        *("the", "of", "and", "a", "at", "in", "for", "by", "from", "balance", "amount", "period", "year"),
        *("is", "are", "was", "were", "there"),
    ]
)
_SAME: Final = {"profit": "income", "loss": "income", "earning": "income", "operation": "operating", "ending": "end"}
"""Words for which the rows of statements have another one."""
_LOOSE: Final = frozenset(["total", "company", "end", "net", "overall"])
"""Words that a question may add to a label, or leave out, where all others are the same; ours."""
_HEADS: Final = 40
"""Lines above a row in which its years are looked for; ours."""
_ROW_WORDS: Final = 14
"""Words of a row whose cells nothing parts; a longer line is a sentence. Ours."""


async def read_statement(tools: Tools, question: str, wanted: AnswerType) -> Answer | None:
    """What the only document of the scope says of the line item, or of its own period, that a question asks for; None
    where it asks for neither, or the document says it nowhere. No look-up and no call: all of its text is searched.
    """
    item = line_item_of(question) if wanted.kind in AMOUNTS and wanted.kind != "percent" else None
    own_period = wanted.kind == "period" and _OWN_PERIOD.search(question) is not None
    if wanted.many or not (item or own_period):
        return None
    scope = await tools.documents()
    if len(scope) != 1:
        return None
    document = await tools.full_text(scope[0][0])
    if item is None:
        return report_period(document)
    return item_row(question, wanted.kind, item, document) or stated(question, wanted.kind, item, document)


async def read_cell(tools: Tools, question: str, hits: Sequence[Hit], wanted: AnswerType) -> Answer | None:
    """The answer to a typed question, read off chunks: the row whose label is what is asked for, where the scope is one
    document, else the most probable span that holds a value (``read_value_of``, which see for None), with the scale and
    the currency that its document says above it. Step: ``read``.
    """
    amount, gives = wanted.kind in AMOUNTS and not wanted.many, stated_in(question, wanted.kind)
    if amount and hits and tools.scope_size == 1:
        document = await tools.full_text(hits[0].chunk.doc_id)
        row = row_answer(question, wanted.kind, [passage_of(hit) for hit in hits], document)
        if row is not None:
            return row
        if gives is not None:  # read_statement has read all its sentences
            gives = _none_in
    found = await read_value_of(tools, "read", question, hits, wanted, gives)
    if found is None or not amount or not found.citations:
        return found
    return with_heads(question, wanted.kind, found, await tools.full_text(found.citations[0].doc_id))


# --------
# Line items by their names.

Item = re.Pattern[str]
"""The names of one line item."""

_OTHER: Final = re.compile(
    r"\b(?:growth|margin|ratio|per|share of|percent\w*|segment|division|region|business unit|subsidiar\w*|forecast"
    r"|guidance|outlook|expected|average|difference|comprehensive|adjusted|non-gaap|pro forma|backlog)\b|%",
    re.IGNORECASE,
)
"""In a question: what makes it ask for more, or for something else, than a line item."""
_HOW_MUCH: Final = re.compile(
    r"^\s*how much\s+(.+?)\s+(?:(?:was|were|is|are|has been)\s+(?=(?:provided|used|generated)\b)|came\s+(?=from\b))",
    re.I,
)
"""What stands for "the net cash provided by" in a question."""
_TIME_WORDS: Final = (
    r"(?:the|its|our|this|that|whole|full|entire|current|same|latest|last|recent|most|reporting|reported|fiscal|financial"
    r"|calendar|first|second|third|fourth|three|six|nine|twelve|thirteen|one|two|both|quarter(?:s|ly)?|years?|annual"
    r"|year-to-date|months?|weeks?|days?|periods?|halfs?|half|ended|ending|and|of|to|in|for|during|on|as|at|end|close"
    r"|january|february|march|april|may|june|july|august|september|october|november|december|respectively"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|fy\s?\d*|q[1-4]|[1-4]q|h[12]|\d{1,4}(?:st|nd|rd|th)?)"
)
_TIME: Final = rf"(?:for|in|during|of|at|as\sof|through|on)\s(?:{_TIME_WORDS}\b[\s,.'\u2019\u2013-]*)+"
_ASKED_OF: Final = re.compile(
    rf"(?:\s*\([^)]*\))*\s*(?:$|[?;:.!]|(?:of|by|for)\s(?:the\s)?(?:company|firm|group|registrant|corporation)\b"
    rf"|attributable\b|,?\s?{_TIME}(?:$|[?;:.!(]))",
    re.IGNORECASE,
)
"""What may stand behind a line item in a question that asks for all of it."""
_PLAIN: Final = re.compile(
    r"(?:^|(?<=[\s\"(])|(?P<glued>(?<=[a-z\d.)\u2022])(?=[A-Z])))"
    r"(?i:total|consolidated|net|overall|reported|gaap|worldwide|company|group|company-wide)\s+$"
)
"""A word before a line item that makes no other item of it. Text that has lost its line breaks runs a heading into the
sentence behind it ("ActivitiesNet cash"): a capital behind a small letter begins a name."""
_FREE: Final = re.compile(
    r"(?:^|[\n;:,\u2022|\u201c\"(]\s*|(?<!\.[A-Z])\.\s*|\d\s+|['\u2019]s?\s+"
    r"|\b(?:our|the|its|their|this|was|were|is|are|much|recogni[sz]ed|reported|had|generated|achieved|delivered|posted"
    r"|recorded|while|that|annual|quarterly|quarter|year)\s+"
    r"|\b(?:had|incurred|reported|posted|generated)\s+an?\s+|\bof\s+(?:our\s+|its\s+)?(?:total|consolidated)\s+(?:net\s+)?"
    r"|(?:\d|illion|thousand)\s+of\s+)$",
    re.IGNORECASE,
)
"""What stands before a line item that is the subject, or the object, by itself."""


def line_item_of(question: str) -> Item | None:
    """The line item that a question asks for, of the whole company and at one time; None where it asks for more, for
    something else, or for several.
    """
    if _OTHER.search(question) or ASKS_CHANGE.search(question):
        return None
    plain = _HOW_MUCH.sub(r"\1 ", question).strip()
    asked = [item for item in line_items() if any(_ASKED_OF.match(plain, end) for _, end in mentions(item, plain))]
    return asked[0] if len(asked) == 1 else None


def _none_in(sentence: str) -> Span | None:
    return None


def stated_in(question: str, kind: str) -> Callable[[str], Span | None] | None:
    """Which amount a sentence gives for the line item that ``question`` asks for, None for none, as characters of it;
    None in its place where the question asks for no line item.
    """
    item = line_item_of(question) if kind in AMOUNTS and kind != "percent" else None
    if item is None:
        return None

    def amount_in(sentence: str) -> Span | None:
        found = (_amount_of(kind, sentence, start, end, question) for start, end in mentions(item, sentence))
        return next((each for each in found if each is not None), None)

    return amount_in


def mentions(item: Item, text: str) -> Iterator[Span]:
    """Where a text names a line item and nothing before it makes it another one."""
    for match in item.finditer(text):
        start, end = match.span()
        if start and text[start - 1].isalnum():
            if text[start].isupper() and not text[start - 1].isupper():
                yield start, end
            continue
        before = text[max(0, start - 80) : start]
        while _FREE.search(before) is None:
            plain = _PLAIN.search(before)
            if plain is None:
                break
            before = "" if plain["glued"] is not None else before[: plain.start()]
        else:
            yield start, end


# --------
# Sentences.

_AMOUNT_NEXT: Final = rf"(?=(?:[A-Z]{{3}}\s?)?[(\u2212-]?\s?(?:{BEFORE})?\s?[(\u2212-]?\s?\d)"
_STATES: Final = re.compile(
    rf"""
    (?:\s?\([^)\n]{{1,40}}\))?
    (?:,?\s(?:attributable|applicable|available)\sto\s[^.,;$\d\n]{{3,70}}?)?
    (?P<when>,?\s{_TIME})??
    ,?\s?(?:
      \s?\b(?:was|were|is|of|totaled|totalled|amounted\sto|came\sto|came\sin\sat|reached|stood\sat)\s
        (?:(?:approximately|about|around|nearly|over|a\srecord|record)\s)?{_AMOUNT_NEXT}
      | \s?\b(?P<moved>(?:has\s|have\s)?(?:increased|decreased|declined|grew|rose|fell|dropped|improved)
        |(?:was|were)\s(?:up|down))\b
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""How a sentence goes on behind its line item, up to the amount."""
_NOT_ALL: Final = re.compile(
    r"\s(?:related|relating|associated|resulting|(?P<from>from)|on|recorded|recognized|due|excluding|per)\b",
    re.IGNORECASE,
)
"""Behind an amount: it is a part of the item."""
_STOP: Final = re.compile(r"[.!?](?=\s|[A-Z\u2022]|$)(?<!\.[A-Z]\.)|(?<=[a-z)])\.(?=(?:19|20)\d\d\s)|[\n\u2022]")
_REACH: Final = 160
"""Characters behind "increased" in which the amount that was reached may stand; ours."""
_QUARTER: Final = re.compile(r"\bquarter|\bthree months|\b1[23] weeks|\bQ[1-4]\b", re.IGNORECASE)
_YEARLY: Final = re.compile(r"\b(?:annual|year|twelve months|5[23] weeks)\b", re.IGNORECASE)
_IN_HEADS: Final = re.compile(
    rf"\b(?:dollars?|amounts?|tables?|[$€£])\s(?:are\s)?in\s(?P<scale>{WORD_SCALE})s\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Stated:
    """A sentence at ``start:end`` with the amount that it gives for a line item (characters of it). ``time`` is the
    latest that it names, ``period`` the amount's own ("" where it names none); ``asked`` and ``length`` say whether it
    is of the time, and of a span of time, that the question names, ``whole`` that it says that it is of the company.
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


def stated(question: str, kind: str, item: Item, document: Document) -> Answer | None:
    """The amount that a sentence gives for a line item: of the time that the question names, else of the latest that
    any sentence gives it for, of the first such sentence. None where none does, the question names another time, or
    several amounts are given for the same time, as of the segments of a bank.
    """
    found = list(_sentences(question, kind, item, document.text))
    if times_in(question):
        found = [each for each in found if each.asked]
    if not found:
        return None
    best = max(found, key=lambda each: (each.time, each.length, -each.start))
    same = [each for each in found if each.period == best.period and each.time == best.time]
    whole = [each for each in same if each.whole] or same
    if any(not _alike(each.value, whole[0].value) for each in whole):
        return None
    best = whole[0]
    value = best.value if best.value.period == best.period else replace(best.value, period=best.period)
    return _answer(document, document.text[slice(*best.amount)], value, best.start, best.end)


def _alike(one: TypedValue, other: TypedValue) -> bool:
    """Whether two values may be one, rounded: "$8.9 billion" and "$8,929 million"."""
    if one.number is None or other.number is None:
        return one.value == other.value
    return abs(one.number - other.number) <= ROUNDED * max(abs(one.number), abs(other.number))


ROUNDED: Final = 0.015
"""Share by which two ways to write an amount differ at most; ours."""


def _sentences(question: str, kind: str, item: Item, text: str) -> Iterator[_Stated]:
    asked = [time for _, time in times_in(question)]
    by_quarter, by_year = _QUARTER.search(question), _YEARLY.search(question)
    for start, end in mentions(item, text):
        first, last = _sentence_around(text, start, end)
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
"""Before a line item: it is the whole company's."""
_AND_MORE: Final = re.compile(r"cash\s(?:\w+\s){1,3}operati\w+(?:\sactivities)?\sand\b", re.IGNORECASE)
"""Of "$5 million of cash generated from operations and $3 million of proceeds": only cash is listed so."""
_BEHIND: Final = re.compile(r"\s(?:of|in)\s(?:our\s|total\s|net\s)?$", re.IGNORECASE)


def _amount_of(kind: str, sentence: str, start: int, end: int, question: str) -> Span | None:
    """The amount that a sentence gives for the line item at these characters of it: "net sales were $5 million", "$5
    million of cash generated from operations".
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
    """The time of an amount of a sentence, as it names it; "" where it names none. Of amounts in a list the time at the
    same place in a list, else the last one before the amount, or behind it where it is compared with nothing before.
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


def _sentence_around(text: str, start: int, end: int) -> Span:
    """The sentence that holds the characters, at most ``LONGEST_LINE`` on each side of them."""
    least = max(0, start - LONGEST_LINE)
    first = max((stop.end() for stop in _STOP.finditer(text, least, start)), default=least)
    ended = _STOP.search(text, end)
    return first, min(ended.start() if ended else len(text), end + LONGEST_LINE)


def _money(kind: str, sentence: str) -> list[Amount]:
    """The amounts of a sentence; of money those that say so."""
    found = [each for each in amounts(sentence) if not each.year and each.unit != "%"]
    return [each for each in found if each.currency or each.scale] if kind == "money" else found


def _scaled(value: TypedValue, said: str, text: str, start: int, end: int) -> TypedValue:
    """A bare "$38,314" of a report that writes all amounts in the scale of its statements, which it says above them."""
    if value.scale or value.number is None or "," not in said:
        return value
    heads = list(_IN_HEADS.finditer(text))
    if not heads or any(each.scale and each.currency for each in amounts(text[max(0, start - ABOVE) : end + ABOVE])):
        return value
    scale = ([each for each in heads if each.start() < start] or heads)[-1]["scale"].lower()
    number = Decimal(value.value) * SCALES[scale]
    return replace(value, value=f"{number:f}", number=float(number), scale=scale)


def _answer(document: Document, said: str, value: TypedValue, start: int, end: int) -> Answer:
    """An answer that cites characters of its document, which go along with what stands around them."""
    text = document.text
    first, last = max(0, start - SHOWN), min(len(text), end + SHOWN)
    passage = Passage(document.doc_id, first, last, text[first:last], count_tokens(text[first:last]), 1.0)
    return Answer(
        "answered", said, (Citation(document.doc_id, start, end, text[start:end]),), context=(passage,), value=value
    )


# --------
# The period that a report covers.

_OWN_PERIOD: Final = re.compile(
    r"\b(?:report|filing|document|statement|10-[kq])s?\b.*\b(?:cover|for|about|of|end)"
    r"|\b(?:reporting|fiscal|quarterly|annual|financial)\b.*\b(?:period|year|quarter)",
    re.IGNORECASE,
)
"""A question for the period of the document itself."""
_COVER: Final = re.compile(
    r"(?:For|FOR)\s+[Tt](?:he|HE)\s+(?i:fiscal\s+|financial\s+)?(?i:quarterly\s+period|year|quarter)\s+(?i:end)"
)
_COVER_PAGE: Final = 8000
"""Characters at a document's beginning in which its cover stands; ours."""
_TITLE: Final = re.compile(
    r"\bannual\s+report(?:\s+and\s+accounts)?(?:\s+(?:for|of))?(?:\s+the)?(?:\s+(?:fiscal|financial))?(?:\s+year)?\s+"
    r"(?P<year>(?:19|20)\d\d)(?![\d-])|\b(?P<year2>(?:19|20)\d\d)\s+annual\s+report\b",
    re.IGNORECASE,
)
_TITLE_PAGE: Final = 400
"""Characters at a document's beginning in which its title stands; ours."""
_LEAST: Final = 0.05
"""Share of a document's mentions of spans of time that the one it covers has at least; ours."""


def report_period(document: Document) -> Answer | None:
    """The year or quarter that a report covers: as its cover or its title says, else of the spans of time that end last
    of those named more than now and then, the year where it is named as often as the quarter. None where it names none.
    """
    text = document.text
    named = [
        (span, written) for span, written in periods(text) if re.search(r"^(?!month ).*to \d{4}-\d\d-\d\d$", written)
    ]
    for cover in _COVER.finditer(text, 0, min(len(text), _COVER_PAGE)):
        for span, written in named:
            if span[0] < cover.end() + 20 and span[1] > cover.start():
                return _period_answer(document, span, written)
    if (titled := _TITLE.search(text, 0, min(len(text), _TITLE_PAGE))) is not None:
        year = titled["year"] or titled["year2"]
        return _period_answer(document, titled.span(), year)
    counts = Counter(written for _, written in named)
    least = max(2, _LEAST * sum(counts.values()))
    ends = Counter(written[-10:] for _, written in named)
    often = [end for end, count in ends.items() if count >= least]
    if not often:
        return None
    last = max(often)
    lengths = {written: count for written, count in counts.items() if written.endswith(last)}
    year = f"year to {last}"
    quarters = {each: n for each, n in lengths.items() if re.match(r"(?:3 months|1[0-6] weeks) to", each)}
    most = max(quarters, key=lambda each: quarters[each], default="")
    if not most or lengths.get(year, 0) >= quarters[most]:
        most = year if year in lengths else most or max(lengths, key=lambda each: lengths[each])
    return _period_answer(document, next(span for span, written in named if written == most), most)


def _period_answer(document: Document, span: Span, written: str) -> Answer:
    text = document.text
    first, last = _sentence_around(text, *span)
    said = text[slice(*span)]
    if YEAR.search(said) is None:  # the first of "the three and six months ended June 30, 2024"
        behind = [end for (start, end), _ in periods(text[span[0] : last]) if start]
        said = text[span[0] : span[0] + behind[0]] if behind else said
    return _answer(document, said, TypedValue(written), first, last)


# --------
# Rows of tables.


def item_row(question: str, kind: str, item: Item, document: Document) -> Answer | None:
    """The value of the first row of a document whose label is a line item's name and nothing else, in the column of the
    year that the question names; None where no row has it.
    """
    whole = Passage(document.doc_id, 0, len(document.text), document.text, 0, 1.0)
    for start, end, label in _rows(whole):
        if has_cells(document.text[start:end]) and any(_fills(label, span) for span in mentions(item, label)):
            found = _row_value(question, kind, document, start, end)
            if found is not None:
                return _answer(document, found[0], found[1], start, end)
    return None


def _fills(label: str, span: Span) -> bool:
    """Whether a label says no more than the name at these characters: brackets and "total" are no more."""
    before, after = label[: span[0]].casefold(), re.sub(r"\([^)]*\)", "", label[span[1] :])
    return not re.sub(r"total|consolidated|net|\W", "", before) and not re.sub(r"\W|\d", "", after)


def row_answer(question: str, kind: str, passages: Sequence[Passage], document: Document) -> Answer | None:
    """The value of the row of the passages whose label is nearest to what ``question`` asks for; None where none is
    near. ``document`` holds the passages. The row is cited.
    """
    wanted = _words(_without_times(_LEAD.sub("", question)))
    best: tuple[float, int, int] | None = None
    for passage in passages:
        for start, end, label in _rows(passage):
            own = _words(label)
            alike = len(wanted & own) / max(len(wanted | own), 1)
            near = (wanted <= own and alike >= ALIKE) or wanted - _LOOSE == own - _LOOSE != frozenset()
            if wanted and near and (best is None or alike > best[0]):
                best = alike, start, end
    if best is None:
        return None
    _, start, end = best
    found = _row_value(question, kind, document, start, end)
    if found is None:
        return None
    cited = Citation(document.doc_id, start, end, document.text[start:end])
    return Answer("answered", found[0], (cited,), context=tuple(passages), value=found[1])


def _without_times(question: str) -> str:
    """``question`` without the times that it names."""
    spans = [span for span, _ in [*periods(question), *dates(question)]]
    spans += [match.span() for match in re.finditer(r"(?:(?<=\bFY)|(?<=\bF)|\b)(?:19|20)\d\d\b", question)]
    marked = list(question)
    for start, end in spans:
        marked[start:end] = "\x00" * (end - start)
    return _WHEN.sub(" ", re.sub("\x00+", "\x00", "".join(marked)))


def _row_value(question: str, kind: str, document: Document, start: int, end: int) -> tuple[str, TypedValue] | None:
    """The words and the value of the cell of a row that the question asks for; None where it has none."""
    line, years = document.text[start:end], {year for _, year in _years(question)}
    cells = _cells(line)
    if not cells:
        return None
    cell, year = cells[0], ""
    if len(years) < 2:
        placed = _of_year(document.text, start, line, cells, next(iter(years), ""))
        if placed is None:
            return None
        cell, year = placed
    said = line[cell.start : cell.end].strip()
    value = value_in(question, kind, said, document, start + cell.start, start + cell.end)
    if value is None:
        return None
    return said, value if value.period or not year else replace(value, period=year)


def _cells(line: str) -> list[Amount]:
    """The amounts of a row, without those of its label: years, and the marks of footnotes."""
    label = line.find("|", len(line) - len(line.lstrip(" |"))) if "|" in line else -1
    found = [each for each in amounts(line) if not each.year and each.start > label]
    marked = len(found) > 1 and found[0].bracketed and abs(found[0].digits) < 20 and not found[0].currency
    return found[1:] if marked and not found[0].places and label < 0 else found


def value_in(question: str, kind: str, said: str, document: Document, start: int, end: int) -> TypedValue | None:
    """The value of the words at these characters of a document, with what stands above them there; None for none."""
    first = max(0, start - ABOVE)
    text = document.text[first : end + 200]
    try:
        return read_value(kind, said, Context(text, start - first, end - first, question))
    except ValueError:
        return None


def with_heads(question: str, kind: str, answer: Answer, document: Document) -> Answer:
    """``answer`` with the scale and the currency that its document says above the piece of the table that was shown."""
    value = answer.value
    if value is None or value.number is None or not answer.citations or (value.scale and value.currency):
        return answer
    cited = answer.citations[0]
    at = document.text.find(answer.answer, cited.start_char, cited.end_char)
    if at < 0:
        return answer
    wider = value_in(question, kind, answer.answer, document, at, at + len(answer.answer))
    if wider is None or wider.number is None or (value.scale and wider.scale != value.scale):
        return answer
    return replace(answer, value=replace(wider, period=wider.period or value.period))


def _rows(passage: Passage) -> Iterator[tuple[int, int, str]]:
    """The rows of a passage that have a label and an amount, as characters of the document, with the label."""
    at = 0
    for line in passage.text.split("\n"):
        short = has_cells(line) or len(line.split()) <= _ROW_WORDS
        found = [each for each in amounts(line) if not each.year] if short else []
        if found and (label := line[: found[0].start].strip(" |\t$(:.\u200b")) and len(label) < 120:
            yield passage.start_char + at, passage.start_char + at + len(line), label
        at += len(line) + 1


def _of_year(text: str, start: int, row: str, cells: Sequence[Amount], year: str) -> tuple[Amount, str] | None:
    """The amount of a row that is that of the year (of the latest where none is asked for), by the nearest head above
    that names years, and its year; None: another year's. Without such a head the first amount, and "".
    """
    lines = text[max(0, start - ABOVE) : start].split("\n")[-_HEADS:]
    for line in reversed(lines):
        named = _years(line)
        if not named or [each for each in amounts(line) if not each.year and each.places]:
            continue
        years = [each for _, each in named]
        wanted = year or max(years)
        if wanted not in years:
            return None
        place = years.index(wanted)
        if "|" in line and "|" in row:
            column = line[: named[place][0]].count("|")
            found = [each for each in cells if row[: each.start].count("|") == column]
            if found:
                return found[0], wanted
        if place < len(cells):
            return cells[place], wanted
        return None if year else (cells[0], "")
    return cells[0], ""


def _years(text: str) -> list[tuple[int, str]]:
    """The years of a text with where they stand; "FY18" is one."""
    found = re.finditer(r"(?<!\d)((?:19|20)\d\d)(?!\d|,\d)|\bFY?[\s'\u2019]?(\d\d)\b", text)
    return [(match.start(), match[1] or f"20{match[2]}") for match in found]


def _words(text: str) -> frozenset[str]:
    """The words that tell one measure from another, in one form each."""
    found = (re.sub(r"(?<!s)s$", "", word) for word in re.findall(r"[a-z]+", text.casefold()) if word not in _EMPTY)
    return frozenset(_SAME.get(word, word) for word in found)
