"""Rows of a document's tables, read by code: the row whose label is what is asked for, in the column of the year.

A label says what is asked for where both have the same words: "Total current assets" and "current assets", "Net loss
per common share - basic and diluted" and "basic earnings per share". Also the scale and the currency of a value, which
often stand above the piece of a table that was shown. Ours, not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from okralong.pipelines.answering.amounts import Amount, amounts, has_cells
from okralong.pipelines.answering.line_items import Item, mentions
from okralong.pipelines.answering.periods import Span, dates, periods
from okralong.pipelines.answering.values import Context, read_value
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue

ALIKE: Final = 0.5
"""Share of the words of label and measure together that both must have; ours."""
ABOVE: Final = 16_000
"""Characters before a value in which the head of its table is looked for; ours: a statement of cash flows that is
written in columns has 50 lines of 150 characters, and blank ones between."""
SHOWN: Final = 600
"""Characters on each side of what was read that go along as its context, to where a line ends; ours."""
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
_SAME: Final = {
    "profit": "income",
    "loss": "income",
    "earning": "income",
    "operation": "operating",
    "ending": "end",
    "begin": "beginning",
    "decrease": "increase",
    "change": "increase",
}
"""Words for which the rows of statements have another one."""
_LOOSE: Final = frozenset(["total", "company", "end", "net", "overall", "common", "ordinary", "basic"])
"""Words that a question may add to a label, or leave out, where all others are the same; ours. Earnings per share are
the basic ones unless diluted ones are asked for."""
_CASH: Final = re.compile(
    r"\bcash(?:(?:\s*,)?\s*(?:,|\band\b|&)\s*(?:cash\s+equivalents|equivalents|restricted\s+cash(?:\s+equivalents)?))+",
    re.IGNORECASE,
)
"""What statements call cash."""
_WHOSE: Final = re.compile(
    r"\b(?:attributable|applicable|available|allocable)\s+to\b.*?(?=[,:;\u2013\u2014-]|\bper\b|$)", re.I
)
"""In a label: to whom an income belongs."""
_ABBREVIATED: Final = re.compile(r"\([A-Z&]{2,8}\)")
"""In a question: "earnings per share (EPS)"."""
_HEADS: Final = 60
"""Lines above a row, blank ones not counted, in which its years are looked for; ours."""
_ROW_WORDS: Final = 14
"""Words of a row whose cells nothing parts; a longer line is a sentence. Ours."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a document at ``start:end`` that has a label and a cell."""

    start: int
    end: int
    label: str


def item_row(question: str, kind: str, item: Item, document: Document) -> Answer | None:
    """The value of the first row of a document whose label is a line item's name and nothing else, in the column of the
    year that the question names; None where no row has it.
    """
    named = [
        row for row in rows_of(document.text) if any(_fills(row.label, span) for span in mentions(item, row.label))
    ]
    return _first_value(question, kind, named, document)


_NET_OF: Final = re.compile(r"^\s*,?\s*(?:net|less)\b.*$|\([^)]*\)", re.IGNORECASE | re.DOTALL)
"""Behind a line item in a label: what was taken off it, and brackets."""


def _fills(label: str, span: Span) -> bool:
    """Whether a label says no more than the name at these characters: brackets, "total", and "net of" something are no
    more.
    """
    before, after = label[: span[0]].casefold(), _NET_OF.sub("", label[span[1] :])
    return not re.sub(r"total|consolidated|net|\W", "", before) and not re.sub(r"\W|\d", "", after)


def measure_row(question: str, kind: str, document: Document) -> Answer | None:
    """The value of the first row of a document whose label has the words of what ``question`` asks for and no others
    but ``_LOOSE`` ones; those with the very same words go first. None where no row has it.
    """
    wanted = _wanted(question)
    ranked = [
        (rank, row) for row in rows_of(document.text) if (rank := _same_words(wanted, _words_of(row, document.text)))
    ]
    found = [row for _, row in sorted(ranked, key=lambda pair: -pair[0])]
    return _first_value(question, kind, found, document)


