"""Read the scale and currency of an amount from its line and its table's heads."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.amounts import (
    BEFORE,
    LETTERS,
    SIGNS,
    WORD_SCALE,
    Amount,
    amounts,
    currencies,
    has_cells,
    line_of,
)
from okralong.pipelines.statements.periods import NO_AMOUNT, apart, dates, periods

_MARKED: Final = rf"(?:{BEFORE})"
_HEAD: Final = re.compile(
    rf"""
    \bin\s(?:[A-Za-z.$€£]+\s){{0,3}}?(?P<a>(?:{WORD_SCALE})s?)\b
    | \b(?P<b>(?:{WORD_SCALE})s)\sof\s(?:[A-Za-z.]+\s){{0,2}}(?:dollars?|euros?|yen|pounds|francs|rupees|yuan|kron)
    | {_MARKED}['\u2018\u2019]?\s?(?:in\s)?(?P<c>(?:{WORD_SCALE})s?|bn|mn|mm|m|k|b)\b
    | (?<![\d,.\w])['\u2018\u2019]?(?P<d>000)(?:['\u2018\u2019]?s\b|\b)(?![.,]\d)
    | {_MARKED}['\u2018\u2019]?(?P<e>000)(?:['\u2018\u2019]?s)?\b
    | \(\s*(?P<f>(?:{WORD_SCALE})s?|mn|mm|bn)\s*\)
    | (?<![a-z])(?:[a-z]++,?\s)(?P<g>(?:{WORD_SCALE})s)\b(?=[^\n]{{0,30}}(?:\)|except|\n|$))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PER_SHARE: Final = re.compile(
    r"\bper\s(?:\w+\s){0,3}(?:share|unit|ads|stock|day|ton|barrel|ounce)s?\b|\beps\b|\bcents\b", re.IGNORECASE
)
_NO_MONEY: Final = re.compile(
    r"\bratio\b|\brates?\W*$|\byield\W*$|\bpercent(?:age)?\b|%|\bdays\b|\byears\)|\bin years\b"
    r"|\blives\b|\bemployees\b|\bheadcount\b",
    re.IGNORECASE,
)
"""Words of rows whose amounts are not scaled by a head's "in thousands", unless they have a currency sign."""
_EXCEPT_SHARES: Final = re.compile(r"except\b[^)\n]{0,40}\bshares?\b(?!\s?(?:price|amounts?\sper))", re.IGNORECASE)
_SHARES: Final = re.compile(r"\bshares\b", re.IGNORECASE)
_SHARES_IN: Final = re.compile(rf"\b(?:shares|units)\sin\s(?:{WORD_SCALE})s\b", re.IGNORECASE)
_SENTENCE_WORDS: Final = 12


def is_row(line: str) -> bool:
    """Return whether a line is a table row: it has cells, or has figures, few words and no full stop."""
    if has_cells(line):
        return True
    words = re.findall(r"[A-Za-z]{2,}", line)
    return (
        len(words) <= _SENTENCE_WORDS
        and not line.rstrip().endswith((".", ";", "?", "!"))
        and bool(re.search(r"\d", line))
    )


def completed(kind: str, one: Amount, text: str, place: int) -> Amount:
    """Add the scale and currency that the passage states to ``one``, unless it has its own."""
    first, last = line_of(text, place)
    line = text[first:last]
    if not is_row(line):
        return one
    heads = heads_above(text, first)
    column = _column(text, place)
    above = [cell for head in heads if (cell := _cell(head, column))] if column else []
    label = _label(text, first, place)
    if kind != "percent" and not one.unit and not one.scale:
        speaks = [label, *above]
        # A line without amounts directly above is the head of a part of the table: "Earnings per share (in cents)".
        part = heads[0] if heads and not _scale(heads[0]) else ""
        exempt = (
            any(_PER_SHARE.search(each) for each in (*speaks, part))
            or (not one.currency and any(_NO_MONEY.search(each) for each in speaks))
            or (bool(_SHARES.search(label)) and any(_EXCEPT_SHARES.search(head) for head in heads))
        )
        told = [scale for each in speaks if (scale := _scale(each))]
        if not told and not exempt:
            shares = bool(_SHARES.search(label))
            heads = [_of_shares(head, shares) for head in heads]
            told = [scale for head in heads if (scale := _scale(head, column is not None))]
            if shares and (counted := _SHARES_IN.search(text)) is not None:
                told = [_scale(counted[0])]
            elif not told and (later := _scale(_of_shares(text[last:], shares))):  # stated below the table
                told = [later]
        one = replace(one, scale=told[0] if told else "")
    if not one.currency and kind == "money":
        named = {code for each in (label, *above) for code in _marks(each)} or _marks(line)
        for head in heads if not named else []:
            named = named or _marks(head)
        named = named or _marks(text)
        one = replace(one, currency=named.pop() if len(named) == 1 else "")
    return one


