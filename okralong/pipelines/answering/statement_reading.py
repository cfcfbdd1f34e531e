"""Values read off statements by code: the row or the sentence that says what is asked for, and the period of a report.

For typed questions of one document, where nobody else reads well: the label of a statement's row, or the subject of a
sentence, says in a word or two what a cross-encoder has to guess from a page of figures. Only line items whose names
are known (``configs/line_items.yaml``) are read off sentences, and only where nothing stands at the name that makes it
another item: "deferred revenue", "net income of affiliates". Also the scale and the currency of a value, which often
stand above the piece of the table that was shown. Ours, not in the paper.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import Final

from okralong.pipelines.answering.answer_types import AMOUNTS, AnswerType
from okralong.pipelines.answering.context import passage_of
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
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Document, Hit, Passage, TypedValue
from okralong.pipelines.statements.amounts import BEFORE, SCALES, WORD_SCALE, Amount, amounts, has_cells
from okralong.pipelines.statements.arithmetic import calculation_of, worked_out
from okralong.pipelines.statements.columns import ABOVE
from okralong.pipelines.statements.line_items import Item, items_needed, line_items, mentions
from okralong.pipelines.statements.periods import YEAR, Span, dates, periods
from okralong.pipelines.statements.rows import (
    ROUNDED,
    cited_answer,
    first_row,
    item_row,
    measure_row,
    row_answer,
    with_heads,
)
from okralong.pipelines.statements.values import Context, read_value


async def read_statement(tools: Tools, question: str, wanted: AnswerType) -> Answer | None:
    """What the only document of the scope, or the one that the question names, says of the measure, or of its own
    period, that the question asks for; None where it says it nowhere. No look-up and no call: all of its text is
    searched.
    """
    amount = wanted.kind in AMOUNTS and wanted.kind != "percent"
    own_period = wanted.kind == "period" and _OWN_PERIOD.search(question) is not None
    if wanted.many or not (amount or own_period) or len(question) > LONGEST_QUESTION:
        return None
    one = await _one_document(tools, question)
    if one is None:
        return None
    return await asyncio.to_thread(_read, *one, wanted.kind, own_period)  # a large document takes a second


async def read_calculation(tools: Tools, question: str) -> Answer | None:
    """The result of a calculation that the question says in plain words, over rows and sentences of one document as
    ``read_statement`` finds them; None where it is none, or an operand is nowhere. No look-up and no call.
    """
    wanted = calculation_of(question) if len(question) <= LONGEST_QUESTION else None
    if wanted is None:
        return None
    asked = [await _one_document(tools, operand) for operand in wanted.operands]
    ones = [one for one in asked if one is not None]
    if len(ones) < len(asked) or len({document.doc_id for document, _ in ones}) > 1:
        return None
    found = [await asyncio.to_thread(_operand, *one) for one in ones]
    answers = [answer for answer in found if answer is not None]
    return worked_out(wanted, answers) if len(answers) == len(found) else None


async def line_item_rows(tools: Tools, question: str) -> list[Passage]:
    """The rows of statements with the line items that ``question`` needs, each with the lines around it: of the only
    document of its scope, or of those that it names. None where it needs none, or names no document or more than
    ``MOST_NAMED``. No look-up and no call.
    """
    items = items_needed(question)
    doc_ids = await _documents_asked(tools, question) if items else []
    found: list[Passage] = []
    for doc_id in doc_ids:
        document = await tools.full_text(doc_id)
        rows = [await asyncio.to_thread(first_row, item, document) for item in items]
        found += [row for row in rows if row is not None]
    return found


LONGEST_QUESTION: Final = 2_000
"""Characters of a question that is read off a statement. project default: one for a line item has a hundred."""
MOST_NAMED: Final = 3
"""Documents whose rows are shown for one question at most; ours."""
_ANOTHER: Final = 0.5
"""Share of its name by which a question must name another document than the first; ours."""
_NAME_WORD: Final = re.compile(r"[A-Z\d][\w&-]*")
_PERIOD_WORD: Final = re.compile(r"(?:first|second|third|fourth|quarter|[Qq][1-4]|(?:19|20)\d\d)$")


async def _documents_asked(tools: Tools, question: str) -> list[str]:
    """The only document of the scope; else those that the capitals and times of a question name best, and those that
    the capitals name which are in none of their ids, as a question about two companies has. None for more than
    ``MOST_NAMED``.
    """
    if tools.scope_size == 1:
        return [(await tools.documents())[0][0]]
    words = re.findall(r"\w[\w&-]*", question)
    names = [word for word in words if _NAME_WORD.match(word) or _PERIOD_WORD.match(word)]
    found = _best_named(tools, " ".join(names))
    known = set(re.findall(r"[a-z\d]+", " ".join(found).casefold()))
    others = [word for word in names if word.casefold() not in known and not _PERIOD_WORD.match(word)]
    found += [doc_id for doc_id in _best_named(tools, " ".join(others), _ANOTHER) if doc_id not in found]
    return found if len(found) <= MOST_NAMED else []


def _best_named(tools: Tools, words: str, least: float = 0.0) -> list[str]:
    """The documents that the words name best, those near the best one included; none where its share is not above
    ``least``.
    """
    near = tools.policy.fusion.named.near if tools.policy.fusion.named is not None else 1.0
    shares = tools.named(words)
    most = max(shares.values(), default=0.0)
    return [doc_id for doc_id, share in shares.items() if share >= near * most] if most > least else []


def _operand(document: Document, question: str) -> Answer | None:
    found = (_read(document, question, kind, False) for kind in ("money", "number", "percent"))
    return next((answer for answer in found if answer is not None), None)


def _read(document: Document, question: str, kind: str, own_period: bool) -> Answer | None:
    if own_period:
        return report_period(document)
    if kind == "number" and _ASKS_SHARES.search(question) and (shares := cover_shares(document)) is not None:
        return shares
    item = line_item_of(question)
    if item is None:
        return measure_row(question, kind, document)
    return item_row(question, kind, item, document) or stated(question, kind, item, document)


_NAME: Final = r"(?P<name>[A-Z\d][\w.&'\u2019/\\-]*,?(?:\s+(?:[A-Z\d(\\&][\w.&'\u2019/()\\-]*,?|of|and|the|for|de))*)"
_OF_NAME: Final = re.compile(
    rf"\s+(?:of|for|by|at)\s+(?:the\s+)?{_NAME}(?P<rest>(?:,?\s(?:for|in|during|as\sof|at\sthe\send\sof)\s[^?]*)?\s*\?*\s*)$"
)
_ITS: Final = re.compile(rf"\b(?:is|was|are|were)\s+{_NAME}(?:(?<=s)['\u2019]|['\u2019]s)\s+(?P<rest>)")
"""Where a question names whose value it asks for."""
_COVER: Final = 8000
"""Characters at a document's beginning in which its cover stands; ours."""


