"""Where a text may be cut: after sentences, short lines, blank lines and table rows.

A small splitter of our own, because a chunker must cut every text of any length in linear time and give back each
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

_SENTENCE_END: Final = re.compile(r"(?<![.!?])[.!?]++[\"'\u201d\u2019)\]]{0,3}+(?:\s++|(?=[A-Z]))")
"""Possessive, and tried only where a run of marks begins: a table of contents with its long dots stays linear."""
_WHOLE_WORD: Final = re.compile(r"(?<!\S)(?:[^\s._/\\:@=<>{}]|(?<=\d)\.(?=\d))*[a-z\d)%]{2}\Z")
"""An ordinary word or figure at the end: no part of an address, of a path or of code."""
_CAPITAL: Final = re.compile(r"[A-Z][a-z]+(?:[-'\u2019]\w+)*[,:;]?(?!\S)")
LOST_LINES: Final = 250
"""Characters before and behind a full stop in which a text that lost its line breaks has none; ours. Elsewhere a
capital without a blank before it is a name or code (Yahoo.Com, System.Linq).
"""
_NEWLINE: Final = re.compile("\n")
_WORD_BEFORE: Final = re.compile(r"[\w.]{1,24}\Z")


def boundaries(text: str, tables: Sequence[TableSpan]) -> Iterator[int]:
    """Offsets at which units end, rising, the last one ``len(text)``; none for an empty text. ``tables`` are disjoint.

    They come one by one, since a text may have millions of them.
    """
    tables = sorted(tables, key=lambda table: table.start_char)
    running = _outside_tables(merge(_line_cuts(text), sentence_ends(text)), tables)
    last = 0
    for cut in merge(running, _table_cuts(text, tables), (len(text),)):
        if last < cut <= len(text):
            yield cut
            last = cut


def _line_cuts(text: str) -> Iterator[int]:
    end = 0
    for line, following in pairwise(lines_of(text)):
        end += len(line) + 1
        if not following.strip():
            continue  # the last line of a paragraph break makes the cut
        if not line.strip() or (len(line) < SHORT_LINE_CHARS and not following.lstrip()[0].islower()):
            yield end


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text, one by one, without their ends."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def sentence_ends(text: str) -> Iterator[int]:
    """Offsets behind each sentence and the blanks after it, rising; lines and paragraphs may end without one."""
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        # Within a line a full stop before a small letter is an abbreviation's; at its end it ends the sentence also of
        # texts in small letters.
        if end < len(text) and text[end].islower() and "\n" not in match[0]:
            continue
        if not match[0][-1].isspace() and not _begins_without_blank(text, match.start(), end):
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


def _begins_without_blank(text: str, mark: int, end: int) -> bool:
    """Whether a sentence begins at ``end`` without a blank, as in texts of filings whose line breaks were lost."""
    return (
        text[mark] == "."
        and text.find("\n", max(0, mark - LOST_LINES), mark + LOST_LINES) < 0
        and _WHOLE_WORD.search(text, max(0, mark - 40), mark) is not None
        and _CAPITAL.match(text, end) is not None
    )


def _outside_tables(cuts: Iterable[int], tables: Sequence[TableSpan]) -> Iterator[int]:
    number = 0
    for cut in cuts:
        while number < len(tables) and tables[number].end_char <= cut:
            number += 1
        if number == len(tables) or cut <= tables[number].start_char:
            yield cut
