"""Cutting a document into chunks that tile it, in time and memory linear in its text whatever stands in it.

Units (sentences, lines, table rows) are packed greedily. A unit that is larger than a chunk is cut at words, and a
word that is larger still at a few bytes, never inside a character that a reader sees as one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, pairwise
from typing import Final, Literal

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Chunk, Document, TableSpan

MIN_GRANULARITY: Final = 16
"""Smallest chunk size in tokens; ours: below it a single character might not fit."""

TABLE_START_SHARE: Final = 0.5
"""A chunk that is at least so full ends before a table that would not fit whole; ours, not in the papers."""

_SINGLE_STEPS: Final = 4
"""Units that an overfull chunk gives back one by one. Ours: prose gives back one or two; a text whose units all count
for less than they take, such as "1 1 1 1", would give back half of them, and each step counts the whole chunk."""


def chunk_document(doc: Document, granularity: int, at: Boundaries = "sentences") -> list[Chunk]:
    """Chunks of at most ``granularity`` o200k tokens that tile ``doc.text``; none for an empty text.

    Raises ValueError when ``granularity`` is below MIN_GRANULARITY.
    """
    if granularity < MIN_GRANULARITY:
        raise ValueError(f"A granularity of {granularity} tokens is too small; the least is {MIN_GRANULARITY}.")
    tables = sorted(doc.tables, key=lambda table: table.start_char)
    starts = [table.start_char for table in tables]
    ends = {table.start_char: table.end_char for table in tables}
    units = _Ahead(fitting_units(doc, granularity, at))
    chunks: list[Chunk] = []
    while units.get(0) is not None:
        taken, n_tokens = _fill(doc.text, units, granularity, ends)
        start, end = taken[0].start, taken[-1].end
        chunks.append(
            Chunk(
                chunk_id=f"{doc.sha256[:16]}-{granularity}-{len(chunks):06d}",
                doc_id=doc.doc_id,
                granularity=granularity,
                ordinal=len(chunks),
                start_char=start,
                end_char=end,
                n_tokens=n_tokens,
                text=doc.text[start:end],
                table_id=_cut_table(start, end, tables, starts),
            )
        )
    return chunks


class _Ahead:
    """Units that have been looked at and not yet packed, at most some more than fill one chunk."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units
        self._seen: list[Unit] = []

    def get(self, place: int) -> Unit | None:
        """The unit ``place`` units ahead, or None when the text ends before it."""
        while place >= len(self._seen):
            unit = next(self._units, None)
            if unit is None:
                return None
            self._seen.append(unit)
        return self._seen[place]

    def first(self, count: int) -> Sequence[Unit]:
        """The first ``count`` of the units that ``get`` has given."""
        return self._seen[:count]

    def take(self, count: int) -> Sequence[Unit]:
        """``first``, and they are gone."""
        taken = self._seen[:count]
        del self._seen[:count]
        return taken


def _fill(text: str, units: _Ahead, granularity: int, tables: Mapping[int, int]) -> tuple[Sequence[Unit], int]:
    """Take the units of the next chunk; with its number of tokens."""

    def tokens(count: int) -> int:
        seen = units.first(count)
        return count_tokens(text[seen[0].start : seen[-1].end])

    most = _reach(units, granularity, tables)
    n_tokens = tokens(most)
    steps = 0
    while n_tokens > granularity and steps < _SINGLE_STEPS:  # the sum of costs is an estimate, this count is the truth
        most -= 1
        steps += 1
        n_tokens = tokens(most)
    if n_tokens > granularity:
        fits, over = 1, most  # a single unit always fits
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (middle, over) if tokens(middle) <= granularity else (fits, middle)
        most, n_tokens = fits, tokens(fits)
    return units.take(most), n_tokens


def _reach(units: _Ahead, granularity: int, tables: Mapping[int, int]) -> int:
    """How many units fit into the next chunk by the sum of their costs; at least one. ``tables``: start to end."""
    total = 0
    place = 0
    while (unit := units.get(place)) is not None and total + unit.cost <= granularity:
        if (
            total >= TABLE_START_SHARE * granularity
            and unit.start in tables
            and not _fits_whole(units, place, tables[unit.start], granularity - total)
        ):
            break
        total += unit.inner_cost
        place += 1
    return max(1, place)


