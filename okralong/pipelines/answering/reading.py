"""What the cross-encoder reads off the passages: whether an answer is there, and where. Ours, not in the paper."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from okralong.pipelines.answering.answer_types import AMOUNTS, AnswerType, typed_value
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.prompts import UNANSWERABLE
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.sentences import sentence_ends
from okralong.pipelines.core.types import Answer, Citation, Hit, Passage, Reading
from okralong.pipelines.statements.amounts import amounts, has_cells
from okralong.pipelines.statements.periods import YEAR, Span, dates, periods
from okralong.pipelines.statements.values import Context, counted, spans_of

LONGEST_LINE: Final = 400
"""Characters around an answer that are quoted as its source at most; ours."""
SURER: Final = 0.1
"""By how much two sentences together must be more probable to hold the answer than the best one alone; ours."""
SHORTEST_SENTENCE: Final = 20
"""Characters of a sentence that may be an answer at least; ours."""
MOST_SENTENCES: Final = 150
"""Sentences that are read for one question at most, those of the best chunks first; ours."""
_PARAGRAPH_END: Final = re.compile(r"\n\s*\n\s*")
"""Beside sentences' ends: a line may end within a sentence, a paragraph does not."""


async def read_answer(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer:
    """The most probable span of the chunks as the answer, its line or sentence as citation; "unanswerable" where no
    chunk holds one with the policy's ``read.threshold``. Steps: ``step``.
    """
    shown = tuple(passage_of(hit) for hit in hits)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    readings = await tools.read(step, question, [passage.text for passage in shown])
    found = span_answer(shown, readings)
    # Whether it is there at all is asked of all passages, where it stands of the one that names a place.
    if max(each.answerable or 0.0 for each in readings) < tools.policy.read.threshold or not found.answer:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    return found


def span_answer(shown: Sequence[Passage], readings: Sequence[Reading]) -> Answer:
    """The most probable span of the passages, with its line or sentence as citation; its text may be empty."""
    passage, reading = max(zip(shown, readings, strict=True), key=lambda pair: probability(pair[1]))
    first, last = whole_words(passage.text, reading.start, reading.end)
    start, end = line_around(passage.text, first, last)
    text = passage.text[first:last].strip()
    return Answer("answered", text, (_cited(passage, start, end),), context=tuple(shown))


async def read_value_of(
    tools: Tools,
    step: str,
    question: str,
    hits: Sequence[Hit],
    wanted: AnswerType,
    gives: Callable[[str], Span | None] | None = None,
) -> Answer | None:
    """The most probable span of the chunks that holds a value of the type ``wanted``, with the value; "unanswerable" as
    ``read_answer``. A span without one (the label of a row, say) stands for the values in its line. Where ``gives``
    says which amount a sentence gives for what is asked, an amount of a sentence that gives none is no answer, and
    without any other the question is unanswerable.

    None where no span that is nearly as probable as the best leads to a value, or values of the type are not read off
    passages: yes and no stand in none, and a list is more than a span. Steps: ``step``, where anything is read.
    """
    if wanted.many or wanted.kind not in (*AMOUNTS, "date", "period", "choices"):
        return None
    shown = tuple(passage_of(hit) for hit in hits)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    readings = await tools.read(step, question, [passage.text for passage in shown])
    if max(each.answerable or 0.0 for each in readings) < tools.policy.read.threshold:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    ranked = sorted(zip(shown, readings, strict=True), key=lambda pair: -probability(pair[1]))
    least = NEARLY * probability(ranked[0][1])
    likely = [(passage, reading) for passage, reading in ranked if probability(reading) >= least]
    for place in (_in_span, _in_line):
        for passage, reading in likely:
            span = whole_words(passage.text, reading.start, reading.end)
            for first, last in place(wanted, passage.text, *span):
                level = level_of(wanted.kind, passage.text, (first, last), question)
                begin, stop = line_around(passage.text, first, last)
                if gives is not None and not has_cells(passage.text[begin:stop]):
                    stated = gives(passage.text[begin:stop])
                    level = None if stated is None else (begin + stated[0], begin + stated[1])
                if level is None:
                    continue
                first, last = level
                if wanted.kind == "date":
                    first, last = _date_of_event(question, passage.text, begin, stop) or (first, last)
                context = Context(passage.text, first, last, question, verbatim=True)
                said = passage.text[first:last].strip()
                try:
                    value = typed_value(wanted, [(said, "", context)])
                except ValueError:
                    continue
                source = _cited(passage, *line_around(passage.text, first, last))
                return Answer("answered", said, (source,), context=shown, value=value)
    return None if gives is None else Answer("unanswerable", UNANSWERABLE, context=shown)


NEARLY: Final = 0.25
"""Share of the best span's probability from which on a span that holds a value of the type is taken before one that
holds none; ours."""


def _in_span(wanted: AnswerType, text: str, start: int, end: int) -> list[Span]:
    """The value that a span touches, where it is one of the type; a choice is the span's own words."""
    if wanted.kind == "choices":
        return [(start, end)]
    return [span for span in spans_of(wanted.kind, text) if span[0] < end and span[1] > start][:1]


def _in_line(wanted: AnswerType, text: str, start: int, end: int) -> list[Span]:
    """The first value behind a span in its line or sentence, else the nearest one before it."""
    first, last = line_around(text, start, end)
    if wanted.kind == "choices":
        return [(first, last)]
    there = [span for span in spans_of(wanted.kind, text) if first <= span[0] and span[1] <= last]
    return [span for span in there if span[0] >= end][:1] or there[-1:]


ASKS_CHANGE: Final = re.compile(
    r"\b(?:increas|decreas|declin|chang|grow|grew|rise|rose|fell|fall|drop|differ|gain|higher|lower|more|less)\w*",
    re.IGNORECASE,
)
_CHANGED: Final = re.compile(
    r"\b(?:increas|decreas|declin|grew|grow|rose|ris|fell|fall|dropp?|improv|reduc)\w*\s+(?:(?:by|of)\s+)?"
    r"(?:approximately\s+|about\s+)?$",
    re.IGNORECASE,
)
"""What stands right before an amount by which something changed."""
_CHANGE: Final = re.compile(r"\s+(?:increas|decreas|declin|growth|ris|drop|improv|reduc)\w*\b", re.IGNORECASE)
"""What stands right behind such an amount."""
_TO: Final = re.compile(r"\bto\s+(?:approximately\s+|about\s+)?$", re.IGNORECASE)
_COMPARED: Final = re.compile(r"\b(?:compared\s+(?:to|with)|versus|vs\.?)\s[^.;]*$", re.IGNORECASE)
_JOINED: Final = re.compile(r"\s*(?:,|,?\s*\band\b)\s*", re.IGNORECASE)
"""Between the members of a list."""


_EVENT: Final = re.compile(
    r"\b(?:when|year|date|day|month)\b.*\b(?:was|were|is|been)\b.*?\b(?P<what>\w+ed)\s*\?\s*$", re.I
)
"""A question for the time of something that was done."""


def _date_of_event(question: str, text: str, first: int, last: int) -> Span | None:
    """Of a line that names several times the one of what ``question`` asks for: "founded in 1886", where it asks when
    something was founded; None where the line says that of no time.
    """
    asked = _EVENT.search(question)
    if asked is None:
        return None
    dated = re.compile(rf"\b{re.escape(asked['what'])}\s(?:in|on|as\sof)\s(?:the\syear\s)?", re.IGNORECASE)
    done = dated.search(text, first, last)
    spans = [span for span in spans_of("date", text) if done and done.end() <= span[0] < last]
    return spans[0] if done and spans and spans[0][0] == done.end() else None


def level_of(kind: str, text: str, span: Span, question: str) -> Span | None:
    """The amount that a sentence gives for what is asked, where ``span`` is one of its amounts; None where it gives
    none. A span alone is no answer to "how much": "increased $1.3 billion to $2.2 billion" has the change first,
    "$4.8 billion and $19.0 billion for Q1 2023 and Q1 2024" a list over times, "$1.0 billion, compared to $0.4
    billion" the year before. Of a list the amount of the time that the question names, else of the latest one, which
    is the report's own. Rows of tables, and questions for a change, keep their span.
    """
    first, last = line_around(text, *span)
    there = [each for each in spans_of(kind, text) if kind in AMOUNTS and first <= each[0] and each[1] <= last]
    if kind == "money":  # "page 67", "Note 15": in a sentence that has amounts of money a bare number is none
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
    """Spans in their order, those together that only a comma or "and" parts."""
    found: list[list[Span]] = []
    for each in spans:
        if found and _JOINED.fullmatch(text[found[-1][-1][1] : each[0]]):
            found[-1].append(each)
        else:
            found.append([each])
    return found


def same_time(one: str, other: str) -> bool:
    """Whether two of ``times_in`` may be meant as one: a day or quarter is in its year."""
    return one.startswith(other) or other.startswith(one)


def times_in(text: str) -> list[tuple[Span, str]]:
    """Days, quarters and years of a text, in a form that sorts by time ("2023-03", "2023")."""
    found = [(place, day[:7]) for place, day in dates(text)]
    for place, written in periods(text):
        if quarter := re.fullmatch(r"Q([1-4]) (?:FY)?(\d{4})", written):
            found.append((place, f"{quarter[2]}-{3 * int(quarter[1]):02}"))
    taken = [place for place, _ in found]
    years = [(each.span(), each[0]) for each in YEAR.finditer(text)]
    return sorted(found + [one for one in years if not any(a <= one[0][0] < b for a, b in taken)])


async def read_sentence(tools: Tools, step: str, question: str, hits: Sequence[Hit]) -> Answer:
    """The sentence of the chunks that most probably holds the answer, as answer and citation: for questions that ask
    why, whose answer is no span of a few words. A sentence is read by itself, since a large chunk tells the same of
    several things, and with the one before it in its paragraph, which may say what "it" is: both are the answer where
    that is surer by ``SURER``. "unanswerable" as ``read_answer``. Steps: ``step``.
    """
    shown = tuple(passage_of(hit) for hit in hits)
    alone = [(passage, *place) for passage in shown for place in _sentences(passage.text)][:MOST_SENTENCES]
    if not alone:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    two = [
        (passage, start, stop)
        for (passage, start, end), (other, begin, stop) in pairwise(alone)
        if passage is other and not _PARAGRAPH_END.search(passage.text[end:begin])
    ]
    places = alone + two
    readings = await tools.read(step, question, [passage.text[start:end] for passage, start, end in places])
    sure = [(each.answerable or 0.0) - SURER * (n >= len(alone)) for n, each in enumerate(readings)]
    best = max(range(len(places)), key=lambda n: (sure[n], readings[n].relevance))
    if (readings[best].answerable or 0.0) < tools.policy.read.threshold:
        return Answer("unanswerable", UNANSWERABLE, context=shown)
    source = _cited(*places[best])
    return Answer("answered", " ".join(source.quote.split()), (source,), context=shown)


def _sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence stands that has some length."""
    ends = sorted({*sentence_ends(text), *(match.end() for match in _PARAGRAPH_END.finditer(text)), len(text)})
    places = [(start, start + len(text[start:end].rstrip())) for start, end in pairwise([0, *ends])]
    return [(start, min(end, start + LONGEST_LINE)) for start, end in places if end - start >= SHORTEST_SENTENCE]


def _cited(passage: Passage, start: int, end: int) -> Citation:
    at = passage.start_char
    return Citation(passage.doc_id, at + start, at + end, passage.text[start:end])


async def read_comparison(
    tools: Tools, step: str, question: str, finds: Sequence[tuple[str, Sequence[Hit]]]
) -> Answer | None:
    """Which of two named things is earlier, later, more or less, from the values read for the sub-question of each.

    ``finds`` are the sub-questions with their chunks. None where the question compares no two things, no sub-question
    names one of them alone, or a value is not read with the policy's ``read.threshold``. Steps: ``step/1``, ``step/2``.
    """
    asked = _CHOICE.search(question)
    if asked is None:
        return None
    sign, timed = _direction(question[: asked.start()])
    if sign == 0:
        return None
    options = asked["first"].strip(), asked["second"].strip()
    values: list[Value] = []
    read: list[Answer] = []
    for number, (mine, other) in enumerate((options, options[::-1]), start=1):
        own = [(q, h) for q, h in finds if mine.casefold() in q.casefold() and other.casefold() not in q.casefold()]
        if not own:
            return None
        found = await read_answer(tools, f"{step}/{number}", *own[0])
        value = value_of(found.answer) if found.status == "answered" else None
        if value is None:
            return None
        values.append(value)
        read.append(found)
    one, two = values
    comparable = one.unit == two.unit and len(one.amount) == len(two.amount) and timed == (one.unit == "date")
    if not comparable or one.amount == two.amount:
        return None
    chosen = options[0] if (one.amount > two.amount) == (sign > 0) else options[1]
    citations = tuple(dict.fromkeys(each for found in read for each in found.citations))
    shown = tuple(dict.fromkeys(passage for found in read for passage in found.context))
    return Answer("answered", chosen, citations, context=shown)


_CHOICE: Final = re.compile(r",\s*(?P<first>[^,?]+?)\s+or\s+(?P<second>[^,?]+?)\s*\?\s*$")
_EARLIER: Final = re.compile(r"\b(earlier|sooner|first)\W*$", re.IGNORECASE)
_LATER: Final = re.compile(r"\b(later|last)\W*$|\bmore recently\b", re.IGNORECASE)
"""Of dates and years alone; "first" and "last" only where what is asked ends: elsewhere they may belong to a name."""
_LESS: Final = re.compile(r"\b(lower|smaller|fewer|less|shorter|cheaper)\b", re.IGNORECASE)
_MORE: Final = re.compile(r"\b(higher|larger|greater|more|bigger|longer|dearer)\b(?! recently)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Value:
    """What a span is compared by: ``amount`` is (year, month, day) of a date, (year,), or (number,); ``unit`` is the
    currency, "%" or the word for what is counted, "date" of a date or year.
    """

    amount: tuple[float, ...]
    unit: str


def _direction(words: str) -> tuple[int, bool]:
    """1 where the larger value is asked for, -1 for the smaller, 0 where neither or both are; and whether of dates."""
    timed = bool(_LATER.search(words)) - bool(_EARLIER.search(words))
    return (timed, True) if timed else (bool(_MORE.search(words)) - bool(_LESS.search(words)), False)


def value_of(text: str) -> Value | None:
    """The value of a span with one date or one number in it; else None."""
    if days := dates(text):
        year, month, *day = map(float, days[0][1].split("-"))
        return Value((year, month, *(day or [0.0])), "date")
    found = amounts(text)
    if len(found) != 1:
        return None
    one = found[0]
    number = float(one.digits * one.factor)
    unit = one.currency or one.unit or counted(text, one.end).casefold()
    return Value((number,), "date" if one.year and not unit else unit)


def probability(reading: Reading) -> float:
    """How probably the answer stands in the passage, at the place that the reading names."""
    return (reading.answerable or 0.0) * math.sqrt(reading.span or 0.0)


_CELLS: Final = re.compile(r"[ \t]{2,}|\t|\s*\|\s*")
"""Between the columns of a table row."""
_WORD: Final = re.compile(r"\((?:[$€£¥]\s?)?\d[\d.,]*\)|(?:[$€£¥]\s?)?-?\d+(?:[.,]\d+)*\s?%?|\w+(?:[.'\u2019/&-]\w+)*")
"""An amount with its sign of currency, its brackets or percent sign, or a word."""


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The characters of a span without the words and numbers that it cuts in two: a model's tokens are parts of both,
    and "462" of "462,118" is another number. Of a table row that it takes several columns of, the first.
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
    """The line that holds the characters, or of a long line the sentence; at most ``LONGEST_LINE`` around them."""
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
