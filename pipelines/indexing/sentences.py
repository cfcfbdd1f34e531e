"""Where a text may be parted: after sentences, short lines, blank lines and table rows.

A small splitter of our own, because a chunker must part every text of any length in linear time and give back each
character. It errs on the side of too few boundaries in running prose and too many in lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from okralong.pipelines.values import TableSpan

SHORT_LINE_CHARS: Final = 60
"""A line below this length is a heading, an item or a cell, and ends a unit; a longer one was wrapped. Ours."""

_WITH_A_DOT: Final = """
al approx art bros ca cf co corp dept dr ed eq est et etc ex fig figs inc incl jr lt ltd max messrs min mr mrs ms no
nos op p para pp prof ref rep rev sec sen sr st supp tab ver viz vol vs e.g i.e u.s u.k u.n d.c a.m p.m ph.d
jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS: Final = frozenset(_WITH_A_DOT.split())

_SENTENCE_END: Final = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d\u2019)\]]{0,3}+[ \t\n]++")
"""Possessive, and tried only where a run of marks begins: a table of contents with its long dots stays linear."""
_NEWLINE: Final = re.compile("\n")
_WORD_BEFORE: Final = re.compile(r"[\w.]{1,24}\Z")


def boundaries(text: str, tables: Sequence[TableSpan]) -> list[int]:
    """Offsets at which units end, rising, the last one ``len(text)``; empty for an empty text."""
    cuts = {len(text)} if text else set()
    cuts.update(_line_cuts(text))
    cuts.update(_sentence_cuts(text))
    cuts = _outside_tables(cuts, tables)
    for table in tables:
        last_break = table.end_char < len(text) and text[table.end_char] == "\n"
        cuts.update((table.start_char, table.end_char + last_break))
        cuts.update(match.end() for match in _NEWLINE.finditer(text, table.start_char, table.end_char))
    return sorted(cut for cut in cuts if 0 < cut <= len(text))


def _line_cuts(text: str) -> list[int]:
    cuts = []
    lines = text.split("\n")
    end = 0
    for line, following in pairwise(lines):
        end += len(line) + 1
        if not following.strip():
            continue  # the last line of a paragraph break makes the cut
        if not line.strip() or (len(line) < SHORT_LINE_CHARS and not following.lstrip()[0].islower()):
            cuts.append(end)
    return cuts


def _sentence_cuts(text: str) -> list[int]:
    cuts = []
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        if end < len(text) and text[end].islower():
            continue
        if text[match.start()] == "." and _is_abbreviation(text, match.start()):
            continue
        cuts.append(end)
    return cuts


def _is_abbreviation(text: str, dot: int) -> bool:
    word = _WORD_BEFORE.search(text[max(0, dot - 24) : dot])
    if word is None:
        return False
    token = word[0].strip(".").lower()
    return token in _ABBREVIATIONS or (len(token) == 1 and token.isalpha())


def _outside_tables(cuts: set[int], tables: Sequence[TableSpan]) -> set[int]:
    kept = []
    ordered = sorted(tables, key=lambda table: table.start_char)
    number = 0
    for cut in sorted(cuts):
        while number < len(ordered) and ordered[number].end_char <= cut:
            number += 1
        if number == len(ordered) or cut <= ordered[number].start_char:
            kept.append(cut)
    return set(kept)
