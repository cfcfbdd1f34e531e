"""Build the outline of a document from its text: numbered and plain headings, checked against its table of contents.

The text alone is enough, so that documents of archives without outlines get the same ones.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.outline import OutlineNode, SectionRole
from okralong.pipelines.core.types import Document, Section

LONGEST_TEXT: Final = 8_000_000
"""Characters of a document in which sections are found. # project default"""
MOST_NODES: Final = 4_000
"""Sections of a document; later ones are left out. # project default"""
_LONGEST: Final = 110
_MOST_WORDS: Final = 14
_SHORT: Final = 3
"""The most characters and words of a heading; one in plain words has more characters than ``_SHORT``. # project default
"""
_LEVELS: Final[dict[SectionRole | None, int]] = {
    "statement": 3,
    "audit": 3,
    "notes": 3,
    "boilerplate": 5,
    "exhibits": 2,
    "signatures": 2,
    "certification": 2,
}
"""The levels of headings whose words say what their section is for."""
_LONG_LINE: Final = 60
"""Characters of a line of running text below a plain heading. # project default"""
_REPEATED: Final = 4
"""A line that as many pages have is a running head. # project default"""
_FEW_ENTRIES: Final = 5
"""Lines with page numbers that a table of contents has at least. # project default"""
_CONTENTS_SHARE: Final = 0.2
"""The share of the document, from its beginning, in which tables of contents are read. # project default"""
_NEAR_PAGES: Final = 3
"""Pages around the one that a table of contents names on which the heading is searched. # project default"""

_PART: Final = re.compile(r"part\s+(?:[ivx]+|[1-4])\s*(?:$|[.:\u2014\u2013-]\s*(?:[A-Z]|$))", re.IGNORECASE)
_ITEM: Final = re.compile(r"item\s+\d{1,2}[a-c]?\b[.:\u2014\u2013-]?", re.IGNORECASE)
_NOTE: Final = re.compile(r"note\s+\d{1,2}[a-z]?\b", re.IGNORECASE)
_NUMBERED: Final = re.compile(r"^\(?\d{1,2}(?:\.\d{1,2})?[.)]?\s+(?=[A-Z])")
_ENTRY: Final = re.compile(r"(?P<title>[^\W\d_].{2,140}?)[\s.\u2026_]+(?P<page>\d{1,3}|[ivx]{1,5}|[FS]-\d{1,3})\s*$")
_ENTRY_BEFORE: Final = re.compile(r"(?P<page>\d{1,3})(?:\s*[-\u2013]\s*\d{1,3})?\s+(?P<title>[^\W\d_].{2,100})$")
"""The same with the number first, as in "82 Notes to the financial statements" and "8-49 MANAGEMENT REPORT"."""
_CONTENTS: Final = re.compile(r"(?:table\s+of\s+)?contents(?:\s+page)?$|index(?:\s+page)?$", re.IGNORECASE)
_FIGURES: Final = re.compile(r"\(\d|\d[\d,.]*\s*[%)]?(?:\s|$)|[$\u20ac\u00a3|\u2610-\u2612<>]")

