"""Compare two named things by a value of each, which the cross-encoder reads for each sub-question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.readers.reader import Reader, cross_encoder_reads
from okralong.pipelines.answering.readers.span import read_span
from okralong.pipelines.core.types import Answer
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.periods import dates
from okralong.pipelines.statements.values import counted


class Comparison(Reader):
    """Answers questions, in the workflow "split", which of two things is earlier or later, or has more or less.

    It also answers whether the one has more or less than the other.
    """

    way = "comparison"
    stage = "after"
    workflows = ("split",)

    def fits(self, ask: Ask) -> bool:
        """Return whether the cross-encoder may answer."""
        return cross_encoder_reads(ask)

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the thing that the comparison chooses, or yes or no, with the sources of both values.

        Return None if the question does not compare two things, if no sub-question is about just one of them, or if a
        value is less probable than the policy's ``read.threshold``. Steps: ``compare/1``, ``compare/2``.
        """
        asked = _CHOICE.search(ask.question) or _THAN.match(ask.question)
        if asked is None:
            return None
        decides = asked.re is _THAN
        sign, timed = direction_of(asked["how"] if decides else ask.question[: asked.start()])
        if sign == 0:
            return None
        options = _YEAR_OF.sub("", asked["first"].strip()), _YEAR_OF.sub("", asked["second"].strip())
        values: list[Value] = []
        read: list[Answer] = []
        for number, (mine, other) in enumerate((options, options[::-1]), start=1):
            own = [(q, h) for q, h in finds if mine.casefold() in q.casefold() and other.casefold() not in q.casefold()]
            if not own:
                return None
            found = await read_span(ask.tools, f"compare/{number}", *own[0])
            value = value_of(found.answer) if found.status == "answered" else None
            if value is None:
                return None
            values.append(value)
            read.append(found)
        one, two = values
        comparable = one.unit == two.unit and len(one.amount) == len(two.amount) and timed == (one.unit == "date")
        if not comparable or (one.amount == two.amount and not decides):
            return None
        first = one.amount > two.amount if sign > 0 else one.amount < two.amount
        chosen = ("Yes" if first else "No") if decides else options[0] if first else options[1]
        citations = tuple(dict.fromkeys(each for found in read for each in found.citations))
        shown = tuple(dict.fromkeys(passage for found in read for passage in found.context))
        return Answer("answered", chosen, citations, context=shown)


_CHOICE: Final = re.compile(r"[,:]\s*(?P<first>[^,:?]+?)\s+or\s+(?P<second>[^,?]+?)\s*\?\s*$")
_THAN: Final = re.compile(
    r"(?:did|does|do|is|are|was|were|has|have|had)\s+(?P<first>(?:the\s+)?[A-Z\d][^?]*?)\s+(?:(?!than\b)[a-z]+\s+)?"
    r"(?P<how>(?:an?\s+)?(?:more|fewer|less|higher|lower|larger|smaller|greater|bigger|longer|shorter|earlier|later)\b[^?]*?)"
    r"\s+than\s+(?P<second>(?:the\s+)?[A-Z\d][^?]*?)(?:\s+(?:did|does|do|is|was|has|had))?\s*\?\s*$",
    re.IGNORECASE,
)
"""A question for yes or no that compares two things: "Did Alder have more employees than Birch?"."""
_YEAR_OF: Final = re.compile(r"\s(?:in|for|of)\s(?:fiscal\s)?(?:19|20)\d\d$", re.IGNORECASE)
"""The year of a thing that is offered: "Alder for 2021"."""
# "first" and "last" count only at the end of the question: elsewhere they may belong to a name.
_EARLIER: Final = re.compile(r"\b(earlier|sooner|first)\W*$", re.IGNORECASE)
_LATER: Final = re.compile(r"\b(later|last)\W*$|\bmore recently\b", re.IGNORECASE)
_LESS: Final = re.compile(r"\b(lower|smaller|fewer|less|shorter|cheaper)\b", re.IGNORECASE)
_MORE: Final = re.compile(r"\b(higher|larger|greater|more|bigger|longer|dearer)\b(?! recently)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Value:
    """A value that can be compared.

    Attributes:
        amount: (year, month, day) of a date, (year,) of a year, or (number,).
        unit: "date" for dates and years, else the currency, "%" or the word for what is counted.
    """

    amount: tuple[float, ...]
    unit: str


def direction_of(words: str) -> tuple[int, bool]:
    """Return 1 if the larger value is asked for, -1 for the smaller, 0 if unclear; and whether times are compared."""
    timed = bool(_LATER.search(words)) - bool(_EARLIER.search(words))
    return (timed, True) if timed else (bool(_MORE.search(words)) - bool(_LESS.search(words)), False)


def value_of(text: str) -> Value | None:
    """Return the value of a span that has exactly one date or number, else None."""
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
