"""Measure how much of the gold evidence the passages of a prompt show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from okralong.lab.datasets.gold import answer_recall
from okralong.lab.datasets.pooling import PooledQuestion, Span
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.core.types import Hit, Passage


def shown_share(texts: Mapping[str, str], question: PooledQuestion, hits: Sequence[Hit]) -> float | None:
    """Return the share of the gold evidence, or else of the answer's parts, that chunks contain; None if undefined."""
    shown = measure(question, [passage_of(hit) for hit in hits], texts)
    return shown.answer_recall if shown.evidence_recall is None else shown.evidence_recall


Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""The sorted, disjoint character ranges of each document, by doc_id."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The shares of the gold evidence that were shown, 0 to 1; None if the set marks none.

    Attributes:
        evidence_recall: The share of gold characters.
        pieces: The number of pieces of evidence.
        pieces_shown: The number of pieces that are shown as a whole.
        all_evidence: Whether all pieces are shown.
        answer_recall: The share of the answer's parts that are shown.
        cell_recall: The share of gold cells shown together with their row and column headers.
        context_tokens: The o200k tokens of the passages.
    """

    evidence_recall: float | None
    pieces: int
    pieces_shown: int
    all_evidence: bool | None
    answer_recall: float | None
    cell_recall: float | None
    context_tokens: int


def measure(question: PooledQuestion, passages: Sequence[Passage], documents: Mapping[str, str]) -> Shown:
    """Measure the passages shown for a question. ``documents`` has the texts of its documents by doc_id."""
    shown = ranges((p.doc_id, *place) for p in passages for place in p.places)

    def needed(span: Span) -> int:
        return solid(documents[span.doc_id][span.start_char : span.end_char])

    def covered(span: Span) -> int:
        """Count the characters of a span that were shown, without white space."""
        text = documents[span.doc_id]
        return sum(
            solid(text[max(start, span.start_char) : min(end, span.end_char)])
            for start, end in shown.get(span.doc_id, ())
            if start < span.end_char and end > span.start_char
        )

    def whole(span: Span) -> bool:
        return covered(span) == needed(span)

    gold = ranges((s.doc_id, s.start_char, s.end_char) for s in question.evidence)
    joined = [Span(doc_id, start, end) for doc_id, stretches in gold.items() for start, end in stretches]
    total = sum(map(needed, joined))
    pieces = [span for span in question.evidence if needed(span)]
    pieces_shown = sum(map(whole, pieces))
    cells = [whole(cell.row) and whole(cell.header) for cell in question.cells]
    return Shown(
        evidence_recall=sum(map(covered, joined)) / total if total else None,
        pieces=len(pieces),
        pieces_shown=pieces_shown,
        all_evidence=pieces_shown == len(pieces) if pieces else None,
        answer_recall=answer_recall(question.item.gold.parts, [passage.shown_text for passage in passages]),
        cell_recall=sum(cells) / len(cells) if cells else None,
        context_tokens=sum(passage.n_tokens for passage in passages),
    )


def ranges(spans: Iterable[tuple[str, int, int]]) -> Ranges:
    """Merge spans (doc_id, start, end) that overlap or touch."""
    joined: dict[str, list[tuple[int, int]]] = {}
    for doc_id, start, end in sorted(spans):
        stretches = joined.setdefault(doc_id, [])
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((start, end))
    return joined


def solid(text: str) -> int:
    """Count the characters without white space."""
    return len("".join(text.split()))