def row_answer(question: str, kind: str, passages: Sequence[Passage], document: Document) -> Answer | None:
    """The value of the row of the passages whose label is nearest to what ``question`` asks for; None where none is
    near. ``document`` holds the passages. The row is cited.
    """
    wanted = _wanted(question)
    best: tuple[float, Row] | None = None
    for passage in passages:
        for row in _rows(passage.text, passage.start_char):
            own = _words_of(row, document.text)
            alike = len(wanted & own) / max(len(wanted | own), 1)
            near = _same_words(wanted, own) or (alike if wanted and wanted <= own and alike >= ALIKE else 0.0)
            if near and (best is None or near > best[0]):
                best = near, row
    if best is None:
        return None
    row = best[1]
    found = _row_value(question, kind, document, row.start, row.end)
    if found is None:
        return None
    cited = Citation(document.doc_id, row.start, row.end, document.text[row.start : row.end])
    return Answer("answered", found[0], (cited,), context=tuple(passages), value=found[1])


def _first_value(question: str, kind: str, rows: Sequence[Row], document: Document) -> Answer | None:
    for row in rows:
        found = _row_value(question, kind, document, row.start, row.end)
        if found is not None:
            return cited_answer(document, found[0], found[1], row.start, row.end)
    return None


def cited_answer(document: Document, said: str, value: TypedValue, start: int, end: int) -> Answer:
    """An answer that cites characters of its document, which go along with what stands around them."""
    text = document.text
    first, last = max(0, start - SHOWN), min(len(text), end + SHOWN)
    first = max(first, text.find("\n", first, start) + 1) if first else first
    last = max(text.rfind("\n", end, last), end) if last < len(text) and "\n" in text[end:last] else last
    passage = Passage(document.doc_id, first, last, text[first:last], count_tokens(text[first:last]), 1.0)
    return Answer(
        "answered", said, (Citation(document.doc_id, start, end, text[start:end]),), context=(passage,), value=value
    )


# --------
# What a label says, and what is asked for.


def _wanted(question: str) -> frozenset[str]:
    return _words(_ABBREVIATED.sub(" ", _without_times(_LEAD.sub("", question))))


def _same_words(wanted: frozenset[str], own: frozenset[str]) -> float:
    """2 where label and measure have the same words, 1 where all but ``_LOOSE`` ones are the same, else 0."""
    if {"basic", "diluted"} <= own:  # one row for both
        own = own - {"basic", "diluted"} | (wanted & {"basic", "diluted"})
    if not wanted - _LOOSE:
        return 0.0
    return 2.0 if wanted == own else float(wanted - _LOOSE == own - _LOOSE)


_PART: Final = re.compile(r"(?:\W*\b(?:basic|diluted|and)\b)+\W*", re.IGNORECASE)
"""A label that says only which of the shares: what is told of them stands above."""
_PART_LINES: Final = 6
"""Lines above such a label in which its head is looked for; ours."""


def _words_of(row: Row, text: str) -> frozenset[str]:
    label = row.label
    if _PART.fullmatch(label):
        for line in reversed(text[max(0, row.start - ABOVE) : row.start].split("\n")[-_PART_LINES - 1 : -1]):
            if line.strip() and not _PART.match(line.strip()) and not _cells(line):
                label = f"{line} {label}"
                break
    return _words(_WHOSE.sub(" ", label))


def _without_times(question: str) -> str:
    """``question`` without the times that it names."""
    spans = [span for span, _ in [*periods(question), *dates(question)]]
    spans += [match.span() for match in re.finditer(r"(?:(?<=\bFY)|(?<=\bF)|\b)(?:19|20)\d\d\b", question)]
    marked = list(question)
    for start, end in spans:
        marked[start:end] = "\x00" * (end - start)
    return _WHEN.sub(" ", re.sub("\x00+", "\x00", "".join(marked)))


# --------
# Cells, and what stands above them.


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