async def _one_document(tools: Tools, question: str) -> tuple[Document, str] | None:
    """The document that is asked, and the question without its name: the only one of the scope, or the one of several
    that the question names best.
    """
    named = _OF_NAME.search(question) or _ITS.search(question)
    if tools.scope_size == 1:
        document = await tools.full_text((await tools.documents())[0][0])
        return document, _unnamed(question, named) if named and _is_called(document, named["name"]) else question
    if named is None:
        return None
    best = _best_named(tools, question[named.start() :])
    if len(best) != 1:
        return None
    document = await tools.full_text(best[0])
    return (document, _unnamed(question, named)) if _is_called(document, named["name"]) else None


def _is_called(document: Document, name: str) -> bool:
    """Whether a document is called so: by its own names, or at the beginning of its cover."""
    names = set(re.findall(r"[a-z]+", f"{document.doc_id} {document.title}".casefold()))
    words = re.findall(r"[a-z]+", name.casefold())
    cover = " ".join(document.text[:_TITLE_PAGE].casefold().split())
    return bool(words) and (names.issuperset(words) or " ".join(name.casefold().split()).rstrip(".,") in cover)


def _unnamed(question: str, named: re.Match[str]) -> str:
    ahead = "" if named.re is _OF_NAME else f"{question[named.start() : named.start('name')]}the "
    return f"{question[: named.start()]}{ahead}{named['rest']}{question[named.end() :]}"


