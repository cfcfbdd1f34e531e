"""Find the places where a text may be split: after sentences, short lines, blank lines and table rows.

The chunker needs a splitter that handles every text in linear time and keeps each character. This one errs on the side
of too few boundaries in running prose and too many in lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import merge
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.types import TableSpan

SHORT_LINE_CHARS: Final = 60
"""A narrower line is a heading, item or cell and ends a unit; a wider one was wrapped. Chinese and Japanese characters
are two wide. # project default"""
_WIDE: Final = re.compile("[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60]")

_WITH_A_DOT: Final = """
al approx art bros ca cf co corp dept dr ed eq est et etc ex fig figs inc incl jr lt ltd max messrs min mr mrs ms no
nos op p para pp prof ref rep rev sec sen sr st supp tab ver viz vol vs e.g i.e u.s u.k u.n d.c a.m p.m ph.d
jan feb mar apr jun jul aug sep sept oct nov dec
"""
_ABBREVIATIONS: Final = frozenset(_WITH_A_DOT.split())
_WITH_A_DOT_IN: Final[Mapping[str, str]] = {
    "de": "abb abs abschn anm art aufl bd bspw bzgl bzw ca d.h dipl einschl entspr etc evtl exkl ff gem geb ggf ggü "
    "hrsg inkl insb insbes ing jh kap lfd lt max mind min mio mrd nr o.ä o.g p.a pos prof rd s.a s.o s.u sog std str "
    "tab tsd tel u.a u.ä urspr usw u.u v.a vgl vorl z.b z.t zit zzgl",
    "es": "admón aprox art arts avda cap cía d dña dr dra ee etc fig gral lic núm núms pág págs párr p.ej prof sr "
    "sra sres srta ss tel ud uds vol",
    "fr": "al art av bd boul chap cf coll env éd etc ex fig hab max mgr min mlle mme mm p.ex pp réf ste st suiv "
    "tél tel vol",
    "it": "art artt avv cap cfr dott ecc es fig ing n pag pagg prof sig sigg sig.ra tab vol",
    "nl": "afb art bijv blz ca dhr d.w.z enz etc evt excl incl m.b.t mevr mln mrd nl nr o.a resp tel t.o.v vgl",
    "pt": "art arts av cap dr dra etc ex fig núm pág págs prof profa sr sra vol",
}
"""Abbreviations of other languages than English, which would keep apart too much in English texts."""
_ORDINAL_LANGUAGES: Final = frozenset(
    {"cs", "da", "de", "et", "fi", "hr", "hu", "lv", "no", "pl", "sk", "sl", "sr", "tr"}
)
"""Languages that write ordinals with a full stop: 31. Dezember, 4. Quartal."""
_ORDINAL: Final = re.compile(r"(?<![\w.,])(?:\d{1,2}|[IVX]{1,4})\Z")

_SENTENCE_END: Final = re.compile(
    r"(?<![.!?])[.!?]++(?>(?:[ \u00a0\u202f]?\u00bb)?)[\"'\u201d\u2019)\]]{0,3}+(?:\s++|(?=[A-Z]))"
)
"""Possessive and matched only at the start of a run of marks, so that a table of contents with long dots stays linear.
"""
_FULL_WIDTH_END: Final = re.compile(
    "(?<![\u3002\uff01\uff1f])[\u3002\uff01\uff1f\uff61]++[!?\u3002\uff01\uff1f]*+"
    "[\"'\u201d\u2019)\\]\u300d\u300f\u3011\u300b\u3009\uff09]*+\\s*+"
)
"""The end of a Chinese or Japanese sentence; no blank follows it."""
_GOES_ON: Final = "\u3001\uff0c\uff1b\uff1a\u3068\u3067\u306e\u3092\u304c\u306f\u3082\u306b\u306a\u3078"
"""Particles and marks with which a sentence goes on after a quotation that ends in a full stop."""
_CLOSING_QUOTE: Final = re.compile("[\u201d\u2019\u300d\u300f\uff09)]")
_WHOLE_WORD: Final = re.compile(r"(?<!\S)(?:[^\s._/\\:@=<>{}]|(?<=\d)\.(?=\d))*[a-z\d)%]{2}\Z")
"""An ordinary word or figure, not part of an address, path or code."""
_CAPITAL: Final = re.compile(r"[A-Z][a-z]+(?:[-'\u2019]\w+)*[,:;]?(?!\S)")
LOST_LINES: Final = 250
"""Characters around a full stop without a line break that mark a text whose line breaks were lost. Elsewhere a capital
right after a full stop belongs to a name or code (Yahoo.Com, System.Linq). # project default"""
_NEWLINE: Final = re.compile("\n")
_WORD_BEFORE: Final = re.compile(r"[\w.]{1,24}\Z")


