"""Find the table row whose label matches a question, and its cell in the column of the question's time.

A label matches if both have the same words: "Total current assets" and "current assets", "Net loss per common share -
basic and diluted" and "basic earnings per share". This module also adds a value's scale and currency, which are often
stated above the part of the table that was shown. Not in the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Final

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Answer, Citation, Document, Passage, TypedValue
from okralong.pipelines.statements.amounts import SCALES, Amount, amounts, has_cells
from okralong.pipelines.statements.columns import ABOVE, FAR, ROW_WORDS, Time, fits, head_above, time_of
from okralong.pipelines.statements.line_items import Item, mentions, with_substitutes
from okralong.pipelines.statements.periods import Span, dates, periods
from okralong.pipelines.statements.values import Context, read_value

ALIKE: Final = 0.5
"""Least share of all words of label and question that both must contain. project default"""
SHOWN: Final = 600
"""Characters of context on each side of a value, extended to the end of a line. project default"""
AROUND: Final = 300
"""The same for the row of a line item (policy ``line_item_rows``). project default: 600 gained nothing."""
_LEAD: Final = re.compile(
    r"^\s*(?:what|how(?:\s+(?:much|many))?)\s+(?:(?:is|are|was|were)\s+)?(?:the\s+)?(?:(?:number|amount|value) of\s+)?",
    re.IGNORECASE,
)
_WHEN: Final = re.compile(
    r"(?:[\s,]*\b(?:in|for|during|as|at|of|on|by|the|fiscal|financial|years?|ended|ending|fy|f)\b)*[\s,']*\x00",
    re.IGNORECASE,
)
"""A time (replaced by a NUL character) with the words before it that belong to it."""
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
"""Words in labels and questions that are compared as the same word."""
_LOOSE: Final = frozenset(["total", "company", "end", "net", "overall", "common", "ordinary", "basic"])
"""Words that may be in only one of question and label. project default. "basic" is among them, because earnings per
share are basic unless the question says diluted."""
_CASH: Final = re.compile(
    r"\bcash(?:(?:\s*,)?\s*(?:,|\band\b|&)\s*(?:cash\s+equivalents|equivalents|restricted\s+cash(?:\s+equivalents)?))+",
    re.IGNORECASE,
)
""""cash and cash equivalents" and similar names, which all mean cash."""
_WHOSE: Final = re.compile(
    r"\b(?:attributable|applicable|available|allocable)\s+to\b.*?(?=[,:;\u2013\u2014-]|\bper\b|$)", re.I
)
"""The part of a label that says to whom income is attributable."""
_ABBREVIATED: Final = re.compile(r"\([A-Z&]{2,8}\)")
"""An abbreviation in a question: "earnings per share (EPS)"."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a document at ``start:end`` that has a label and at least one amount."""

    start: int
    end: int
    label: str


def item_row(question: str, kind: str, item: Item, document: Document) -> Answer | None:
    """Return the value of the row whose label is just a line item's name, in the column of the question's time.

    If no row has the item, rows of those that reports state in its place are read. Return None if there is no such
    row, or if several rows have different values, as those of segments do.
    """
    for each in with_substitutes(item):
        named = [row for row in rows_of(document.text) if _names(row.label, each)]
        if named:
            return _agreed(list(_values_of(question, kind, named, document)), document)
    return None


def first_row(item: Item, document: Document) -> Passage | None:
    """Return the first row whose label is just a line item's name, with the lines around it, or None."""
    for each in with_substitutes(item):
        for row in rows_of(document.text):
            if _names(row.label, each):
                return _lines_around(document, row.start, row.end, AROUND)
    return None


def _names(label: str, item: Item) -> bool:
    return any(_fills(label, span) for span in mentions(item, label))


_NET_OF: Final = re.compile(r"^\s*,?\s*(?:net|less)\b.*$|\([^)]*\)", re.IGNORECASE | re.DOTALL)
"""Text after a line item's name in a label that is ignored: deductions ("net of ...", "less ...") and brackets."""