async def read_cell(tools: Tools, question: str, hits: Sequence[Hit], wanted: AnswerType) -> Answer | None:
    """The answer to a typed question, read off chunks: the row whose label is what is asked for, where the scope is one
    document, else the most probable span that holds a value (``read_value_of``, which see for None), with the scale and
    the currency that its document says above it. Step: ``read``.
    """
    amount, gives = wanted.kind in AMOUNTS and not wanted.many, stated_in(question, wanted.kind)
    if amount and hits and tools.scope_size == 1:
        document = await tools.full_text(hits[0].chunk.doc_id)
        passages = [passage_of(hit) for hit in hits]
        row = await off_loop(len(document.text), partial(row_answer, question, wanted.kind, passages, document))
        if row is not None:
            return row
        if gives is not None:  # read_statement has read all its sentences
            gives = _none_in
    found = await read_value_of(tools, "read", question, hits, wanted, gives)
    if found is None or not amount or not found.citations:
        return found
    document = await tools.full_text(found.citations[0].doc_id)
    return await off_loop(len(document.text), partial(with_heads, question, wanted.kind, found, document))


# --------
# Line items by their names.

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
_AMOUNT_OF: Final = re.compile(
    r"\b(?:amount|balance|value)\s+of\s+(?:the\s+)?|\s+(?:amount|balance)(?=\s*(?:\?|$))", re.I
)
"""What a question may say of any line item: "the amount of accounts payable", "the accounts payable amount"."""
_TIME_WORDS: Final = (
    r"(?:the|its|our|this|that|whole|full|entire|current|same|latest|last|recent|most|reporting|reported|fiscal|financial"
    r"|calendar|first|second|third|fourth|three|six|nine|twelve|thirteen|one|two|both|quarter(?:s|ly)?|years?|annual"
    r"|year-to-date|months?|weeks?|days?|periods?|half|ended|ending|and|of|to|in|for|during|on|as|at|end|close"
    r"|january|february|march|april|may|june|july|august|september|october|november|december|respectively"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|fy\d*|q[1-4]|[1-4]q|h[12]|\d{1,4}(?:st|nd|rd|th)?)"
)
_TIME: Final = rf"(?:for|in|during|of|at|as\sof|through|on)\s(?:{_TIME_WORDS}\b[\s,.'\u2019\u2013-]*){{1,24}}"
"""No two of the words begin alike and end at the same place, or a long list of them takes exponential time."""
_ASKED_OF: Final = re.compile(
    rf"(?:\s*\([^)]*\))*\s*(?:$|[?;:.!]|(?:of|by|for)\s(?:the\s)?(?:company|firm|group|registrant|corporation)\b"
    rf"|attributable\b|,?\s?{_TIME}(?:$|[?;:.!(]))",
    re.IGNORECASE,
)
"""What may stand behind a line item in a question that asks for all of it."""


def line_item_of(question: str) -> Item | None:
    """The line item that a question asks for, of the whole company and at one time; None where it asks for more, for
    something else, or for several.
    """
    if _OTHER.search(question) or ASKS_CHANGE.search(question):
        return None
    plain = _AMOUNT_OF.sub("", _HOW_MUCH.sub(r"\1 ", question)).strip()
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
    return cited_answer(document, document.text[slice(*best.amount)], value, best.start, best.end)


def _alike(one: TypedValue, other: TypedValue) -> bool:
    """Whether two values may be one, rounded: "$8.9 billion" and "$8,929 million"."""
    if one.number is None or other.number is None:
        return one.value == other.value
    return abs(one.number - other.number) <= ROUNDED * max(abs(one.number), abs(other.number))


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
    most = min(len(text), end + LONGEST_LINE)
    ended = _STOP.search(text, end, most)
    return first, ended.start() if ended else most


def _money(kind: str, sentence: str) -> list[Amount]:
    """The amounts of a sentence; of money those that say so."""
    found = [each for each in amounts(sentence) if not each.year and each.unit != "%"]
    return [each for each in found if each.currency or each.scale] if kind == "money" else found