# What the words of a heading say about its section, the first match first. Chosen on the reports named in
# benchmarks/results/right_page.md; a section without such words has its parent's role.
_WORDS: Final[tuple[tuple[SectionRole, str], ...]] = (
    ("contents", r"^(?:table of )?contents\b|^index to\b.*(?:statements|exhibits)"),
    (
        "certification",
        r"^certifications? (?:of|pursuant|under)\b|\brule 13a-14|\bsection (?:302|906)\b|^exhibit 3[12]\b",
    ),
    ("signatures", r"^signatures?$|^power of attorney"),
    ("audit", r"report of independent registered|\bauditor[\u2019']?s[\u2019']? report|^independent auditors?\b"),
    ("exhibits", r"^(?:item \d+\W+)?exhibits?\b|^exhibit index|^(?:item 16\W+)?form 10-k summary"),
    (
        "boilerplate",
        r"forward[- ]looking|^(?:important |legal )?(?:notices?|disclaimers?)$|^safe harbor|^cautionary"
        r"|^competent persons? statement",
    ),
    ("notes", r"^(?:condensed )?notes to\b.*statements|^note \d{1,2}\b"),
    (
        "statement",
        r"^(?:condensed |consolidated |group |company |parent )*(?:balance sheets?|(?:income )?statements? of"
        r" (?:financial (?:position|condition)|operations|income|comprehensive|profit|cash ?flows?|changes|earnings"
        r"|(?:stock|share)holders|equity|loss)|income statements?|cash flow statements?)",
    ),
    ("body", r"^item \d|^part [ivx]+\b|^(?:directors.?|strategic|management|chair|remuneration|governance)"),
)
_ROLES: Final = tuple((role, re.compile(pattern, re.IGNORECASE)) for role, pattern in _WORDS)
_COVER_TITLE: Final = "Cover page"
_CONTENTS_TITLE: Final = "Table of contents"
_PAGES_ALONE: Final = frozenset((_COVER_TITLE, _CONTENTS_TITLE))
"""Titles of sections that end with their page and have none below."""
_CERTIFIED: Final = re.compile(r"\bI, [^,\n]{3,60}, certify that|\bhereby certif(?:y|ies), pursuant to\b")
_SIGNED: Final = re.compile(r"Pursuant to the requirements? of (?:the )?(?:Section 13|Securities Exchange Act)", re.I)
_COVER: Final = re.compile(r"\bindicate by check ?mark\b|\bexact name of registrant\b", re.I)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with words: its text without blanks around it, where it begins, its page's index (-1 for none).

    ``plain`` has its words in lower case, without marks; "" for a long line.
    """

    text: str
    start: int
    page: int
    plain: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of a table of contents, with the page number that it names as printed (-1 for none)."""

    title: str
    printed: int
    level: int


def outline_of(document: Document) -> tuple[OutlineNode, ...]:
    """Return the outline of a document: the one stored with it, or else the one of its text."""
    if document.outline is not None:
        return document.outline
    return read_outline(document.text, document.sections)


@lru_cache(maxsize=16)
def read_outline(text: str, sections: tuple[Section, ...] = ()) -> tuple[OutlineNode, ...]:
    """Return the sections of a text in reading order. ``sections`` are its pages, slides and known headings."""
    text = text[:LONGEST_TEXT]
    pages = [section for section in sections if section.kind in ("page", "sheet", "slide")]
    lines = list(_lines(text, [page.start_char for page in pages]))
    running = _running_heads(lines, len(pages))
    contents, entries = _contents(lines, len(text), len(pages))
    found: dict[int, tuple[int, str]] = {}
    marked = dict(_marked(text, pages))
    inside = {*contents, *(page for page, title in marked.items() if title == _COVER_TITLE)}
    for at, line in enumerate(lines):
        if line.page in inside and pages:
            continue
        level = _level(lines, at, running)
        if level:
            found[line.start] = (level, line.text)
    for section in sections:
        if section.kind == "heading" and section.name:
            found.setdefault(section.start_char, (3, section.name))
    for start, level, title in _placed(entries, lines, contents, [page.start_char for page in pages]):
        found[start] = (min(level, found[start][0]) if start in found else level, title)
    for page in contents if pages else ():
        found[pages[page].start_char] = (2, _CONTENTS_TITLE)
    for page, title in marked.items():
        found.setdefault(pages[page].start_char, (2, title))
    nodes = sorted((start, level, title) for start, (level, title) in found.items())[:MOST_NODES]
    return tuple(_nested(_unrepeated(nodes), len(text), pages))


_WORD: Final = re.compile(r"[^\W_]+")


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _lines(text: str, starts: Sequence[int]) -> Iterator[_Line]:
    at = 0
    for line in text.splitlines(keepends=True):
        words = line.strip()
        if words:
            start = at + line.index(words[0])
            plain = _plain(words) if len(words) <= 2 * _LONGEST else ""
            yield _Line(words, start, bisect_right(starts, start) - 1, plain)
        at += len(line)


