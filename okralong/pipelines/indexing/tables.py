"""Find tables in running text, so that a chunk that splits one is detected and can be completed.

The paper (appendix B.3 / C.3) only says: "a heuristic mechanism to detect and recover incomplete tables within the
text, leveraging structural markers such as spacing and line breaks". The rules and numbers here are project defaults,
tuned on hand-marked tables of real reports. The body of a table is a run of lines dense in figures, with at most a few
label lines between them. Captions, introducing sentences and a new set of column heads separate bodies; titles, units
and heads directly above belong to the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from okralong.pipelines.core.types import TableSpan

MIN_ROWS: Final = 2  # lines with figures
MIN_STRONG_CELLS: Final = 4  # cells that are almost certainly figures of a table
MIN_FIGURE_SHARE: Final = 0.3  # of the lines between the first and the last line with figures
MAX_BLANK_LINES: Final = 8  # some converters leave an empty line for each empty cell
MAX_GAP_COST: Final = 7  # between two lines with figures: a label costs 1, a full line of words 3
LABEL_COST: Final = 1
PROSE_COST: Final = 3
MAX_HEADER_LINES: Final = 20  # titles, units and column heads above the first figures, one word a line
MAX_HEADER_BLANK_LINES: Final = 3
MAX_INTRODUCTION_LINES: Final = 3
MAX_CAPTION_LINES: Final = 6
HEADER_LOOKAHEAD: Final = 4  # lines in which a period such as "Three Months Ended" must be followed by a year
CAPTION_LOOKAHEAD: Final = 14  # lines in which a caption's table must begin


def find_tables(text: str, doc_key: str) -> tuple[TableSpan, ...]:
    """Find the tables of a text, sorted and disjoint, each a range of whole lines without the last line break.

    ``table_id`` is ``{doc_key}:t{n}``, n from 0. Takes linear time and raises no error for any string.
    """
    lines = read_lines(text)
    shown = [line for line in lines if line.kind is not Kind.BLANK]
    blanks = _blanks_before(lines)
    captions_above = _captions_are_above(shown)
    spans: list[TableSpan] = []
    floor = 0
    for first, last in _bodies(shown, blanks):
        if not _is_table(shown[first : last + 1]):
            continue
        top = _header_start(shown, blanks, first, floor, captions_above=captions_above)
        bottom = last if captions_above else _caption_end(shown, last)
        spans.append(TableSpan(f"{doc_key}:t{len(spans)}", shown[top].start, shown[bottom].end))
        floor = bottom + 1
    return tuple(spans)


def _blanks_before(lines: Sequence[Line]) -> list[int]:
    """Return, for each line that is not blank, the number of blank lines directly above it."""
    counts: list[int] = []
    run = 0
    for line in lines:
        if line.kind is Kind.BLANK:
            run += 1
        else:
            counts.append(run)
            run = 0
    return counts


def _bodies(shown: Sequence[Line], blanks: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of lines dense in figures as inclusive index pairs; the first and last line have figures."""
    bodies: list[tuple[int, int]] = []
    first = last = -1
    cost = 0
    has_data = False
    for i, line in enumerate(shown):
        if first >= 0 and (
            blanks[i] > MAX_BLANK_LINES
            or line.kind in (Kind.CAPTION, Kind.INTRODUCTION)
            or (has_data and _restarts(shown, i))
            or cost > MAX_GAP_COST
        ):
            bodies.append((first, last))
            first = -1
        if line.is_numeric:
            if first < 0:
                first, has_data = i, False
            last, cost = i, 0
            has_data = has_data or not line.is_year
        else:
            cost += PROSE_COST if line.kind is Kind.PROSE else LABEL_COST
    if first >= 0:
        bodies.append((first, last))
    return bodies


def _restarts(shown: Sequence[Line], i: int) -> bool:
    """Return whether new column heads begin here: a period followed by a year, or two years after a label."""
    line = shown[i]
    if line.is_year and not shown[i - 1].is_numeric:
        return i + 1 < len(shown) and shown[i + 1].is_year
    if not line.is_period:
        return False
    for after in shown[i + 1 : i + 1 + HEADER_LOOKAHEAD]:
        if after.is_year:
            return True
        if after.strong:
            return False
    return False


