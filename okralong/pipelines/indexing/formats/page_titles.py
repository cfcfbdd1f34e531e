"""Title and unit of a page's table, from the lines above its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from okralong.pipelines.indexing.formats.page_lines import Line, Piece

_SCALE: Final = (
    r"(?:thousands?|millions?|billions?|mill\.|mio\.?|mrd\.?|tsd\.?|T?EUR|[TK]?€|KEUR|lakhs?|crores?"
    r"|[$€£¥]\s?(?:m|mn|bn|k)\b|[$€£¥]?\s?['`\u2018\u2019]?000s?\b|[A-Z]{2,3}\s?['`\u2018\u2019]?000s?\b)"
)
_UNIT: Final = re.compile(rf"(?<![A-Za-z]){_SCALE}(?![A-Za-z])", re.IGNORECASE)
_NO_UNIT: Final = re.compile(r"\d\s?(?:thousand|million|billion|mio|mrd)", re.IGNORECASE)
_CURRENCY: Final = re.compile(
    r"[A-Z]{0,3}[$€£¥₹]|\(?(?:USD|EUR|GBP|CHF|SEK|NOK|DKK|JPY|CNY|RMB|INR|AUD|CAD|NZD|HKD|SGD|ZAR|BRL|MXN|PLN)\)?"
)
_BRACKETED: Final = re.compile(r"\([^()]{2,120}\)")
_TAIL: Final = re.compile(r"[^()]{1,100}\)")
"""The end of a bracket that was opened in the line above."""
_LONGEST_UNIT: Final = 110
_DATE: Final = re.compile(
    r"\b(?:ended|ending|as (?:of|at)|at|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|months?|quarter|years?|weeks)\b|\b(?:19|20)\d\d\b",
    re.IGNORECASE,
)
_TITLE_LINES: Final = 14
"""Lines above a table in which its title is looked for. # project default"""
_SENTENCE_START: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_INTRODUCES: Final = re.compile(
    r"\b(?:table|follow\w*|below|set forth|sets out|summar\w+|as shown|shown)\b", re.IGNORECASE
)


_PAGE_TOP: Final = 6
"""First lines of a page, where a unit counts for all of its tables."""


def unit_in(text: str) -> str:
    """Return the part of a line that says the unit of a table, or ""."""
    for bracket in _BRACKETED.finditer(text):
        if _UNIT.search(bracket[0]) and not _NO_UNIT.search(bracket[0]):
            return bracket[0]
    if len(text) <= _LONGEST_UNIT and _UNIT.search(text) and not _NO_UNIT.search(text):
        words = len(text.split())
        if words <= 4 or re.match(r"\(?(?:all |the )?(?:expressed|amounts?|figures?|dollars?|in|stated)\b", text, re.I):
            return text
    return ""


def is_unit(text: str) -> bool:
    """Return whether a head is nothing but a unit: "£'000", "(in millions)", "$", "EUR"."""
    return bool(_CURRENCY.fullmatch(text)) or unit_in(text) == text != ""


def is_date_line(text: str) -> bool:
    """Return whether a line names a date or a period."""
    return bool(_DATE.search(text))


def table_title(lines: Sequence[Line], top: int, floor: int, width: float) -> tuple[str, list[Piece]]:
    """Return the title above a table, with the period that stands below it.

    It is the heading or the sentence that introduces the table; with neither, the heading of its paragraph.
    """
    dates: list[Line] = []
    below = lines[top].y
    index, least = top, max(floor, top - _TITLE_LINES)
    while index > least:
        index -= 1
        line = lines[index]
        text = line.text
        if below - line.y > 6 * line.height or line.is_data:
            break
        below = line.y
        if unit_in(text) == text and not (text[-1] == ":" and _TAIL.match(text)):
            continue
        if is_date_line(text) and len(text) < 70 and text[-1] not in ".:,;" and len(dates) < 2:
            dates.insert(0, line)
        elif text[-1] == ":" or (text[-1] == "." and len(text) > 40):
            first, paragraph = _paragraph(lines, index, least, width)
            sentences = _SENTENCE_START.split(paragraph)
            if text[-1] == ":":
                return sentences[-1], list(line.pieces)
            if told := [sentence for sentence in sentences if _INTRODUCES.search(sentence)]:
                return told[-1], list(line.pieces)
            dates.clear()
            index, below = first, lines[first].y
        elif _is_heading(lines, index, width):
            title = " ".join([text, *(date.text for date in dates)])
            return title, [piece for each in (line, *dates) for piece in each.pieces]
    return " ".join(date.text for date in dates), [piece for date in dates for piece in date.pieces]


def _is_heading(lines: Sequence[Line], index: int, width: float) -> bool:
    """Return whether a line stands alone and starts as a heading does."""
    line = lines[index]
    text = line.text
    if len(text) > 120 or text[-1] in ".,;" or not (text[0].isupper() or text[0].isdigit() or text[0] in "("):
        return False
    above = lines[index - 1] if index else None
    near = above is not None and line.y - above.y < 1.5 * line.height and above.is_prose(width)
    return not near or line.height > 1.1 * (above.height if above else 0.0)


def _paragraph(lines: Sequence[Line], last: int, least: int, width: float) -> tuple[int, str]:
    """Return the first line of the paragraph that ends in a line, and its text."""
    first = last
    while first > least:
        above = lines[first - 1]
        if not above.is_prose(width) or lines[first].y - above.y > 1.6 * above.height:
            break
        first -= 1
    return first, " ".join(line.text for line in lines[first : last + 1])


def table_unit(
    lines: Sequence[Line], stated: Sequence[Piece], levels: Sequence[Sequence[str]], above: Sequence[int], top: int
) -> str:
    """Return the unit line of a table, "" if there is none.

    Args:
        lines: The lines of the page.
        stated: The pieces of the stub's head, and units over the columns.
        levels: The heads of the columns; half of them or more may have one unit, and no other unit among them.
        above: The lines that the unit may be in, from top to bottom.
        top: The topmost line of the table; a unit in the first lines of the page counts for all tables below it.
    """
    found = [unit_in(piece.text) for piece in stated]
    found.append(_unit_of_columns(levels))
    found.extend(_unit_at(lines, index) for index in reversed(above))
    tops = [line.text for line in lines[: min(_PAGE_TOP, top)]]
    found.extend(text for text in tops if unit_in(text) == text and " " in text)
    return next(filter(None, found), "")


def _unit_at(lines: Sequence[Line], index: int) -> str:
    """Return the unit that a line says, also one that begins in the line above: "(in", "thousands):"."""
    text = lines[index].text
    if index and _TAIL.match(text):
        above = lines[index - 1].text
        brackets = _BRACKETED.finditer(f"{above} {text}")
        if broken := next((each[0] for each in brackets if each.start() < len(above) < each.end()), ""):
            return unit_in(broken)
    return unit_in(text)


def _unit_of_columns(levels: Sequence[Sequence[str]]) -> str:
    """Return the only unit in the heads of columns, if half of them or more have it."""
    units = [unit for unit in (next(filter(is_unit, each), "") for each in levels) if unit]
    return units[0] if len(set(units)) == 1 and 2 * len(units) >= len(levels) else ""
