"""Chunks become passages: neighbours are joined, and passages stand in the order in which a person reads.

Order of passages in a prompt: documents by their best score, since the likeliest source should come first; within a
document by position, since "the following table" makes sense only after the sentence that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Hit, Passage

_ORIGINS = ("retrieved", "merged", "extended", "table", "full")
"""From the plainest to the most worked: a joined passage keeps the word of its most worked part."""


def passage_of(hit: Hit) -> Passage:
    """One chunk as a passage."""
    chunk = hit.chunk
    return Passage(
        doc_id=chunk.doc_id,
        start_char=chunk.start_char,
        end_char=chunk.end_char,
        text=chunk.text,
        n_tokens=chunk.n_tokens,
        score=hit.score,
        chunk_ids=(chunk.chunk_id,),
    )


def merge(passages: Iterable[Passage]) -> list[Passage]:
    """Join passages of a document that touch or overlap; the result is in reading order.

    Each passage's text must be the document's text in its range; so is then the joined text.
    """
    ordered = sorted(passages, key=lambda passage: (passage.doc_id, passage.start_char, passage.end_char))
    merged: list[Passage] = []
    for _, of_document in groupby(ordered, key=lambda passage: passage.doc_id):
        group: list[Passage] = []
        end = -1
        for passage in of_document:
            if group and passage.start_char > end:
                merged.append(_join(group))
                group = []
            group.append(passage)
            end = max(end, passage.end_char) if len(group) > 1 else passage.end_char
        merged.append(_join(group))
    return reading_order(merged)


def reading_order(passages: Sequence[Passage]) -> list[Passage]:
    """Documents by falling best score (ties by doc_id), passages of a document by position."""
    best: dict[str, float] = {}
    for passage in passages:
        best[passage.doc_id] = max(passage.score, best.get(passage.doc_id, passage.score))
    return sorted(passages, key=lambda passage: (-best[passage.doc_id], passage.doc_id, passage.start_char))


def _join(group: list[Passage]) -> Passage:
    """One passage of ``group``, which is sorted by start and has no gap."""
    if len(group) == 1:
        return group[0]
    text, end = group[0].text, group[0].end_char
    for passage in group[1:]:
        if passage.end_char > end:
            text += passage.text[end - passage.start_char :]
            end = passage.end_char
    by_score = sorted(group, key=lambda passage: -passage.score)
    return Passage(
        doc_id=group[0].doc_id,
        start_char=group[0].start_char,
        end_char=end,
        text=text,
        n_tokens=count_tokens(text),
        score=by_score[0].score,
        chunk_ids=tuple(dict.fromkeys(chunk_id for passage in by_score for chunk_id in passage.chunk_ids)),
        origin=max((*(passage.origin for passage in group), "merged"), key=_ORIGINS.index),
    )