def _is_table(body: Sequence[Line]) -> bool:
    numeric = sum(line.is_numeric for line in body)
    strong = sum(line.strong for line in body)
    return numeric >= MIN_ROWS and strong >= MIN_STRONG_CELLS and numeric >= MIN_FIGURE_SHARE * len(body)


def _header_start(shown: Sequence[Line], blanks: Sequence[int], first: int, floor: int, *, captions_above: bool) -> int:
    """Return the first line of column heads, units and titles above a body, up to a caption or introducing sentence."""
    top = first
    for i in range(first - 1, max(floor, first - MAX_HEADER_LINES) - 1, -1):
        line = shown[i]
        if blanks[i + 1] > MAX_HEADER_BLANK_LINES or line.is_bullet:
            break
        if line.kind is Kind.INTRODUCTION:
            return _sentence_start(shown, blanks, i, floor)
        if line.kind is Kind.CAPTION:
            return i if captions_above else top
        if line.kind is Kind.PROSE:
            if captions_above:
                return _caption_above(shown, i, floor, top)
            return _introduction_above(shown, blanks, i, floor, top)
        if line.kind is Kind.PAGE or (line.text.endswith(".") and i > floor and shown[i - 1].kind is Kind.PROSE):
            return top  # a page number, or the short last line of a paragraph
        top = i
    return top


def _introduction_above(shown: Sequence[Line], blanks: Sequence[int], i: int, floor: int, top: int) -> int:
    """Return the first line of the sentence that introduces the table and ends in line i or the short line below."""
    if top == i + 1 and shown[top].text.endswith(":") and not shown[i].text.endswith("."):
        return _sentence_start(shown, blanks, top, floor)
    for j in range(i, max(floor, i - MAX_INTRODUCTION_LINES + 1) - 1, -1):
        if shown[j].kind is Kind.INTRODUCTION:
            return j
    return top


def _sentence_start(shown: Sequence[Line], blanks: Sequence[int], i: int, floor: int) -> int:
    """Return the line in which the sentence that introduces a table begins."""
    lowest = max(floor, i - MAX_INTRODUCTION_LINES + 1)
    while i > lowest and not _begins_sentence(shown[i].text):
        above = shown[i - 1]
        if (
            blanks[i]
            or above.is_paragraph
            or above.kind not in (Kind.PROSE, Kind.INTRODUCTION)
            or above.text.endswith((".", ":"))
        ):
            break
        i -= 1
    return i


def _begins_sentence(shown: str) -> bool:
    """Return whether a full stop inside the line ends a sentence: ". The", not "Inc. and"."""
    at = shown.find(". ")
    while at >= 0:
        if shown[at + 2 : at + 3].isupper():
            return True
        at = shown.find(". ", at + 2)
    return False


def _caption_above(shown: Sequence[Line], i: int, floor: int, top: int) -> int:
    """Return the first line of the caption that line i continues, otherwise ``top``."""
    for j in range(i, max(floor, i - MAX_CAPTION_LINES) - 1, -1):
        if shown[j].kind is Kind.CAPTION:
            return j
        if shown[j].is_numeric:
            break
    return top


def _caption_end(shown: Sequence[Line], last: int) -> int:
    """Return the last line of the caption below a body, or of the body."""
    i = last + 1
    while i < len(shown) and shown[i].kind is Kind.LABEL and i - last <= MAX_GAP_COST:
        i += 1
    if i >= len(shown) or shown[i].kind is not Kind.CAPTION:
        return last
    end = i
    while end + 1 < len(shown) and end - i + 1 < MAX_CAPTION_LINES and not shown[end].text.endswith("."):
        below = shown[end + 1]
        if below.kind not in (Kind.PROSE, Kind.LABEL) or below.is_paragraph or below.text.startswith("Fig"):
            break
        end += 1
        if shown[end].kind is Kind.LABEL:
            break
    return end


