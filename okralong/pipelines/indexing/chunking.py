"""Split a document into chunks that tile it, in time and memory linear in its text.

Units (sentences, lines, table rows) are packed greedily. A unit larger than a chunk is split between words, and a word
larger than a chunk every few bytes, but never inside a visible character.
"""

from __future__ import annotations

import re
import sys
import unicodedata
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, tee
from typing import Final

from okralong.pipelines.core.sentences import SHORT_LINE_CHARS, boundaries, is_short, lines_of
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Chunk, Document, TableSpan

MIN_GRANULARITY: Final = 16
"""Smallest chunk size in tokens; below it a single character might not fit. # project default"""

START_SHARE: Final = 0.5
"""A chunk filled to this share ends before a table or section that does not fit completely. # project default"""

_SINGLE_STEPS: Final = 4
"""Units that an overfull chunk gives back one by one, each time counting the whole chunk. Prose gives back one or two;
without this limit, a text such as "1 1 1 1", whose units take more tokens together than apart, would give back half. #
project default"""


CHUNKER: Final = 2
"""Version of the rules for splitting at sentences, part of the names of chunk tables; increment it when they change, so
that archives are chunked again. Names of the first version, which separated headings from their text, have no
number. Rules that other languages than English got later did not increment it: new documents are split by them."""


def cut_name() -> str:
    """Return the name of the rules for splitting, in folders and manifests."""
    return f"sentences-{CHUNKER}"


def chunk_document(doc: Document, granularity: int) -> list[Chunk]:
    """Return chunks of at most ``granularity`` o200k tokens that tile ``doc.text``; none for an empty text.

    Raises:
        ValueError: ``granularity`` is below MIN_GRANULARITY.
    """
    if granularity < MIN_GRANULARITY:
        raise ValueError(f"A granularity of {granularity} tokens is too small; the minimum is {MIN_GRANULARITY}.")
    tables = sorted(doc.table_spans, key=lambda table: table.start_char)
    starts = [table.start_char for table in tables]
    ends = {table.start_char: table.end_char for table in tables}
    units = _Ahead(fitting_units(doc, granularity))
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
    """Units that were read ahead but not packed yet, little more than one chunk's."""

    def __init__(self, units: Iterator[Unit]) -> None:
        self._units = units
        self._seen: list[Unit] = []

    def get(self, place: int) -> Unit | None:
        """Return the unit ``place`` units ahead, or None beyond the end of the text."""
        while place >= len(self._seen):
            unit = next(self._units, None)
            if unit is None:
                return None
            self._seen.append(unit)
        return self._seen[place]

    def first(self, count: int) -> Sequence[Unit]:
        """Return the first ``count`` units that ``get`` has returned."""
        return self._seen[:count]

    def take(self, count: int) -> Sequence[Unit]:
        """Return and remove the first ``count`` units."""
        taken = self._seen[:count]
        del self._seen[:count]
        return taken


def _fill(text: str, units: _Ahead, granularity: int, tables: Mapping[int, int]) -> tuple[Sequence[Unit], int]:
    """Take the units of the next chunk; return them with their number of tokens."""

    def tokens(count: int) -> int:
        seen = units.first(count)
        return count_tokens(text[seen[0].start : seen[-1].end])

    most = _reach(units, granularity, tables)
    n_tokens = tokens(most)
    steps = 0
    while n_tokens > granularity and steps < _SINGLE_STEPS:  # the sum of costs was an estimate
        most -= 1
        steps += 1
        n_tokens = tokens(most)
    if n_tokens > granularity:
        fits, over = 1, most  # a single unit always fits
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (middle, over) if tokens(middle) <= granularity else (fits, middle)
        most, n_tokens = fits, tokens(fits)
    if kept := _without_last_headings(units, most, granularity):
        most, n_tokens = kept, tokens(kept)
    return units.take(most), n_tokens


def _reach(units: _Ahead, granularity: int, tables: Mapping[int, int]) -> int:
    """Return how many units fit into the next chunk by the sum of their costs, at least one.

    ``tables`` maps the start of each table to its end.
    """
    total = told = 0  # all tokens, and those before trailing headings
    place = 0
    heads = False
    while (unit := units.get(place)) is not None and total + unit.cost <= granularity:
        if told >= START_SHARE * granularity and (
            (unit.start in tables and not _table_fits(units, place, tables[unit.start], granularity - total))
            or (unit.heading and not heads and not _section_fits(units, place, granularity - total))
        ):
            break
        total += unit.inner_cost
        place += 1
        heads = unit.heading
        told = told if heads else total
    return max(1, place)


def _without_last_headings(units: _Ahead, count: int, granularity: int) -> int:
    """Return how many of the first ``count`` units remain when trailing headings move to the text below them.

    0 means no move: there are no headings, they are many enough to be a list, or they and the next unit exceed a chunk.
    """
    taken, following = units.first(count), units.get(count)
    kept = count
    while kept and taken[kept - 1].heading and count - kept <= MOST_IN_A_ROW:
        kept -= 1
    heads = taken[kept:]
    if following is None or not 0 < len(heads) <= MOST_IN_A_ROW:
        return 0
    return kept if sum(unit.cost for unit in heads) + following.cost <= granularity else 0


def _table_fits(units: _Ahead, place: int, end: int, tokens: int) -> bool:
    """Return whether the units from ``place`` on that begin before ``end`` have at most ``tokens`` tokens."""
    while (unit := units.get(place)) is not None and unit.start < end:
        tokens -= unit.cost
        if tokens < 0:
            return False
        place += 1
    return True


