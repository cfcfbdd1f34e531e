"""Where a text may be parted: after sentences, short lines, blank lines and table rows.

A small splitter of our own, because a chunker must part every text of any length in linear time and give back each
character. It errs on the side of too few boundaries in running prose and too many in lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.types import TableSpan

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


def boundaries(text: str, tables: Sequence[TableSpan]) -> Iterator[int]:
    """Offsets at which units end, rising, the last one ``len(text)``; none for an empty text. ``tables`` are disjoint.

    They come one by one, since a text may have millions of them.
    """
    tables = sorted(tables, key=lambda table: table.start_char)
    running = _outside_tables(merge(_line_cuts(text), _sentence_cuts(text)), tables)
    last = 0
    for cut in merge(running, _table_cuts(text, tables), (len(text),)):
        if last < cut <= len(text):
            yield cut
            last = cut


def _line_cuts(text: str) -> Iterator[int]:
    end = 0
    for line, following in pairwise(_lines(text)):
        end += len(line) + 1
        if not following.strip():
            continue  # the last line of a paragraph break makes the cut
        if not line.strip() or (len(line) < SHORT_LINE_CHARS and not following.lstrip()[0].islower()):
            yield end


def _lines(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _sentence_cuts(text: str) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        if end < len(text) and text[end].islower():
            continue
        if text[match.start()] == "." and _is_abbreviation(text, match.start()):
            continue
        yield end


def _table_cuts(text: str, tables: Sequence[TableSpan]) -> Iterator[int]:
    """The edges of tables and the ends of their rows."""
    for table in tables:
        yield table.start_char
        for match in _NEWLINE.finditer(text, table.start_char, table.end_char):
            yield match.end()
        last_break = table.end_char < len(text) and text[table.end_char] == "\n"
        yield table.end_char + last_break


def _is_abbreviation(text: str, dot: int) -> bool:
    word = _WORD_BEFORE.search(text[max(0, dot - 24) : dot])
    if word is None:
        return False
    token = word[0].strip(".").lower()
    return token in _ABBREVIATIONS or (len(token) == 1 and token.isalpha())


def _outside_tables(cuts: Iterable[int], tables: Sequence[TableSpan]) -> Iterator[int]:
    number = 0
    for cut in cuts:
        while number < len(tables) and tables[number].end_char <= cut:
            number += 1
        if number == len(tables) or cut <= tables[number].start_char:
            yield cut