def _captions_are_above(shown: Sequence[Line]) -> bool:
    """Return whether tables have captions above them here, judged by captions with figures on one side only."""
    votes = 0
    for i, line in enumerate(shown):
        if line.kind is not Kind.CAPTION:
            continue
        before = i > 0 and shown[i - 1].is_numeric
        after = sum(other.is_numeric for other in shown[i + 1 : i + 1 + CAPTION_LOOKAHEAD]) >= MIN_ROWS
        votes += int(after and not before) - int(before and not after)
    return votes > 0


# The kind of a line: a row of numbers, a label, a heading, prose. Text extracted from reports has lost its ruled lines,
# and often each cell is on a separate line. Every test looks at a bounded piece of a line without regular expressions,
# so that the time is linear even for a file of many megabytes on a single line.

MAX_LINE_CHARS: Final = 400  # a longer line is a paragraph, unless it is drawn with pipes
MAX_PIPED_LINE_CHARS: Final = 4000  # a pipe row with long cells; beyond that, a paragraph
MIN_PIPES: Final = 2
MIN_GAPS: Final = 2  # aligned columns: at least this many gaps of two spaces or a tab
MAX_MEAN_ALIGNED_CELL_CHARS: Final = 25  # prose with two spaces after a full stop has longer "cells"
MIN_STRONG_DIGITS: Final = 3  # 12 may be a page or an exponent; 1,234 or 12.5 or $3 is a figure of a table
MAX_RANK_CHARS: Final = 3  # "12." numbers a row
MIN_PROSE_WORDS: Final = 4  # "Acme Corp." ends with a full stop and is a label
MIN_WIDTH_WORDS: Final = 6  # lines from which the prose width of a document is estimated
MIN_WIDTH_LINES: Final = 5
DEFAULT_PROSE_WIDTH: Final = 80
FULL_LINE_SHARE: Final = 0.7  # of the prose width: from here on a line without figures reads as prose
MIN_INTRODUCTION_WORDS: Final = 4
MIN_RUNNING_HEADS: Final = 3  # pages that begin with the same line
MAX_HEADING_WORDS: Final = 8
MAX_PAGE_DIGITS: Final = 4