_OF_CHANGE: Final = re.compile(r"%|\b(?:changes?|per|growth|percent\w*)\b", re.IGNORECASE)
"""Words in a label's brackets which say that the row holds changes or amounts per unit, not the item's amounts."""


def _fills(label: str, span: Span) -> bool:
    """Return whether a label consists of the name at ``span`` and words that add nothing.

    Brackets, "total" and "net of ..." add nothing; "(% change)" and "(per share)" do.
    """
    if "%" in label or any(_OF_CHANGE.search(each) for each in re.findall(r"\([^)]*\)", label[span[1] :])):
        return False
    before, after = label[: span[0]].casefold(), _NET_OF.sub("", label[span[1] :])
    return not re.sub(r"total|consolidated|net|\W", "", before) and not re.sub(r"\W|\d", "", after)


def measure_row(question: str, kind: str, document: Document) -> Answer | None:
    """Return the value of the row whose label has the same words as ``question``, apart from ``_LOOSE`` ones.

    Rows that also agree in the ``_LOOSE`` words come first. Return None if no row matches, or if several matching rows
    have different values.
    """
    wanted, shares = _wanted(question), "%" in question or kind == "percent"
    ranked = [
        (rank, row)
        for row in rows_of(document.text)
        if (shares or "%" not in row.label) and (rank := _same_words(wanted, _words_of(row, document.text)))
    ]
    for best in (2.0, 1.0):
        values = list(_values_of(question, kind, [row for rank, row in ranked if rank == best], document))
        if values:
            return _agreed(values, document)
    return None


def row_answer(question: str, kind: str, passages: Sequence[Passage], document: Document) -> Answer | None:
    """Return the value of the row in ``passages`` whose label is nearest to the question, or None.

    All passages must be from ``document``.
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
    return Answer("answered", found.said, (cited,), context=tuple(passages), value=found.value, replied_by=(BY_RULES,))


def _values_of(question: str, kind: str, rows: Sequence[Row], document: Document) -> Iterator[tuple[Row, _Cell]]:
    for row in rows[:MOST_ROWS]:
        found = _row_value(question, kind, document, row.start, row.end)
        if found is not None:
            yield row, found


def _agreed(values: Sequence[tuple[Row, _Cell]], document: Document) -> Answer | None:
    """Return the first value, or None if the same table has a different one for the same period.

    Within one table, different values belong to segments. Of several tables, the first is trusted: later ones may use
    the label for something else, as a cash flow statement uses "accounts payable" for a change.
    """
    if not values:
        return None
    row, first = values[0]
    table = [cell.value for _, cell in values if cell.head == first.head]
    if any(each.period == first.value.period and not _alike(each, first.value) for each in table):
        return None
    return cited_answer(document, first.said, first.value, row.start, row.end)


def _alike(one: TypedValue, other: TypedValue) -> bool:
    """Return whether two cells may mean the same: a loss with or without brackets, rounded, or without its scale."""
    if one.number is None or other.number is None:
        return one.value == other.value
    first, second = (
        abs(each.number or 0.0) / (1 if one.scale and other.scale else float(SCALES[each.scale]))
        for each in (one, other)
    )
    return abs(first - second) <= ROUNDED * max(first, second)


ROUNDED: Final = 0.015
"""Largest relative difference between amounts that count as the same. project default"""
MOST_ROWS: Final = 40
"""Most rows with a matching label that are examined. project default"""


def _lines_around(document: Document, start: int, end: int, around: int) -> Passage:
    """Return a span extended by up to ``around`` characters on each side, to the end of a line."""
    text = document.text
    first, last = max(0, start - around), min(len(text), end + around)
    first = max(first, text.find("\n", first, start) + 1) if first else first
    last = max(text.rfind("\n", end, last), end) if last < len(text) and "\n" in text[end:last] else last
    return Passage(document.doc_id, first, last, text[first:last], count_tokens(text[first:last]), 1.0)


def cited_answer(document: Document, said: str, value: TypedValue, start: int, end: int) -> Answer:
    """Return an answer that cites a span, with the text around it as context."""
    text, passage = document.text, _lines_around(document, start, end, SHOWN)
    cited = Citation(document.doc_id, start, end, text[start:end])
    return Answer("answered", said, (cited,), context=(passage,), value=value, replied_by=(BY_RULES,))


BY_RULES: Final = "statement-rules"
"""The value of ``replied_by`` in answers that code read from a row or sentence."""


# --------
# Labels.


def _wanted(question: str) -> frozenset[str]:
    return _words(_ABBREVIATED.sub(" ", _without_times(_LEAD.sub("", question))))


def _same_words(wanted: frozenset[str], own: frozenset[str]) -> float:
    """Return 2 if question and label have the same words, 1 if they differ only in ``_LOOSE`` words, else 0."""
    if {"basic", "diluted"} <= own:  # one row states both
        own = own - {"basic", "diluted"} | (wanted & {"basic", "diluted"})
    if not wanted - _LOOSE:
        return 0.0
    return 2.0 if wanted == own else float(wanted - _LOOSE == own - _LOOSE)


_PART: Final = re.compile(r"(?:\W*\b(?:basic|diluted|and)\b)+\W*", re.IGNORECASE)
"""A label that is only "basic", "diluted" or both; a line above completes it."""
_PART_LINES: Final = 6
"""Lines above such a label that are searched for the completing line. project default"""


def _words_of(row: Row, text: str) -> frozenset[str]:
    label = row.label
    if _PART.fullmatch(label):
        for line in reversed(text[max(0, row.start - ABOVE) : row.start].split("\n")[-_PART_LINES - 1 : -1]):
            if line.strip() and not _PART.match(line.strip()) and not _cells(line):
                label = f"{line} {label}"
                break
    return _words(_WHOSE.sub(" ", label))


def _without_times(question: str) -> str:
    """Remove dates, periods and years from ``question``, with their prepositions."""
    spans = [span for span, _ in [*periods(question), *dates(question)]]
    spans += [match.span() for match in re.finditer(r"(?:(?<=\bFY)|(?<=\bF)|\b)(?:19|20)\d\d\b", question)]
    marked = list(question)
    for start, end in spans:
        marked[start:end] = "\x00" * (end - start)
    return _WHEN.sub(" ", re.sub("\x00+", "\x00", "".join(marked)))


# --------
# Cells.


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell's text and value, and the position of its table's head in the document (-1 if there is none)."""

    said: str
    value: TypedValue
    head: int