def _running_heads(lines: Sequence[_Line], pages: int) -> frozenset[str]:
    """Return the lines that many pages have, in plain words."""
    if pages < _REPEATED:
        return frozenset()
    on = {(line.page, line.plain) for line in lines if line.plain}
    counts = Counter(plain for _, plain in on)
    return frozenset(plain for plain, count in counts.items() if count >= _REPEATED and plain)


def _level(lines: Sequence[_Line], at: int, running: frozenset[str]) -> int:
    """Return the level of the heading that a line is, 0 for none."""
    text = lines[at].text
    if len(text) > _LONGEST or (not text[0].isalnum() and text[0] != "("):
        return 0
    if _PART.match(text) and len(text) <= _LONGEST // 3:
        return 1
    if any(form.match(text) and _follow(lines, at, form) for form in (_ENTRY, _ENTRY_BEFORE)):
        return 0
    if (item := _ITEM.match(text)) and _titled(text[item.end() :]):
        return 2
    if not _headed(text):
        return 0
    if _NOTE.match(text):
        return 4
    role = _role(text)
    if role in _LEVELS:
        return _LEVELS[role]
    plain = lines[at].plain
    numbered = _NUMBERED.match(text)
    if plain in running or len(plain) <= _SHORT or _FIGURES.search(text[numbered.end() if numbered else 0 :]):
        return 0
    below = lines[at + 1] if at + 1 < len(lines) else None
    if below is None or below.page - lines[at].page > 1:
        return 0
    level = 4 if numbered and text[0] != "(" else 5
    if text.isupper():
        return level
    above = lines[at - 1].text if at else ""
    ended = not above or above[-1] in ".:;!?" or len(above) < _LONG_LINE
    return level if ended and len(below.text) >= _LONG_LINE and below.text[0].isupper() else 0


def _headed(text: str) -> bool:
    """Return whether a line may be a heading: it begins with a capital and does not end as a sentence."""
    words = _NUMBERED.sub("", text, count=1).split()
    if not words or not words[0][0].isupper() or len(words) > _MOST_WORDS or text[-1] in ".;,!?:":
        return False
    long = [word for word in words if len(word) > 3 and word[0].isalpha()]
    return len(words) <= 4 or sum(word[0].isupper() for word in long) >= len(long) / 2


def _titled(rest: str) -> bool:
    rest = rest.strip(" .:\u2014\u2013-")
    return not rest or (rest[0].isupper() and len(rest.split()) <= 2 * _MOST_WORDS)


def _follow(lines: Sequence[_Line], at: int, form: re.Pattern[str]) -> bool:
    """Return whether the lines around one have the same form, as in a table of contents."""
    around = [*lines[max(0, at - 2) : at], *lines[at + 1 : at + 3]]
    return sum(line.plain != "" and form.match(line.text) is not None for line in around) >= 2


# Tables of contents.


def _contents(lines: Sequence[_Line], length: int, pages: int) -> tuple[list[int], list[_Entry]]:
    """Return the pages that are tables of contents, and their entries."""
    by_page: dict[int, list[_Line]] = {}
    for line in lines:
        if line.start > max(_CONTENTS_SHARE * length, 20_000):
            break
        by_page.setdefault(line.page, []).append(line)
    found: list[int] = []
    entries: list[_Entry] = []
    for page, own in by_page.items():
        titled = any(_CONTENTS.match(line.text) for line in own[:8])
        short = [line.text for line in own if len(line.text) <= 2 * _LONGEST]
        forms = ([match for text in short if (match := form.match(text))] for form in (_ENTRY, _ENTRY_BEFORE))
        rows = max(forms, key=len)
        rising = [_printed(row["page"]) for row in rows]
        steps = [late >= early for early, late in pairwise(rising) if early >= 0 and late >= 0]
        enough = len(rows) >= _FEW_ENTRIES and sum(steps) >= 0.7 * max(1, len(steps))
        if enough and (titled or len(rows) >= 0.6 * len(own) or (found and page == found[-1] + 1)):
            found.append(page)
            entries += [
                _Entry(row["title"].strip(" ."), _printed(row["page"]), _entry_level(row["title"])) for row in rows
            ]
    return ([] if pages == 0 else found), entries


