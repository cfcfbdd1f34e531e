"""Read the scale and currency of an amount from the heads of its table in another language than English.

``unit_lines.py`` reads the units in a head, in all languages. The heads of different columns are not distinguished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from okralong.pipelines.statements.amounts import Amount, has_cells, line_of
from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_periods import dates_in, periods_in
from okralong.pipelines.statements.periods import apart
from okralong.pipelines.statements.unit_lines import Stated, currencies_in, stated


def completed_in(kind: str, one: Amount, text: str, place: int, language: str) -> Amount:
    """Add the scale and currency that a passage states to ``one``, unless it has its own; see ``completed``.

    The heads of the amount's own table decide. If they are silent, those above it decide for amounts of money.
    """
    first, last = line_of(text, place)
    if not _is_row(text[first:last], language) or one.unit or kind == "percent":
        return one
    own: list[Stated] = []
    others: list[Stated] = []
    for near, line in _heads(text, first, language):
        (own if near else others).append(stated(line))
    label = stated(text[first:place].strip(" |\t"))
    told = [label, *own, *(others if kind == "money" else [])]
    if not one.scale:
        one = replace(one, scale=next((each.scale for each in told if each.scale), ""))
    if kind == "money" and not one.currency:
        one = replace(one, currency=_currency(told, text))
    return one


_LINES_ABOVE: Final = 80
"""Non-blank lines above a row that are searched for heads. project default"""


def _is_row(line: str, language: str) -> bool:
    """Return whether a line is a table's row: it has cells, or figures and no end of a sentence."""
    return has_cells(line) or (
        bool(amounts_in(line, language)) and not line.rstrip().endswith((".", ";", "?", "!", "\u3002", "\uff1b"))
    )


def _heads(text: str, before: int, language: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines above ``before`` without amounts, nearest first, and whether they are of the same table."""
    near, heads = True, False
    for line in [line for line in text[:before].split("\n") if line.strip()][: -_LINES_ABOVE - 1 : -1]:
        if _has_amounts(line, language):
            near = near and not heads
            continue
        heads = True
        yield near, line


def _has_amounts(line: str, language: str) -> bool:
    taken = [span for span, _ in [*periods_in(line, language), *dates_in(line, language)]]
    return any(not each.year for each in apart(amounts_in(line, language), taken, lambda each: each.place)) and not (
        stated(line).scales and not re.search(r"\d{2}", line)
    )


def _currency(told: list[Stated], text: str) -> str:
    named = next((each.currencies for each in told if each.currencies), ()) or tuple(currencies_in(text))
    return named[0] if len(named) == 1 else ""