def _row_value(question: str, kind: str, document: Document, start: int, end: int) -> _Cell | None:
    """Return the cell of a row that the question asks for, or None. Its period is that of the column."""
    line, asked = document.text[start:end], time_of(question)
    cells = _cells(line)
    if not cells or asked is None:
        return None
    placed = _placed(document.text, start, line, cells, asked)
    if placed is None:
        return None
    cell, period, head = placed
    said = line[cell.start : cell.end].strip()
    value = value_in(question, kind, said, document, start + cell.start, start + cell.end)
    return None if value is None else _Cell(said, replace(value, period=period), head)


_GAP: Final = re.compile(r"(?<=\S)\s{2,}(?=[$€£(\d\u2014\u2013-])")
"""The spaces between a label and its first cell, in a row without bars."""
_NOTHING: Final = re.compile(r"(?<![^\s|$€£])[\u2014\u2013-]{1,2}(?![^\s|])")
"""An empty cell."""


def _cells(line: str) -> list[Amount]:
    """Return a row's amounts without those in its label, such as years and "net of allowance of $792".

    The first may still be a footnote mark, which ``_unmarked`` removes.
    """
    label = _label_end(line)
    found = [each for each in amounts(line) if not each.year]
    if "|" in line:
        return [each for each in found if each.start > label and not _is_uncalculated(line, each.start)]
    behind = [each for each in found if each.end > label]
    told = line[found[-len(behind) - 1].end : label] if 0 < len(behind) < len(found) else ""
    if len(behind) > 1 or re.search(r"[A-Za-z]", told):
        found = behind
    if len(behind) == 1 and len(found) == 2 and _may_be_mark(found[0]):  # "Revenue (1)   30"
        found = behind
    return found