_GAP: Final = re.compile(r"(?<=\S)\s{2,}(?=[$€£(\d\u2014\u2013-])")
"""Between a label and its cells, where nothing else parts them."""
_NOTHING: Final = re.compile(r"(?<![^\s|$€£])[\u2014\u2013-]{1,2}(?![^\s|])")
"""A cell that says that there is nothing."""


def _cells(line: str) -> list[Amount]:
    """The amounts of a row, without those of its label: years, the marks of footnotes, "net of allowance of $792"."""
    label = _label_end(line)
    found = [each for each in amounts(line) if not each.year]
    if "|" in line:
        return [each for each in found if each.start > label]
    behind = [each for each in found if each.end > label]
    told = line[found[-len(behind) - 1].end : label] if 0 < len(behind) < len(found) else ""
    if len(behind) > 1 or re.search(r"[A-Za-z]", told):
        found = behind
    marked = len(found) > 1 and found[0].bracketed and abs(found[0].digits) < 20 and not found[0].currency
    return found[1:] if marked and not found[0].places else found


def _label_end(line: str) -> int:
    """Where the label of a row ends; -1 where nothing parts it from the cells."""
    if "|" in line:
        return line.find("|", len(line) - len(line.lstrip(" |")))
    gaps = (gap.end() for gap in _GAP.finditer(line) if re.search(r"[A-Za-z]", line[: gap.start()]))
    return next(gaps, -1)


def _with_empty(line: str, cells: Sequence[Amount]) -> list[Amount]:
    """``cells`` and the empty ones of a row, as zeros, in their order."""
    label = _label_end(line)
    empty = [match.span() for match in _NOTHING.finditer(line) if 0 <= label <= match.start()]
    return sorted([*cells, *(Amount(start, end, Decimal(0), 0) for start, end in empty)], key=lambda each: each.start)


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


@lru_cache(maxsize=8)
def rows_of(text: str) -> tuple[Row, ...]:
    """The rows of a whole document whose cells something parts. The last few documents' are kept, since a table of
    several columns asks each document several times.
    """
    return tuple(row for row in _rows(text, 0) if has_cells(text[row.start : row.end]))


def _rows(text: str, offset: int) -> Iterator[Row]:
    """The rows of a text that have a label and an amount; ``offset`` is where it stands in its document."""
    at = offset
    for line in text.split("\n"):
        short = has_cells(line) or len(line.split()) <= _ROW_WORDS
        found = _cells(line) if short else []
        if (
            found
            and (label := line[: found[0].start].strip().strip(" |\t$(:.\u200b\xa0"))
            and len(label) < _LONGEST_LABEL
        ):
            yield Row(at, at + len(line), label)
        at += len(line) + 1


_LONGEST_LABEL: Final = 160
"""Characters; ours."""


def _of_year(text: str, start: int, row: str, cells: Sequence[Amount], year: str) -> tuple[Amount, str] | None:
    """The amount of a row that is that of the year (of the latest where none is asked for), by the nearest head above
    that names years, and its year; None: another year's. Without such a head the first amount, and "".
    """
    lines = [line for line in text[max(0, start - ABOVE) : start].split("\n") if line.strip()]
    for line in reversed(lines[-_HEADS:]):
        named = _years(line)
        if not named or [each for each in amounts(line) if not each.year and each.places]:
            continue
        years = [each for _, each in named]
        wanted = year or max(years)
        if wanted not in years:
            return None
        place = years.index(wanted)
        there = _with_empty(row, cells)
        if "|" in line and "|" in row:
            column = line[: named[place][0]].count("|")
            found = [each for each in there if row[: each.start].count("|") == column]
            if found:
                return found[0], wanted
        if len(there) == len(years):
            return there[place], wanted
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
    plain = _CASH.sub("cash", text.casefold()).replace("noncurrent", "non current")
    found = (_one_form(word) for word in re.findall(r"[a-z]+", plain) if word not in _EMPTY)
    return frozenset(_SAME.get(word, word) for word in found)


def _one_form(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else re.sub(r"(?<!s)s$", "", word)