def _section_fits(units: _Ahead, place: int, tokens: int) -> bool:
    """Return whether the headings from ``place`` on and the text below have at most ``tokens`` tokens.

    Also True for headings that are many enough to be a list.
    """
    first = place
    while (unit := units.get(place)) is not None and unit.heading:
        tokens -= unit.cost
        place += 1
        if place - first > MOST_IN_A_ROW:
            return True
    while tokens >= 0 and (unit := units.get(place)) is not None and not unit.heading:
        tokens -= unit.cost
        place += 1
    return tokens >= 0


def _cut_table(start: int, end: int, tables: Sequence[TableSpan], starts: Sequence[int]) -> str | None:
    """Return the table that ``start`` or ``end`` splits; if both do, the table with more text in the chunk."""
    cut = []
    for edge in (start, end):
        before = bisect_left(starts, edge) - 1
        if before >= 0 and edge < tables[before].end_char:
            cut.append(tables[before])
    if not cut:
        return None
    return max(cut, key=lambda table: min(end, table.end_char) - max(start, table.start_char)).table_id


# The units to pack, generated lazily: a text of many megabytes may have millions, and a list of them would take fifty
# times its memory.

_PIECE_BYTES: Final = 16
"""Size of the pieces of an overlong word; they always fit, because a token has at least one byte."""

_CLAUSE_MARKS: Final = "\u3001\uff0c\uff1b\uff1a"
_WORD: Final = re.compile(rf"[^\s{_CLAUSE_MARKS}]+[{_CLAUSE_MARKS}]*\s*|[{_CLAUSE_MARKS}]+\s*|\s+")
"""A word with the blanks after it; in Chinese and Japanese, a clause."""
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch of text that is kept together if possible.

    ``cost`` is its number of tokens alone, ``inner_cost`` roughly that with more text after it, when a single trailing
    space becomes part of the next word's token. ``heading`` marks a heading of the text below.
    """

    start: int
    end: int
    cost: int
    inner_cost: int
    heading: bool = False


def fitting_units(doc: Document, granularity: int) -> Iterator[Unit]:
    """Yield units of at most ``granularity`` o200k tokens that tile the text of ``doc``."""
    marked, told = tee(_headings(doc))
    begins = next(told, None)
    for unit in _units(doc.text, 0, _around(boundaries(doc.text, doc.table_spans, doc.language), marked)):
        while begins is not None and begins[0] < unit.start:
            begins = next(told, None)
        if begins is not None and begins[0] == unit.start:
            unit = replace(unit, heading=True)
        yield from _parted(doc.text, unit, granularity)


def _around(ends: Iterable[int], headings: Iterator[Span]) -> Iterator[int]:
    """Yield ``ends`` plus the edges of headings, without those inside a heading."""
    last = 0
    start, stop = next(headings, _NONE)
    for end in ends:
        while end > start:
            yield from (edge for edge in (start, stop) if edge > last)
            last = stop
            start, stop = next(headings, _NONE)
        if end > last:
            yield end
            last = end


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
    """Yield characters with their combining marks, joiners and selectors, unless they exceed ``granularity`` bytes."""
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


# Headings, which belong to the text below them and are useless at the end of a chunk.

MOST_IN_A_ROW: Final = 3
"""More consecutive headings are a list. # project default"""
MOST_REPEATS: Final = 5
"""A line repeated more often is the head of a page or form, not a heading. # project default"""
_NO_END: Final = ".!,;\u3002\uff01\uff0c\uff1b\u2026"
_UNCASED: Final = re.compile("[\u3041-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_LINE_END: Final = re.compile(r"\n(?>(?:[^\S\n]*\n)*)")
_SLOTS: Final = 1 << 16
Span = tuple[int, int]
_NONE: Final[Span] = (sys.maxsize, sys.maxsize)


def _headings(doc: Document) -> Iterator[Span]:
    """Yield the headings outside tables, each up to the next line that is not blank.

    These are the document's own headings if it has more than a title. Otherwise they are short lines after a blank line
    that begin with a capital or digit, end no sentence, and are not repeated often.
    """
    text = doc.text
    named = sorted({section.start_char for section in doc.sections if section.kind == "heading"})
    tables = sorted((table.start_char, table.end_char) for table in doc.table_spans)
    last = 0
    for start in named if len(named) > 1 else _like_headings(text):
        held = bisect_left(tables, (start + 1,)) - 1
        if start < last or (held >= 0 and start < tables[held][1]):
            continue
        line = text.find("\n", start)
        end = _LINE_END.match(text, line) if line >= 0 else None
        last = end.end() if end else len(text)
        yield start, last


def _like_headings(text: str) -> Iterator[int]:
    """Yield the offsets of lines that look like headings and are not repeated often.

    Repetitions are counted in a table of fixed size, because a text may have millions of lines.
    """
    repeats = bytearray(_SLOTS)
    for _, line in _short_lines(text):
        slot = zlib.crc32(line.encode()) % _SLOTS
        repeats[slot] = min(repeats[slot] + 1, MOST_REPEATS + 1)
    for start, line in _short_lines(text):
        if repeats[zlib.crc32(line.encode()) % _SLOTS] <= MOST_REPEATS:
            yield start


def _short_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield offset and text of short lines after a blank line that look like a heading."""
    at = 0
    blank = True
    for line in lines_of(text):
        words = line.strip()
        if (
            blank
            and 0 < len(words) <= SHORT_LINE_CHARS
            and (words[0].isupper() or words[0].isdigit() or (_UNCASED.match(words) and is_short(words)))
            and words[-1] not in _NO_END
            and any(map(str.isalpha, words))
        ):
            yield at, words
        blank = not words
        at += len(line) + 1
