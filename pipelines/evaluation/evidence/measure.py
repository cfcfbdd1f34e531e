"""What of the gold evidence stands in the passages shown, and at how many tokens. No generator and no judge: ranges.

White space counts nowhere: a chunk that ends before a line break has shown the sentence whole. Evidence counts where
the set marks it; the same words elsewhere in the document do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from okralong.pipelines.core.types import Passage
from okralong.pipelines.evaluation.datasets.pooling import PooledQuestion, Span
from okralong.pipelines.evaluation.recall import answer_recall

Ranges = Mapping[str, Sequence[tuple[int, int]]]
"""Sorted, disjoint character ranges by doc_id."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How much of what a question needs was shown. A share is 0 to 1, and None where the set marks nothing to show.

    ``evidence_recall`` is the share of gold characters; ``pieces_shown`` of ``pieces`` stand there wholly, and
    ``all_evidence`` says whether all do; ``answer_recall`` is that of the answer's parts; ``cell_recall`` the share of
    gold cells shown together with their row and column headers; ``context_tokens`` are o200k tokens.
    """

    evidence_recall: float | None
    pieces: int
    pieces_shown: int
    all_evidence: bool | None
    answer_recall: float | None
    cell_recall: float | None
    context_tokens: int


def measure(question: PooledQuestion, passages: Sequence[Passage], documents: Mapping[str, str]) -> Shown:
    """Measure the passages shown for a question. ``documents`` has the text of each of its documents by doc_id."""
    shown = ranges((p.doc_id, p.start_char, p.end_char) for p in passages)
    gold = ranges((s.doc_id, s.start_char, s.end_char) for s in question.evidence)
    needed = covered = 0
    for doc_id, stretches in gold.items():
        for start, end in stretches:
            stretch = Span(doc_id, start, end)
            needed += _solid(documents[doc_id][start:end])
            covered += _covered(stretch, shown, documents)
    pieces = [span for span in question.evidence if _solid(documents[span.doc_id][span.start_char : span.end_char])]
    whole = sum(_is_shown(span, shown, documents) for span in pieces)
    cells = [_is_shown(c.row, shown, documents) and _is_shown(c.header, shown, documents) for c in question.cells]
    return Shown(
        evidence_recall=covered / needed if needed else None,
        pieces=len(pieces),
        pieces_shown=whole,
        all_evidence=whole == len(pieces) if pieces else None,
        answer_recall=answer_recall(question.item.gold.parts, [passage.text for passage in passages]),
        cell_recall=sum(cells) / len(cells) if cells else None,
        context_tokens=sum(passage.n_tokens for passage in passages),
    )


def ranges(spans: Iterable[tuple[str, int, int]]) -> Ranges:
    """Join spans (doc_id, start, end) that overlap or touch."""
    joined: dict[str, list[tuple[int, int]]] = {}
    for doc_id, start, end in sorted(spans):
        stretches = joined.setdefault(doc_id, [])
        if stretches and start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(end, stretches[-1][1]))
        else:
            stretches.append((start, end))
    return joined


def _is_shown(span: Span, shown: Ranges, documents: Mapping[str, str]) -> bool:
    return _covered(span, shown, documents) == _solid(documents[span.doc_id][span.start_char : span.end_char])


def _covered(span: Span, shown: Ranges, documents: Mapping[str, str]) -> int:
    """Characters of a span that were shown, white space left out."""
    text = documents[span.doc_id]
    return sum(
        _solid(text[max(start, span.start_char) : min(end, span.end_char)])
        for start, end in shown.get(span.doc_id, ())
        if start < span.end_char and end > span.start_char
    )


def _solid(text: str) -> int:
    return len("".join(text.split()))