def _of_shares(text: str, shares: bool) -> str:
    """Remove "shares in thousands" from ``text``, unless the amount counts shares."""
    return text if shares else _SHARES_IN.sub(" ", text)


def heads_above(text: str, before: int) -> list[str]:
    """Return the lines above ``before`` without amounts (heads, titles, introductions), nearest first."""
    lines = [line for line in text[:before].split("\n") if line.strip()]
    return [line for line in reversed(lines[-_LINES_ABOVE:]) if not has_amounts(line)]


_LINES_ABOVE: Final = 80
"""Non-blank lines above a row that are searched for heads of its table. project default"""


@lru_cache(maxsize=4096)
def has_amounts(line: str) -> bool:
    """Return whether a line has amounts other than years and dates.

    Cached, because every row of a statement checks the same heads.
    """
    if re.search(r"\d", line) is None:
        return False
    dated = [span for span, _ in [*periods(line), *dates(line)]]
    dated += [match.span() for match in NO_AMOUNT.finditer(line)]
    return any(
        not each.year and not (each.bracketed and abs(each.digits) < 20 and not each.currency)
        for each in apart(amounts(_HEAD.sub(lambda match: " " * len(match[0]), line)), dated, lambda each: each.place)
    )


def _label(text: str, first: int, place: int) -> str:
    """Return the text before the row's first amount; if it has no words, the nearest line above that does."""
    before = text[first:place]
    start = next((each.start for each in amounts(before) if not each.year), len(before))
    label = before[:start].strip(" |\t$(")
    if re.search(r"[A-Za-z]{2}", label):
        return label
    for line in reversed(text[:first].split("\n")[-12:]):
        if re.search(r"[A-Za-z]{2}", line):
            return "" if has_amounts(line) and "|" in line else line.strip()
    return ""


def cells_above(text: str, place: int) -> list[str]:
    """Return the head cells above a character's column, nearest first; empty if its line has no cells.

    A table that names this column itself does not continue the one above it.
    """
    column, first = _column(text, place), line_of(text, place)[0]
    if column is None:
        return []
    begin = text.rfind("\n\n", 0, first) + 1
    own = [_cell(head, column) for head in heads_above(text[begin:], first - begin)]
    return own if any(own) else [_cell(head, column) for head in heads_above(text, first)]


def _column(text: str, place: int) -> int | None:
    """Return the index of a character's cell in its row, or None if no bars or tabs separate cells."""
    first, last = line_of(text, place)
    bar = next((each for each in "|\t" if each in text[first:last]), None)
    return None if bar is None else text[first:place].strip(" ").count(bar)


def _cell(head: str, column: int) -> str:
    bar = next((each for each in "|\t" if each in head), None)
    cells = [cell.strip() for cell in head.strip(" ").split(bar)] if bar else []
    # A head that spans several columns is written in the first of them. The first two cells belong to the labels.
    if column >= len(cells) or cells[column]:
        return cells[column] if column < len(cells) else ""
    filled = [cell for cell in cells[2:column] if cell]
    return filled[-1] if filled and not _NO_MONEY.search(filled[-1]) else ""


def _scale(text: str, by_column: bool = False) -> str:
    """Return the scale that a head names, or "" if its columns name several."""
    found = list(_HEAD.finditer(text))
    words = {_scale_word(next(each for each in match.groups() if each)) for match in found}
    if by_column and len(words) > 1 and ("|" in text or "\t" in text):
        return ""
    return _scale_word(next(each for each in found[0].groups() if each)) if found else ""


def _scale_word(written: str) -> str:
    word = written.lower()
    return "thousand" if word == "000" else LETTERS.get(word, word.rstrip("s"))


def _marks(text: str) -> set[str]:
    """Return the currencies in a text, named by sign, code or name."""
    signs = {SIGNS[match[0]] for match in re.finditer(rf"(?<![A-Za-z])(?:{BEFORE})", text)}
    codes = {
        currencies().get(code, "")
        for code in re.findall(r"\b(USD|EUR|GBP|JPY|CHF|CNY|CAD|AUD|INR|SEK|NOK|DKK)\b", text)
    }
    names = re.findall(
        r"\b((?:(?:u\.?s\.?|canadian|australian|hong kong|singapore|new zealand) )?dollars|euros?|pounds sterling"
        r"|sterling|(?:japanese )?yen|renminbi|swiss francs|(?:indian )?rupees)\b",
        text,
        re.IGNORECASE,
    )
    named = {currencies().get(name.casefold().replace("us ", "u.s. "), "") for name in names}
    return (signs | codes | named) - {""}