def _scaled(value: TypedValue, said: str, text: str, start: int, end: int) -> TypedValue:
    """A bare "$38,314" of a report that writes all amounts in the scale of its statements, which it says above them."""
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
    """Of a whole document where it says in which scale its amounts are, and which; and where amounts of money stand
    that name their own. Kept for the last few documents: each sentence asks for it.
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


_LONGEST_AMOUNT: Final = 200
"""Characters that a piece of a document has of the next one, so that no amount is cut; ours."""


# --------
# The period that a report covers.

_OWN_PERIOD: Final = re.compile(
    r"\b(?:report|filing|document|statement|10-[kq])s?\b.*\b(?:cover|for|about|of|end)"
    r"|\b(?:reporting|fiscal|quarterly|annual|financial)\b.*\b(?:period|year|quarter)",
    re.IGNORECASE,
)
"""A question for the period of the document itself."""
_PERIOD_END: Final = re.compile(
    r"(?:For|FOR)\s+[Tt](?:he|HE)\s+(?i:fiscal\s+|financial\s+)?(?i:quarterly\s+period|year|quarter)\s+(?i:end)"
)
_TITLE: Final = re.compile(
    r"\bannual\s+report(?:\s+and\s+accounts)?(?:\s+(?:for|of))?(?:\s+the)?(?:\s+(?:fiscal|financial))?(?:\s+year)?\s+"
    r"(?P<year>(?:19|20)\d\d)(?![\d-])|\b(?P<year2>(?:19|20)\d\d)\s+annual\s+report\b",
    re.IGNORECASE,
)
_TITLE_PAGE: Final = 2500
"""Characters at a document's beginning in which its company is named; ours."""
_TITLE_LINES: Final = 400
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
    for cover in _PERIOD_END.finditer(text, 0, min(len(text), _COVER)):
        for span, written in named:
            if span[0] < cover.end() + 20 and span[1] > cover.start():
                return _period_answer(document, span, written)
    if (titled := _TITLE.search(text, 0, min(len(text), _TITLE_LINES))) is not None:
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
    return cited_answer(document, said, TypedValue(written), first, last)


# --------
# The shares that a report's cover counts.

_ASKS_SHARES: Final = re.compile(
    r"^(?!.*\b(?:average|weighted|options?|warrants?|preferred|per)\b).*"
    r"(?:\b(?:shares|units)\b.*\boutstanding\b|\boutstanding\b.*\b(?:shares|units)\b)",
    re.IGNORECASE,
)
_NOT_COUNTED: Final = re.compile(r"\baffiliates?\b|\bmarket value\b|\bauthorized\b|\bno shares\b", re.IGNORECASE)
_FEWEST_SHARES: Final = 1000
"""Fewer are no count of a company's shares; ours."""
_LISTED_LINES: Final = 8
"""Lines below "outstanding at May 10, 2024" in which the classes stand with their numbers; ours."""


def cover_shares(document: Document) -> Answer | None:
    """The shares outstanding that a report's cover states, in a sentence or in a list of classes; None where it states
    none, or several classes.
    """
    text = document.text[:_COVER]
    at = 0
    for line in text.split("\n"):
        if re.search(r"\boutstanding\b", line, re.IGNORECASE):
            counts = _shares_in(text, at, at + len(line))
            if not counts:
                below = text[at + len(line) + 1 :].split("\n")[:_LISTED_LINES]
                counts = _shares_in(text, at + len(line), at + len(line) + 1 + len("\n".join(below)))
            if len(counts) > 1:
                return None
            if counts:
                start, end = counts[0]
                first, last = _sentence_around(document.text, start, end)
                said = text[start:end].strip()
                return cited_answer(document, said, read_value("number", said), first, last)
        at += len(line) + 1
    return None


def _shares_in(text: str, first: int, last: int) -> list[Span]:
    """The numbers of shares that a piece of a cover gives, sentence by sentence."""
    found: list[Span] = []
    for sentence in re.finditer(r"(?:[^.\n]|\.(?=\d|\S))+", text[first:last]):
        if _NOT_COUNTED.search(sentence[0]):
            continue
        taken = [span for span, _ in dates(sentence[0])]
        for each in amounts(sentence[0]):
            plain = not (each.year or each.currency or each.places or each.unit) and each.digits >= _FEWEST_SHARES
            if plain and not any(start < each.end and each.start < end for start, end in taken):
                found.append((first + sentence.start() + each.start, first + sentence.start() + each.end))
    return found
