"""One shard of the index, open for questions. It keeps no state between calls and may be used from many threads."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from okralong.pipelines.errors import ArchiveError
from okralong.pipelines.search import layout
from okralong.pipelines.search.bm25 import ScopeStatistics
from okralong.pipelines.search.nearest import nearest
from okralong.pipelines.search.postings import Postings
from okralong.pipelines.search.scope import RowRanges, joined
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import SCHEMA_VERSION
from okralong.pipelines.values import Chunk, Hit

Vector = Sequence[float] | NDArray[np.float32]


@dataclass(frozen=True)
class Shard:
    """All chunks of some documents at one granularity. Open one with ``Shard.open``.

    In every method ``doc_ids`` None means the whole shard; documents that the shard does not hold add nothing.
    """

    granularity: int
    vectors: NDArray[np.float32]
    postings: Postings
    rows: pa.Table
    ranges: dict[str, range]
    copied_to: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    @classmethod
    def open(cls, folder: Folder) -> Shard:
        """Map a shard's files; those of another filesystem are first copied to a temporary folder.

        Raises ArchiveError when the shard is missing, unfinished, damaged, or of another schema version.
        """
        manifest = folder.read_manifest()
        if manifest is None:
            raise ArchiveError(_unusable(folder, "it has no manifest.json, so it was never finished"))
        if manifest.get("schema_version") != SCHEMA_VERSION:
            raise ArchiveError(_unusable(folder, f"its schema version is not {SCHEMA_VERSION}"))
        copied_to = None if folder.is_local else tempfile.TemporaryDirectory(prefix="okralong-shard-")
        if copied_to is not None:
            fs.copy_files(folder.path, copied_to.name, source_filesystem=folder.filesystem)
        try:
            return cls._map(Path(copied_to.name if copied_to else folder.path), manifest, copied_to)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(_unusable(folder, str(error))) from error

    @classmethod
    def _map(cls, path: Path, manifest: dict[str, Any], copied_to: tempfile.TemporaryDirectory[str] | None) -> Shard:
        ranges = layout.open_columns(path, layout.RANGES, layout.RANGES_SCHEMA).to_pydict()
        shard = cls(
            granularity=manifest["granularity"],
            vectors=layout.open_array(path, layout.VECTORS),
            postings=Postings.open(path),
            rows=layout.open_columns(path, layout.ROWS, layout.ROWS_SCHEMA),
            ranges={
                doc_id: range(first, end)
                for doc_id, first, end in zip(ranges["doc_id"], ranges["first_row"], ranges["end_row"], strict=True)
            },
            copied_to=copied_to,
        )
        found = (len(shard.rows), len(shard.vectors), len(shard.postings.lengths))
        if set(found) != {manifest["rows"]}:
            raise ValueError(f"rows, vectors and lengths count {found}, not {manifest['rows']} as the manifest says")
        return shard

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """The documents of this shard, sorted."""
        return tuple(self.ranges)

    @property
    def n_chunks(self) -> int:
        """The chunks of this shard."""
        return len(self.vectors)

    def rows_of(self, doc_ids: Iterable[str] | None) -> list[range]:
        """The row ranges of some documents in rising order; ranges that touch are joined."""
        if doc_ids is None:
            return joined([range(self.n_chunks)])
        return joined(self.ranges[doc_id] for doc_id in set(doc_ids) if doc_id in self.ranges)

    def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """What BM25 must know of the scope's part in this shard; the parts of all shards add up to the scope."""
        scope = RowRanges.of(self.rows_of(doc_ids))
        frequency = {term: self.postings.count(term, scope) for term in set(terms)}
        return ScopeStatistics(scope.size, self.postings.total_length(scope), frequency)

    def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """The ``k`` chunks with the best BM25 score; chunks without any of the terms are no hits.

        ``statistics`` are those of the whole scope; None when the whole scope lies in this shard.
        """
        scope = RowRanges.of(self.rows_of(doc_ids))
        if k <= 0 or not terms or not scope.size:
            return []
        found_of = {term: self.postings.find(term, scope) for term in set(terms)}
        if statistics is None:
            frequency = {term: len(places) for term, (places, _, _) in found_of.items()}
            statistics = ScopeStatistics(scope.size, self.postings.total_length(scope), frequency)
        scores = np.zeros(scope.size)
        for term, repeats in Counter(terms).items():
            places, frequencies, lengths = found_of[term]
            if len(places):
                scores[places] += repeats * statistics.term_scores(term, frequencies, lengths)
        (hit,) = np.nonzero(scores)
        found = scores[hit]
        if len(hit) > k:
            # Everything tied with the k-th stays until the chunk_ids have decided.
            kept = found >= np.partition(found, len(found) - k)[-k]
            hit, found = hit[kept], found[kept]
        return self._hits(scope.rows_at(hit), found, k)

    def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """The ``k`` chunks whose vectors have the largest inner product with ``vector``, of shape (dimension,).

        Raises ValueError when the vector's dimension is not that of the index.
        """
        scope = RowRanges.of(self.rows_of(doc_ids))
        if k <= 0 or not scope.size:
            return []
        query = np.asarray(vector, dtype=np.float32)
        if query.shape != self.vectors.shape[1:]:
            raise ValueError(
                f"A query vector of shape {query.shape} was given to an index of {self.vectors.shape[1]} dimensions. "
                "Embed questions with the model that the archive's manifest names."
            )
        rows, scores = nearest(self.vectors, query, scope, k)
        return self._hits(rows, scores, k)

    def vectors_of(self, chunks: Iterable[Chunk]) -> NDArray[np.float32]:
        """The vectors of some chunks of this shard, shape (chunks, dimension), in the order given.

        Raises KeyError when the shard does not hold a chunk's document.
        """
        # Rows stand in order of (doc_id, ordinal), and a document's ordinals count from 0 without a gap.
        rows = [self.ranges[chunk.doc_id][chunk.ordinal] for chunk in chunks]
        return np.asarray(self.vectors[rows], dtype=np.float32)

    def chunks(self, rows: Iterable[int]) -> list[Chunk]:
        """The chunks of some rows, in the order given."""
        taken = self.rows.take(pa.array(rows, pa.int64()))
        return [Chunk(granularity=self.granularity, **row) for row in taken.to_pylist()]

    def _hits(self, rows: NDArray[np.int64], scores: NDArray[Any], k: int) -> list[Hit]:
        chunk_ids = self.rows.column("chunk_id").take(pa.array(rows, pa.int64())).to_pylist()
        best = sorted(zip((-scores).tolist(), chunk_ids, rows.tolist(), strict=True))[:k]
        chunks = self.chunks(row for _, _, row in best)
        return [Hit(chunk, -negated) for (negated, _, _), chunk in zip(best, chunks, strict=True)]


def _unusable(folder: Folder, why: str) -> str:
    return f"The index shard {folder.path} cannot be used: {why}. Run okralong index on the archive again."
