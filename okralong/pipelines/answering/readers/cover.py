"""Read facts from a report's cover: its period and the shares outstanding."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from okralong.pipelines.answering.readers.sentences import sentence_around
from okralong.pipelines.core.types import Answer, Document, TypedValue
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.cited import cited_answer
from okralong.pipelines.statements.periods import YEAR, Span, dates, periods
from okralong.pipelines.statements.values import read_value

COVER: Final = 8000  # project default
"""Characters at the beginning of a document that contain its cover."""
_OWN_PERIOD: Final = re.compile(
    r"\b(?:report|filing|document|statement|10-[kq])s?\b.*\b(?:cover|for|about|of|end)"
    r"|\b(?:reporting|fiscal|quarterly|annual|financial)\b.*\b(?:period|year|quarter)",
    re.IGNORECASE,
)
_PERIOD_END: Final = re.compile(
    r"(?:For|FOR)\s+[Tt](?:he|HE)\s+(?i:fiscal\s+|financial\s+)?(?i:quarterly\s+period|year|quarter)\s+(?i:end)"
)
_TITLE: Final = re.compile(
    r"\bannual\s+report(?:\s+and\s+accounts)?(?:\s+(?:for|of))?(?:\s+the)?(?:\s+(?:fiscal|financial))?(?:\s+year)?\s+"
    r"(?P<year>(?:19|20)\d\d)(?![\d-])|\b(?P<year2>(?:19|20)\d\d)\s+annual\s+report\b",
    re.IGNORECASE,
)
_TITLE_LINES: Final = 400  # project default
"""Characters at the beginning of a document that contain its title."""
_LEAST: Final = 0.05  # project default
"""A period is the document's only if at least this share of its time spans name it."""


def asks_period(question: str) -> bool:
    """Return whether a question asks for the period of the document itself."""
    return _OWN_PERIOD.search(question) is not None


def report_period(document: Document) -> Answer | None:
    """Return the year or quarter that a report covers, or None if it names none.

    It is stated on the cover or in the title. Otherwise it is the latest time span that is mentioned frequently; a year
    is preferred to a quarter that is mentioned equally often.
    """
    text = document.text
    named = [
        (span, written) for span, written in periods(text) if re.search(r"^(?!month ).*to \d{4}-\d\d-\d\d$", written)
    ]
    for cover in _PERIOD_END.finditer(text, 0, min(len(text), COVER)):
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
    first, last = sentence_around(text, *span)
    said = text[slice(*span)]
    if YEAR.search(said) is None:  # the "three" in "the three and six months ended June 30, 2024"
        behind = [end for (start, end), _ in periods(text[span[0] : last]) if start]
        said = text[span[0] : span[0] + behind[0]] if behind else said
    return cited_answer(document, said, TypedValue(written), first, last)


_ASKS_SHARES: Final = re.compile(
    r"^(?!.*\b(?:average|weighted|options?|warrants?|preferred|per)\b).*"
    r"(?:\b(?:shares|units)\b.*\boutstanding\b|\boutstanding\b.*\b(?:shares|units)\b)",
    re.IGNORECASE,
)
_NOT_COUNTED: Final = re.compile(r"\baffiliates?\b|\bmarket value\b|\bauthorized\b|\bno shares\b", re.IGNORECASE)
_FEWEST_SHARES: Final = 1000  # project default
"""Smallest number that may be a number of shares outstanding."""
_LISTED_LINES: Final = 8  # project default
"""Number of lines below "outstanding at May 10, 2024" that may list the classes of shares with their numbers."""


def asks_shares(question: str) -> bool:
    """Return whether a question asks for the shares outstanding."""
    return _ASKS_SHARES.search(question) is not None


def cover_shares(document: Document) -> Answer | None:
    """Return the shares outstanding that a report's cover states, in a sentence or in a list of classes.

    Return None if it states none, or several classes.
    """
    text = document.text[:COVER]
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
                first, last = sentence_around(document.text, start, end)
                said = text[start:end].strip()
                return cited_answer(document, said, read_value("number", said), first, last)
        at += len(line) + 1
    return None


def _shares_in(text: str, first: int, last: int) -> list[Span]:
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