_DASHES: Final = frozenset({"-", "--", "---", "\N{EN DASH}", "\N{EM DASH}", "\N{MINUS SIGN}"})
_AROUND_FIGURES: Final = "$€£¥()%*†+-\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"
_MARKS: Final = frozenset({"$", "€", "£", "¥", "%", ")", ")%", "(", "US$"})
_EMPTY_CELLS: Final = frozenset({"n/a", "na", "nm", "n.m."})
_MONTHS: Final = frozenset(
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_INTRODUCING: Final = ("following", "as follows", "below", "summarize", "consist", "comprise")
_INTRODUCING_TABLE: Final = ("following table", "table below")
_BULLETS: Final = frozenset("•●▪■◦·*®™✓")


class Kind(Enum):
    """The kind of a line. FIGURES holds figures only, ROW a label with figures or aligned cells, PAGE a page number."""

    BLANK = "blank"
    FIGURES = "figures"
    ROW = "row"
    LABEL = "label"
    PROSE = "prose"
    INTRODUCTION = "introduction"
    CAPTION = "caption"
    PAGE = "page"


@dataclass(frozen=True, slots=True)
class Line:
    """A line ``[start, end)`` without its line break; ``figures`` counts number cells, ``strong`` the certain ones."""

    start: int
    end: int
    text: str
    kind: Kind
    figures: int = 0
    strong: int = 0

    @property
    def is_numeric(self) -> bool:
        """True if the line holds cells of a table."""
        return self.kind in (Kind.FIGURES, Kind.ROW)

    @property
    def is_year(self) -> bool:
        """True if the line consists of years, like column heads."""
        words = self.text.split()
        return bool(words) and all(is_year(word) for word in words)

    @property
    def is_period(self) -> bool:
        """True if the line is a period as a column head: "Three Months Ended", "June 25,", "As of"."""
        words = self.text.lower().split()
        if not 0 < len(words) <= MAX_HEADING_WORDS or self.kind is not Kind.LABEL:
            return False
        named = words[0] in _MONTHS and len(words) <= 3
        return named or words[:2] == ["as", "of"] or "ended" in words[1:] or words[0] == "fiscal"

    @property
    def is_paragraph(self) -> bool:
        """True if the line holds a whole paragraph, and so cannot be part of a table's title or caption."""
        return self.end - self.start > MAX_LINE_CHARS

    @property
    def is_bullet(self) -> bool:
        """True if the line is a bullet of a list."""
        return self.text[:1] in _BULLETS


def is_year(word: str) -> bool:
    """Return whether a word is a year such as 2019 or 2019*."""
    word = word.rstrip("*")
    return len(word) == 4 and word.isdigit() and word[:2] in ("19", "20")


def is_figure(word: str) -> bool:
    """Return whether a word is a number cell: 1,234, $(5.2)%, a dash for nothing, a rank such as 3. (ASCII digits)."""
    if word in _DASHES or word.lower() in _EMPTY_CELLS:
        return True
    if len(word) <= MAX_RANK_CHARS and word.endswith("."):
        word = word[:-1]
    core = word.strip(_AROUND_FIGURES)
    return bool(core) and core[-1].isdigit() and all(c in "0123456789.,/" for c in core)


def is_strong(word: str) -> bool:
    """Return whether a number cell is almost certainly a figure of a table."""
    if not is_figure(word) or is_year(word) or word.endswith(".") or not any(c.isdigit() for c in word):
        return False
    return any(c in ",.%$€£¥(" for c in word) or sum(c.isdigit() for c in word) >= MIN_STRONG_DIGITS


def read_lines(text: str) -> list[Line]:
    """Split a text into classified lines, in linear time."""
    spans: list[tuple[int, int, str]] = []
    start = 0
    for raw in text.split("\n"):
        short = len(raw) <= MAX_PIPED_LINE_CHARS
        spans.append((start, start + len(raw), raw.strip() if short else raw[:MAX_PIPED_LINE_CHARS]))
        start += len(raw) + 1
    width = _prose_width([shown for _, _, shown in spans])
    lines = [_classify(start, end, shown, width) for start, end, shown in spans]
    return _with_neighbours(lines, text)


def _prose_width(shown: Sequence[str]) -> int:
    """Return the median length of wordy lines: 50 characters in two columns, 100 to 200 in a filing."""
    lengths = sorted(
        len(line) for line in shown if len(line) <= MAX_LINE_CHARS and line.count(" ") >= MIN_WIDTH_WORDS - 1
    )
    return lengths[len(lengths) // 2] if len(lengths) >= MIN_WIDTH_LINES else DEFAULT_PROSE_WIDTH


def _classify(start: int, end: int, shown: str, width: int) -> Line:
    if not shown:
        return Line(start, end, shown, Kind.BLANK)
    if end - start <= MAX_PIPED_LINE_CHARS and shown.count("|") >= MIN_PIPES:
        cells = [cell.strip() for cell in shown.strip("|").split("|")]
        return Line(start, end, shown, Kind.ROW, len(cells), len(cells))
    if len(shown) > MAX_LINE_CHARS:
        return Line(start, end, shown[:MAX_LINE_CHARS], Kind.PROSE)
    words = [word for word in shown.split() if word.strip(".")]
    cells = [word for word in words if word not in _MARKS]
    figures = sum(map(is_figure, cells))
    strong = sum(map(is_strong, cells))
    if len(cells) == figures:
        return Line(start, end, shown, Kind.FIGURES, figures, strong)
    if _is_caption(words):
        return Line(start, end, shown, Kind.CAPTION)
    led = " . ." in shown or "...." in shown
    full = len(shown) >= FULL_LINE_SHARE * width and not led
    if _is_row(shown, cells, full=full):
        return Line(start, end, shown, Kind.ROW, max(figures, 1), max(strong, 1))
    lower = shown.lower()
    if len(words) >= MIN_INTRODUCTION_WORDS and (
        any(word in lower for word in _INTRODUCING_TABLE)
        or (shown.endswith(":") and (full or any(word in lower for word in _INTRODUCING)))
    ):
        return Line(start, end, shown, Kind.INTRODUCTION)
    if full or (shown.endswith((".", ";")) and not led and len(words) >= MIN_PROSE_WORDS):
        return Line(start, end, shown, Kind.PROSE)
    return Line(start, end, shown, Kind.LABEL)


def _is_row(shown: str, cells: Sequence[str], *, full: bool) -> bool:
    """Return whether a line is a label with figures, or cells separated by gaps."""
    gapped = [cell for cell in shown.replace("\t", "  ").split("  ") if cell.strip()]
    if len(gapped) > MIN_GAPS and sum(map(len, gapped)) <= MAX_MEAN_ALIGNED_CELL_CHARS * len(gapped):
        return True
    trailing = 0
    for word in reversed(cells):
        if not is_figure(word):
            break
        trailing += 1
    strong_tail = any(is_strong(word) for word in cells[len(cells) - trailing :])
    if trailing >= MIN_GAPS and strong_tail:
        return True
    if full or shown.endswith((".", ",", ";", ":")):
        return False
    return (trailing == 1 and strong_tail) or (is_strong(cells[0]) and not cells[0].endswith(","))


def _is_caption(words: Sequence[str]) -> bool:
    """Return whether a line begins like "Table 3: ..." or "TABLE IV. ..."."""
    if len(words) < 2 or words[0].lower() not in ("table", "tab."):
        return False
    number = words[1].rstrip(":.").lower()
    marked = words[1].endswith((":", "."))
    return marked and bool(number) and (number.isdigit() or not number.strip("ivxlc"))


def _with_neighbours(lines: Sequence[Line], text: str) -> list[Line]:
    """Correct kinds by neighbors: page numbers, running heads at page breaks, footers with pipes, footnote marks."""
    corrected = list(lines)
    shown = [i for i, line in enumerate(lines) if line.kind is not Kind.BLANK]
    heads = _running_heads([lines[i] for i in shown], text)
    for place, i in enumerate(shown):
        line = lines[i]
        before = lines[shown[place - 1]] if place else None
        after = lines[shown[place + 1]] if place + 1 < len(shown) else None
        kind = line.kind
        is_head = line.text in heads and not line.is_numeric and _page_breaks(text, before, line)
        at_break = _page_breaks(text, line, after) or _heads_page(text, before)
        if is_head or (at_break and _is_page_number(line.text)):
            kind = Kind.PAGE
        elif _is_footnote_mark(line.text) and after is not None and after.kind is Kind.PROSE:
            kind = Kind.LABEL
        elif _is_piped(line) and not _is_piped(before) and not _is_piped(after):
            kind = Kind.PAGE
        if kind is not line.kind:
            corrected[i] = Line(line.start, line.end, line.text, kind)
    return corrected


def _running_heads(shown: Sequence[Line], text: str) -> frozenset[str]:
    """Return the lines with which several pages begin; a form feed separates pages."""
    counts: Counter[str] = Counter()
    for before, line in pairwise(shown):
        if line.text and _page_breaks(text, before, line):
            counts[line.text] += 1
    return frozenset(head for head, count in counts.items() if count >= MIN_RUNNING_HEADS)


def _page_breaks(text: str, before: Line | None, after: Line | None) -> bool:
    """Return whether a form feed separates two neighboring lines, or is the first character of the later one."""
    return before is not None and after is not None and text.find("\f", before.end, after.start + 1) >= 0


def _heads_page(text: str, line: Line | None) -> bool:
    return line is not None and text.startswith("\f", line.start)


def _is_piped(line: Line | None) -> bool:
    return line is not None and line.kind is Kind.ROW and line.text.count("|") >= MIN_PIPES


def _is_page_number(shown: str) -> bool:
    digits = shown.rpartition("-")[2].strip()
    return len(shown) <= 2 * MAX_PAGE_DIGITS and digits.isdigit() and len(digits) <= MAX_PAGE_DIGITS


def _is_footnote_mark(shown: str) -> bool:
    return len(shown) == 3 and shown[0] == "(" and shown[1].isdigit() and shown[2] == ")"