def boundaries(text: str, tables: Sequence[TableSpan], language: str = "") -> Iterator[int]:
    """Yield the ascending offsets at which units end, the last one ``len(text)``; none for an empty text.

    ``tables`` do not overlap. ``language`` is that of the text, English if it is unknown. The offsets are not collected
    in a list, because a text may have millions.
    """
    tables = sorted(tables, key=lambda table: table.start_char)
    running = _outside_tables(merge(_line_cuts(text), sentence_ends(text, language)), tables)
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
            continue  # split at the last blank line of a paragraph break
        if not line.strip() or (is_short(line) and not following.lstrip()[0].islower()):
            yield end


def is_short(line: str) -> bool:
    """Return whether a line is too narrow to have been wrapped."""
    return len(line) < SHORT_LINE_CHARS and (line.isascii() or len(line) + len(_WIDE.findall(line)) < SHORT_LINE_CHARS)


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without their ends."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def sentence_ends(text: str, language: str = "") -> Iterator[int]:
    """Yield the ascending offsets after each sentence and its trailing blanks; lines may end without one.

    ``language`` is that of the text, English if it is unknown.
    """
    if _FULL_WIDTH_END.search(text) is None:
        return _ends(text, language)
    return merge(_ends(text, language), _full_width_ends(text))


def _full_width_ends(text: str) -> Iterator[int]:
    for match in _FULL_WIDTH_END.finditer(text):
        end = match.end()
        if end < len(text) and text[end] in _GOES_ON and _CLOSING_QUOTE.search(match[0]):
            continue
        yield end


def _ends(text: str, language: str) -> Iterator[int]:
    abbreviations = _abbreviations(language)
    for match in _SENTENCE_END.finditer(text):
        end = match.end()
        # Within a line, a full stop before a lower-case letter belongs to an abbreviation; at the end of a line it ends
        # the sentence even in lower-case texts.
        if end < len(text) and text[end].islower() and "\n" not in match[0]:
            continue
        if not match[0][-1].isspace() and not _begins_without_blank(text, match.start(), end):
            continue
        if text[match.start()] == "." and _is_abbreviation(text, match.start(), abbreviations):
            continue
        if language in _ORDINAL_LANGUAGES and match[0].startswith(". ") and _is_ordinal(text, match.start()):
            continue
        yield end


def _table_cuts(text: str, tables: Sequence[TableSpan]) -> Iterator[int]:
    """Yield the edges of tables and the ends of their rows."""
    for table in tables:
        yield table.start_char
        for match in _NEWLINE.finditer(text, table.start_char, table.end_char):
            yield match.end()
        last_break = table.end_char < len(text) and text[table.end_char] == "\n"
        yield table.end_char + last_break


@lru_cache
def _abbreviations(language: str) -> frozenset[str]:
    return _ABBREVIATIONS | frozenset(_WITH_A_DOT_IN.get(language, "").split())


def _is_ordinal(text: str, dot: int) -> bool:
    return _ORDINAL.search(text, max(0, dot - 8), dot) is not None


def _is_abbreviation(text: str, dot: int, abbreviations: frozenset[str]) -> bool:
    word = _WORD_BEFORE.search(text[max(0, dot - 24) : dot])
    if word is None:
        return False
    token = word[0].strip(".").lower()
    return token in abbreviations or (len(token) == 1 and token.isalpha())


def _begins_without_blank(text: str, mark: int, end: int) -> bool:
    """Return whether a sentence begins at ``end`` without a blank, as in filings without line breaks."""
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
