"""Retrieved chunks as the journal keeps them: ids, places and scores, without the text, which the archive has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from okralong.pipelines.core.types import Candidates, Chunk, Document, Hit


def retrieval_record(candidates: Candidates) -> dict[str, Any]:
    """``{"exact": rows, "semantic": rows}``; a row holds a chunk's fields but its text, and the score."""
    return {"exact": _rows(candidates.exact), "semantic": _rows(candidates.semantic)}


def chunks_from_record(body: Mapping[str, Any], document: Callable[[str], Document]) -> Candidates:
    """The candidates of a record; ``document`` gives the texts that the rows point into."""
    return Candidates(
        tuple(_hit(row, document) for row in body["exact"]), tuple(_hit(row, document) for row in body["semantic"])
    )


def _rows(hits: Sequence[Hit]) -> list[list[Any]]:
    return [
        [
            hit.chunk.chunk_id,
            hit.chunk.doc_id,
            hit.chunk.granularity,
            hit.chunk.ordinal,
            hit.chunk.start_char,
            hit.chunk.end_char,
            hit.chunk.n_tokens,
            hit.chunk.table_id,
            hit.score,
        ]
        for hit in hits
    ]


def _hit(row: Sequence[Any], document: Callable[[str], Document]) -> Hit:
    chunk_id, doc_id, granularity, ordinal, start, end, n_tokens, table_id, score = row
    text = document(doc_id).text[start:end]
    return Hit(Chunk(chunk_id, doc_id, granularity, ordinal, start, end, n_tokens, text, table_id), score)
