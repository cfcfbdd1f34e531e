"""Cited and gold spans of a question, shown in windows of the surrounding text.

Text is split here, not in the page, because Python and JavaScript count characters differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from okralong.pipelines.core.types import Question

TextOf = Callable[[str], str | None]
"""Returns the text of a document by doc_id, or None if unavailable."""

AROUND: Final = 320  # project default
"""Characters shown before and after a span."""
HEAD, TAIL = 700, 300  # project default
"""Characters shown of the beginning and end of a longer piece."""
NEAR: Final = 80  # project default
"""Maximum widening of a window to the boundary of a line or word."""
MOST_SOURCES: Final = 12  # project default
"""Maximum number of windows per question."""

CITED, GOLD = 1, 2
"""Bits of a piece's kind."""

Span = tuple[str, int, int]
"""``(doc_id, start_char, end_char)``."""
Piece = tuple[str, int]
"""``(text, kind)``, or ``("", -n)`` for n omitted characters."""


@dataclass(frozen=True, slots=True)
class Source:
    """A window ``[start_char, end_char)`` of a document with its ``spans``, cited ones first.

    ``seen`` says whether all of them were in the prompt's context.
    """

    doc_id: str
    start_char: int
    end_char: int
    seen: bool
    pieces: tuple[Piece, ...]
    spans: tuple[Span, ...]


def gold_spans(gold: Question | None) -> list[Span]:
    """Return the gold evidence of a question that is given as spans."""
    return [span for each in (gold.evidence if gold else ()) if (span := evidence_span(each)) is not None]


def evidence_span(text: str) -> Span | None:
    """Parse gold evidence of the form ``doc_id:start:end``; None for other forms."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    start, end = int(parts[1]), int(parts[2])
    return (parts[0], start, end) if start < end else None


def spans_of(rows: Iterable[Any] | None) -> list[Span]:
    """Convert a list of structs to spans."""
    return [(row["doc_id"], row["start_char"], row["end_char"]) for row in rows or ()]


def evidence_recall(gold: Sequence[Span], context: Sequence[Span]) -> float | None:
    """Return the share of gold characters in the context, 0 to 1; None without gold spans."""
    needed = sum(end - start for _, start, end in gold)
    if not needed:
        return None
    shown = 0
    for doc_id, start, end in gold:
        held = [(max(start, a), min(end, b)) for doc, a, b in context if doc == doc_id and a < end and b > start]
        shown += sum(b - a for a, b in _joined(held, 0))
    return shown / needed


def sources(quoted: Sequence[Span], gold: Sequence[Span], context: Sequence[Span], text_of: TextOf) -> list[Source]:
    """Return the windows of a question's spans, documents in order of citation, then the others.

    Windows of documents whose text is unavailable have no pieces.
    """
    wanted: dict[str, list[Span]] = {}
    for span in (*quoted, *gold):
        wanted.setdefault(span[0], []).append(span)
    found = []
    for doc_id, spans in wanted.items():
        text = text_of(doc_id)
        shown = _joined([(start, end) for doc, start, end in context if doc == doc_id], 0)
        marks = [(start, end, CITED) for doc, start, end in quoted if doc == doc_id]
        marks += [(start, end, GOLD) for doc, start, end in gold if doc == doc_id]
        size = max(end for _, _, end in spans) if text is None else len(text)
        for start, end in _joined([(start, end) for _, start, end in spans], 2 * AROUND):
            inside = [(a, b) for a, b, _ in marks if start <= a and b <= end]
            seen = all(any(a >= low and b <= high for low, high in shown) for a, b in inside)
            low, high = min(size, max(0, start - AROUND)), min(size, end + AROUND)
            pieces = () if text is None else _pieces(text, low, high, marks)
            held = dict.fromkeys((doc_id, a, b) for a, b in inside)
            found.append(Source(doc_id, low, high, seen, pieces, tuple(held)))
    return found[:MOST_SOURCES]


def _pieces(text: str, low: int, high: int, marks: Sequence[tuple[int, int, int]]) -> tuple[Piece, ...]:
    low, high = _opening(text, low), _closing(text, high)
    edges = {low, high}
    edges.update(edge for start, end, _ in marks for edge in (start, end) if low < edge < high)
    ordered = sorted(edges)
    pieces: list[Piece] = []
    for start, end in pairwise(ordered):
        what = 0
        for a, b, kind in marks:
            if a <= start and end <= b:
                what |= kind
        if end - start <= HEAD + TAIL:
            pieces.append((text[start:end], what))
        else:
            left_out = end - start - HEAD - TAIL
            pieces += [
                (text[start : start + HEAD], what),
                ("", -left_out),
                (text[end - TAIL : end], what),
            ]
    return tuple(pieces)


def _opening(text: str, place: int) -> int:
    """Move a position back to the beginning of its line or word if that is near."""
    if place <= 0:
        return 0
    line = text.rfind("\n", max(0, place - NEAR), place)
    if line >= 0:
        return line + 1
    near = range(place, max(0, place - NEAR), -1)
    return next((at for at in near if text[at - 1].isspace() and not text[at : at + 1].isspace()), place)


def _closing(text: str, place: int) -> int:
    """Move a position forward to the end of its word if that is near."""
    return next((at for at in range(place, min(len(text), place + NEAR)) if text[at].isspace()), min(place, len(text)))


def _joined(ranges: Iterable[tuple[int, int]], gap: int) -> list[tuple[int, int]]:
    """Sort ranges and merge those at most ``gap`` apart."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
