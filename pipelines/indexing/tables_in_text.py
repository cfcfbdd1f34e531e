"""Find the tables in running text, so that a chunk that cuts one is known and can be made whole.

Appendix B.3 / C.3 of the paper only says: "a heuristic mechanism to detect and recover incomplete tables within the
text, leveraging structural markers such as spacing and line breaks". The rules and constants here are ours: a table
body is a run of lines dense in figures with at most a few label lines between them; captions, introducing sentences and
a new set of column heads separate one body from the next; titles, units and heads directly above belong to the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from okralong.pipelines.core.types import TableSpan
from okralong.pipelines.indexing.table_lines import Kind, Line, read_lines

# All constants below are ours, not in the papers (see above).
MIN_ROWS: Final = 2  # lines with figures
MIN_STRONG_CELLS: Final = 4  # cells that can hardly be anything else than figures of a table
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
    """Find the tables of a document's text, sorted and disjoint, each a range of whole lines without the last break.

    ``table_id`` is ``{doc_key}:t{n}``, n from 0. Linear in the length of the text; no error is raised for any string.
    """
    lines = read_lines(text)
    shown = [line for line in lines if line.kind is not Kind.BLANK]
    blanks = _blanks_before(lines)
    captions_above = _captions_stand_above(shown)
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
    """For each line that is not blank, the number of blank lines directly above it."""
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
    """Runs of lines dense in figures, as inclusive index pairs; each begins and ends with a line of figures."""
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
    """Whether a new set of column heads begins here: a period followed by a year, or two years after a label."""
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
    """Walk up over column heads, units and titles; an introducing sentence or a caption above ends the walk."""
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
    """The sentence that introduces the table and ends in line i of prose or in the short line below it."""
    if top == i + 1 and shown[top].text.endswith(":") and not shown[i].text.endswith("."):
        return _sentence_start(shown, blanks, top, floor)
    for j in range(i, max(floor, i - MAX_INTRODUCTION_LINES + 1) - 1, -1):
        if shown[j].kind is Kind.INTRODUCTION:
            return j
    return top


def _sentence_start(shown: Sequence[Line], blanks: Sequence[int], i: int, floor: int) -> int:
    """The line in which the sentence that introduces a table begins."""
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
    """Whether a full stop inside the line ends a sentence: ". The", not "Inc. and"."""
    at = shown.find(". ")
    while at >= 0:
        if shown[at + 2 : at + 3].isupper():
            return True
        at = shown.find(". ", at + 2)
    return False


def _caption_above(shown: Sequence[Line], i: int, floor: int, top: int) -> int:
    """The caption of which line i is a later line, else the top found so far."""
    for j in range(i, max(floor, i - MAX_CAPTION_LINES) - 1, -1):
        if shown[j].kind is Kind.CAPTION:
            return j
        if shown[j].is_numeric:
            break
    return top


def _caption_end(shown: Sequence[Line], last: int) -> int:
    """The last line of the caption that follows a body, or the body's own last line."""
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


def _captions_stand_above(shown: Sequence[Line]) -> bool:
    """Whether this document sets captions above its tables. Only captions with figures on one side alone have a say."""
    votes = 0
    for i, line in enumerate(shown):
        if line.kind is not Kind.CAPTION:
            continue
        before = i > 0 and shown[i - 1].is_numeric
        after = sum(other.is_numeric for other in shown[i + 1 : i + 1 + CAPTION_LOOKAHEAD]) >= MIN_ROWS
        votes += int(after and not before) - int(before and not after)
    return votes > 0