def _fits_whole(units: _Ahead, place: int, end: int, tokens: int) -> bool:
    """Whether the units from ``place`` on that begin before ``end`` have at most ``tokens`` tokens together."""
    while (unit := units.get(place)) is not None and unit.start < end:
        tokens -= unit.cost
        if tokens < 0:
            return False
        place += 1
    return True


def _cut_table(start: int, end: int, tables: Sequence[TableSpan], starts: Sequence[int]) -> str | None:
    """The table that ``start`` or ``end`` cuts; where both cut one, that with more of its text in the chunk."""
    cut = []
    for edge in (start, end):
        before = bisect_left(starts, edge) - 1
        if before >= 0 and edge < tables[before].end_char:
            cut.append(tables[before])
    if not cut:
        return None
    return max(cut, key=lambda table: min(end, table.end_char) - max(start, table.start_char)).table_id


# The units that are packed. They are made one by one as they are asked for: a text of many megabytes may have millions,
# and a list of them would take fifty times its memory.

Boundaries = Literal["sentences", "words"]
"""Where a chunk may end: after a sentence, line or table row, or after any word."""

_PIECE_BYTES: Final = 16
"""Pieces of an overlong word; a token has at least one byte, so that a piece always fits."""

_WORD: Final = re.compile(r"\S+\s*|\s+")
_SPACED_WORD: Final = re.compile(r"\s*\S+|\s+")
"""A word with the blanks before it, which o200k puts into one token with it: costs add up, and chunks are filled."""
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text that is not parted if it can be helped.

    ``cost`` is its number of tokens on its own, ``inner_cost`` about that with more text behind it: a lone last space
    goes into the first token of the next word.
    """

    start: int
    end: int
    cost: int
    inner_cost: int


def fitting_units(doc: Document, granularity: int, at: Boundaries) -> Iterator[Unit]:
    """The units of ``doc`` in order, each of at most ``granularity`` o200k tokens; together they tile its text."""
    if at == "words":
        ends: Iterable[int] = (match.end() for match in _SPACED_WORD.finditer(doc.text))
    else:
        ends = boundaries(doc.text, doc.tables)
    for unit in _units(doc.text, 0, ends):
        yield from _parted(doc.text, unit, granularity)


def _units(text: str, start: int, ends: Iterable[int]) -> Iterator[Unit]:
    for begin, end in pairwise(chain([start], ends)):
        cost = count_tokens(text[begin:end])
        yield Unit(begin, end, cost, cost - (cost > 1 and text[end - 1] == " " and text[end - 2] != " "))


def _parted(text: str, unit: Unit, granularity: int) -> Iterator[Unit]:
    if unit.cost <= granularity:
        yield unit
        return
    for word in _units(text, unit.start, (match.end() for match in _WORD.finditer(text, unit.start, unit.end))):
        if word.cost <= granularity:
            yield word
        else:
            yield from _units(text, word.start, _piece_ends(text, word, granularity))


def _piece_ends(text: str, word: Unit, granularity: int) -> Iterator[int]:
    size = 0
    for start, end in _clusters(text, word, granularity):
        length = len(text[start:end].encode())
        if size and size + length > _PIECE_BYTES:
            yield start
            size = 0
        size += length
    yield word.end


def _clusters(text: str, word: Unit, granularity: int) -> Iterator[tuple[int, int]]:
    """Characters with the marks, joiners and selectors that belong to them, unless they pass ``granularity`` bytes."""
    start = word.start
    size = len(text[start].encode())
    for at in range(word.start + 1, word.end):
        length = len(text[at].encode())
        joined = text[at] == _JOINER or text[at - 1] == _JOINER or unicodedata.category(text[at]) in ("Mn", "Mc", "Me")
        if joined and size + length <= granularity:
            size += length
            continue
        yield start, at
        start, size = at, length
    yield start, word.end


# Where a text may be cut: after sentences, short lines, blank lines and table rows. A small splitter of our own,
# because a chunker must cut every text of any length in linear time and give back each character. It errs on the side
# of too few boundaries in running prose and too many in lists.

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
        # Within a line a full stop before a small letter is an abbreviation's; at its end it ends the sentence also of
        # texts in small letters.
        if end < len(text) and text[end].islower() and "\n" not in match[0]:
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