def _is_uncalculated(line: str, at: int) -> bool:
    """Return whether a number stands in a formula or an error of a spreadsheet: "=B2*1000", "#DIV/0!"."""
    return line[line.rfind("|", 0, at) + 1 : at].lstrip().startswith(("=", "#DIV/"))


def _may_be_mark(cell: Amount) -> bool:
    """Return whether a cell may be a footnote mark: "(1)"."""
    return cell.bracketed and abs(cell.digits) < 20 and not cell.currency and not cell.places


def _unmarked(row: str, cells: Sequence[Amount], columns: int) -> Sequence[Amount] | None:
    """Return ``cells`` without a footnote mark before them, or None if it is unclear whether there is one.

    The first cell is a mark if as many cells remain as there are ``columns``, or, if that number is unknown (0), if all
    the others are far larger.
    """
    if "|" in row or len(cells) < 2 or not _may_be_mark(cells[0]):
        return cells
    if columns and len(_with_empty(row, cells)) == columns:
        return cells
    if columns:
        return cells[1:] if len(_with_empty(row, cells[1:])) == columns else None
    return cells[1:] if all(abs(each.digits) >= FAR for each in cells[1:]) else None


def _label_end(line: str) -> int:
    """Return where the label of a row ends, or -1 if nothing separates it from the cells."""
    if "|" in line:
        return line.find("|", len(line) - len(line.lstrip(" |")))
    letter = _LETTER.search(line)
    gap = None if letter is None else _GAP.search(line, letter.end())
    return -1 if gap is None else gap.end()


_LETTER: Final = re.compile(r"[A-Za-z]")


def _with_empty(line: str, cells: Sequence[Amount]) -> list[Amount]:
    """Return all cells of a row in order; an empty cell (a dash) becomes zero."""
    label = _label_end(line)
    empty = [match.span() for match in _NOTHING.finditer(line) if 0 <= label <= match.start()]
    return sorted([*cells, *(Amount(start, end, Decimal(0), 0) for start, end in empty)], key=lambda each: each.start)


def value_in(question: str, kind: str, said: str, document: Document, start: int, end: int) -> TypedValue | None:
    """Return the value at a span, completed from the text around it, or None if it has no value of ``kind``."""
    first = max(0, start - ABOVE)
    text = document.text[first : end + 200]
    try:
        return read_value(kind, said, Context(text, start - first, end - first, question))
    except ValueError:
        return None


def with_heads(question: str, kind: str, answer: Answer, document: Document) -> Answer:
    """Add the scale and currency that the document states above the shown part of the table to an answer's value."""
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
    """Return a document's rows that have cell separators; cached for the last few documents."""
    return tuple(row for row in _rows(text, 0) if has_cells(text[row.start : row.end]))


def _rows(text: str, offset: int) -> Iterator[Row]:
    """Iterate over the rows of a text with a label and an amount; ``offset`` is its position in the document."""
    at = offset
    for line in text.split("\n"):
        short = has_cells(line) or len(line.split()) <= ROW_WORDS
        found = _cells(line) if short else []
        if (
            found
            and (label := _UNCALCULATED.sub("", line[: found[0].start]).strip().strip(" |\t$(:.\u200b\xa0"))
            and len(label) < _LONGEST_LABEL
        ):
            yield Row(at, at + len(line), label)
        at += len(line) + 1


_UNCALCULATED: Final = re.compile(r"\|\s*(?:=|#DIV/0!)[^|]*(?=\|)")
"""A cell with a formula or an error of a spreadsheet."""
_LONGEST_LABEL: Final = 160
"""Most characters of a label. project default"""