def _printed(page: str) -> int:
    return int(page) if page.isdigit() else -1


def _entry_level(title: str) -> int:
    if _ITEM.match(title):
        return 2
    return 3 if _role(title) in ("statement", "notes", "audit") else 2


def _placed(
    entries: Sequence[_Entry], lines: Sequence[_Line], contents: Sequence[int], starts: Sequence[int]
) -> Iterator[tuple[int, int, str]]:
    """Yield the place, level and title of each entry of a table of contents that the text has.

    A title is searched near the page that the entry names; the distance between printed and counted pages is that of
    most titles that stand on one page only.
    """
    after = max(contents, default=-1)
    by_title: dict[str, list[_Line]] = {}
    for line in lines:
        if line.page > after and line.plain:
            by_title.setdefault(line.plain, []).append(line)
    places = [(entry, by_title.get(_plain(entry.title), [])) for entry in entries]
    apart = Counter(
        found[0].page - entry.printed
        for entry, found in places
        if entry.printed >= 0 and len({line.page for line in found}) == 1
    )
    offset = apart.most_common(1)[0][0] if apart else None
    for entry, found in places:
        if not starts:
            if len(found) == 1:
                yield found[0].start, entry.level, entry.title
            continue
        if offset is None or entry.printed < 0:
            continue
        page = entry.printed + offset
        near = [line for line in found if abs(line.page - page) <= _NEAR_PAGES]
        if near:
            yield min(near, key=lambda line: (abs(line.page - page), line.start)).start, entry.level, entry.title
        elif after < page < len(starts):
            yield starts[page], entry.level, entry.title


# Roles and nesting.


def _role(title: str) -> SectionRole | None:
    title = _NUMBERED.sub("", title, count=1)
    return next((role for role, pattern in _ROLES if pattern.search(title)), None)


def _marked(text: str, pages: Sequence[Section]) -> Iterator[tuple[int, str]]:
    """Yield pages whose words show that they are the cover, a certification or signatures, with a title."""
    ends = [*(page.start_char for page in pages[1:]), len(text)]
    for at, (page, end) in enumerate(zip(pages, ends, strict=False)):
        own = text[page.start_char : end]
        if at < 3 and _COVER.search(own):
            yield at, _COVER_TITLE
        elif _CERTIFIED.search(own):
            yield at, "Certification"
        elif _SIGNED.search(own) and at > len(pages) / 2:
            yield at, "Signatures"


def _unrepeated(nodes: Sequence[tuple[int, int, str]]) -> Iterator[tuple[int, int, str]]:
    """Leave out headings that repeat the one that is open at their level, as running heads and "(continued)" do."""
    open_at: dict[int, str] = {}
    for start, level, title in nodes:
        plain = re.sub(r" continued$", "", _plain(title))
        if open_at.get(level) == plain:
            continue
        open_at = {key: value for key, value in open_at.items() if key < level} | {level: plain}
        yield start, level, title


def _nested(nodes: Iterator[tuple[int, int, str]], length: int, pages: Sequence[Section]) -> list[OutlineNode]:
    starts = [page.start_char for page in pages]
    above: list[OutlineNode] = []
    out: list[OutlineNode] = []
    for start, level, title in nodes:
        above = [node for node in above if node.level < level and node.title not in _PAGES_ALONE]
        role: SectionRole = (
            "front" if title == _COVER_TITLE else (_role(title) or (above[-1].role if above else "body"))
        )
        page = bisect_right(starts, start)
        out.append(OutlineNode(title, level, role, start, length, pages[page - 1].name if page else ""))
        above.append(out[-1])
    ends: dict[int, int] = {}
    for at in range(len(out) - 1, -1, -1):
        level = out[at].level
        out[at] = replace(out[at], end=min((ends[other] for other in ends if other <= level), default=length))
        ends[level] = out[at].start
        if out[at].title in _PAGES_ALONE:
            after = bisect_right(starts, out[at].start)
            out[at] = replace(out[at], end=min([out[at].end, *starts[after : after + 1]]))
    return out