def _placed(text: str, start: int, row: str, cells: Sequence[Amount], asked: Time) -> tuple[Amount, str, int] | None:
    """Return the amount in the column of the wanted time, the column's period and the head's position.

    The nearest head above that names years determines the columns. If no time is wanted, the latest column is used.
    Return None if no column fits or several do. Without a head, return the first amount, "" and -1.
    """
    head = head_above(text, start)
    known = _unmarked(row, cells, len(head[2]) if head else 0)
    if known is None:
        return None
    if head is None:
        return None if asked.hard and len(known) > 1 else (known[0], "", -1)
    at_head, line, columns = head
    widths = [1] * len(columns)
    if "|" in line and "|" in row:
        columns, widths = _joined(line, columns)
    fitting = [n for n, (_, column) in enumerate(columns) if fits(column, asked)]
    if not fitting:
        return None
    last = max((columns[n][1].year, columns[n][1].end, columns[n][1].part) for n in fitting)
    same = [n for n in fitting if (columns[n][1].year, columns[n][1].end, columns[n][1].part) == last]
    if asked.hard and len(fitting if asked.year else same) > 1:
        return None
    place, column = same[0], columns[same[0]][1]
    period = "" if sum(each == column for _, each in columns) > 1 else column.written
    if (
        not (asked.end or column.part)
        and column.months in (0, 12)
        and sum(each.year == column.year for _, each in columns) == 1
    ):
        period = column.year  # this distinguishes the row from the others
    there = _with_empty(row, known)
    if "|" in line and "|" in row:
        bars = [line[:at].count("|") for at, _ in columns]
        if len(set(bars)) == len(bars) and (line.count("|") == row.count("|") or len(there) != len(columns)):
            below = range(bars[place], bars[place] + widths[place])
            found = _without_marks(row, [each for each in there if row[: each.start].count("|") in below])
            if len(found) > 1:
                shares = _share_columns(text[at_head + len(line) : start])
                found = [each for each in found if not each.unit and row[: each.start].count("|") not in shares]
                found = found if len(found) == 1 or not asked.hard else []
            return (found[0], period, at_head) if found else None
    if len(there) == len(columns):
        return there[place], period, at_head
    if len(there) < len(columns):
        return None if has_cells(line) or place >= len(known) else (known[place], period, at_head)
    return (known[place], period, at_head) if place == 0 or _CHANGES.search(line) else None


def _without_marks(row: str, cells: Sequence[Amount]) -> list[Amount]:
    """Return ``cells`` without the footnote marks that follow a figure in its cell: "1,204 (1)"."""
    return [
        each
        for number, each in enumerate(cells)
        if not (number and _may_be_mark(each) and "|" not in row[cells[number - 1].end : each.start])
    ]


def _joined(line: str, columns: Sequence[tuple[int, Time]]) -> tuple[list[tuple[int, Time]], list[int]]:
    """Join neighbouring columns below one merged head, which repeats, and return them and their widths."""
    joined: list[tuple[int, Time]] = []
    widths: list[int] = []
    before = (-1, "")
    for at, time in columns:
        begin, bar = line.rfind("|", 0, at), line[:at].count("|")
        words = line[begin + 1 : line.find("|", at)].strip()
        if joined and joined[-1][1] == time and before == (bar - 1, words):
            widths[-1] += 1
        else:
            joined.append((at, time))
            widths.append(1)
        before = (bar, words)
    return joined, widths


_SUBHEADS: Final = 3
"""Lines below a head of years that may be subheads. project default"""


def _share_columns(below: str) -> set[int]:
    """Return the columns whose subheads, in the first lines ``below`` a head, say that they hold percentages."""
    heads = [line for line in below.split("\n") if line.strip()][:_SUBHEADS]
    return {
        bar
        for line in heads
        if not _cells(line)
        for bar, words in enumerate(line.split("|"))
        if _OF_SHARES.search(words)
    }


_OF_SHARES: Final = re.compile(r"%|(?<!except )\bpercent", re.IGNORECASE)


_CHANGES: Final = re.compile(r"change|increase|decrease|variance|%", re.IGNORECASE)
"""Words in a head that name further columns after those of the years."""


def _words(text: str) -> frozenset[str]:
    """Return the words that distinguish one measure from another, in normal form."""
    plain = _CASH.sub("cash", text.casefold()).replace("noncurrent", "non current")
    found = (_one_form(word) for word in re.findall(r"[a-z]+", plain) if word not in _EMPTY)
    return frozenset(_SAME.get(word, word) for word in found)


def _one_form(word: str) -> str:
    return f"{word[:-3]}y" if word.endswith("ies") and len(word) > 4 else re.sub(r"(?<!s)s$", "", word)
