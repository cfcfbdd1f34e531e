"""A shard of the index, opened for searches from several threads.

Its only state between calls is caches: places of terms, rows of scopes, and recent chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.archive import files
from okralong.pipelines.archive.bm25 import Postings, ScopeStatistics, best_places
from okralong.pipelines.archive.dense import (
    LARGEST_K,
    ApproximateIndex,
    GpuRows,
    SmallerChunks,
    Spans,
    nearest,
    products,
)
from okralong.pipelines.archive.files import ChunkRows, CompressedRows, RowRanges, joined, mapped_here
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, Candidates, Chunk, Hit

Vector = Sequence[float] | NDArray[np.float32] | None
"""A query's vector, shape (dimension,); None if there is no encoder, and then no chunk is found by vectors."""

RECENT_CHUNKS: Final = 8_192
"""Number of chunks cached for the next question about the same documents; they take some 10 MB per shard. project
default"""

RECENT_SCOPES: Final = 1_024
"""Number of scopes cached. Only scopes of one document or the whole shard are; others take more memory and seldom
recur. project default"""


@dataclass(frozen=True, slots=True)
class _Scope:
    rows: RowRanges
    lengths: NDArray[np.int32]
    total_length: int


_Scored = tuple[NDArray[np.int64], NDArray[Any]]
"""Row numbers, and the score of each row."""

_NOTHING: Final[_Scored] = (np.empty(0, dtype=np.int64), np.empty(0))


@dataclass(frozen=True)
class Shard:
    """All chunks of one size of some documents, opened with ``Shard.open``.

    ``approximate`` is the approximate index of a large shard if the index config asks for one, ``on_gpu`` the copy of
    the vectors made by ``Shard.on_a_gpu``, and ``compressed`` the table of SARA's compressor. If the archive embeds
    only the smallest size, ``vectors`` of the larger sizes has the shape (rows, 0), and ``smaller`` has the vectors of
    the smallest chunks inside theirs.

    In all methods, ``doc_ids=None`` means the whole shard, and documents outside the shard are ignored.
    """

    granularity: int
    vectors: NDArray[np.float32]
    postings: Postings
    rows: ChunkRows
    ranges: dict[str, range]
    approximate: ApproximateIndex | None = None
    on_gpu: GpuRows | None = field(default=None, repr=False)
    compressed: CompressedRows | None = field(default=None, repr=False)
    smaller: SmallerChunks | None = field(default=None, repr=False)
    _scopes: dict[tuple[str, ...] | None, _Scope] = field(default_factory=dict, repr=False)
    _recent: dict[int, Chunk] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Folder) -> Shard:
        """Map a shard's files, after a copy if they are remote (see ``mapped_here``).

        Raises:
            ArchiveError: The shard is missing, unfinished, damaged, or has another schema version.
        """
        manifest = folder.read_manifest()
        if manifest is None:
            raise ArchiveError(_unusable(folder, "it has no manifest.json, so it was never finished"))
        if manifest.get("schema_version") != SCHEMA_VERSION:
            raise ArchiveError(_unusable(folder, f"its schema version is not {SCHEMA_VERSION}"))
        with mapped_here(folder) as path:
            try:
                return cls._map(path, manifest)
            except (OSError, ValueError, pa.ArrowException) as error:
                raise ArchiveError(_unusable(folder, str(error))) from error

    @classmethod
    def _map(cls, path: Path, manifest: dict[str, Any]) -> Shard:
        has_vectors = manifest.get("dimension") != 0
        rows = int(manifest["rows"])
        vectors = files.open_array(path, files.VECTORS) if has_vectors else np.empty((rows, 0), dtype=np.float32)
        beside = manifest.get("approximate")
        shard = cls(
            granularity=manifest["granularity"],
            vectors=vectors,
            postings=Postings.open(path),
            rows=ChunkRows.of(files.open_columns(path, files.ROWS, files.ROWS_SCHEMA)),
            ranges=files.open_ranges(path),
            approximate=beside
            and ApproximateIndex.open(path / files.APPROXIMATE, beside["effort"], len(vectors), vectors.shape[1]),
        )
        found = (len(shard.rows.chunk_id), len(shard.vectors), len(shard.postings.lengths))
        if set(found) != {manifest["rows"]}:
            raise ValueError(f"rows, vectors and lengths count {found}, not {manifest['rows']} as the manifest says")
        return shard

    def on_a_gpu(self) -> Shard:
        """Return the shard with a copy of its vectors, if any, on the GPU. Raises ConfigError if no GPU can be used."""
        return replace(self, on_gpu=GpuRows(self.vectors)) if self.vectors.shape[1] else self

    def over(self, smallest: Shard) -> Shard:
        """Return the shard with the vectors of ``smallest``. Raises ValueError if that shard has other documents."""
        return replace(self, smaller=SmallerChunks.of(smallest.vectors, smallest.spans(), self.spans()))

    def spans(self) -> Spans:
        """Return the character ranges of the chunks."""
        starts, ends = (np.frombuffer(part, dtype=np.int64) for part in (self.rows.start_char, self.rows.end_char))
        return Spans(self.ranges, starts, ends)

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """The documents of this shard, sorted."""
        return tuple(self.ranges)

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return len(self.vectors)

    def rows_of(self, doc_ids: Iterable[str] | None) -> list[range]:
        """Return the row ranges of some documents in ascending order, adjacent ones merged."""
        if doc_ids is None:
            return joined([range(self.n_chunks)])
        return joined(self.ranges[doc_id] for doc_id in set(doc_ids) if doc_id in self.ranges)

    def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """Return BM25's statistics of the scope's part in this shard, which can be added to those of other shards."""
        scope = self._scope(doc_ids)
        frequency = {term: self.postings.count(term, scope.rows) for term in set(terms)}
        return ScopeStatistics(scope.rows.size, scope.total_length, frequency)

    def candidates(self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int) -> Candidates:
        """Return the hits of ``exact`` and ``semantic`` for a scope that is within this shard."""
        scope = self._scope(doc_ids)
        exact = self._hits(self._exact(terms, scope, None, k), k)
        return Candidates(tuple(exact), tuple(self._hits(self._semantic(vector, scope.rows, k), k)))

    def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """Return the ``k`` chunks with the best BM25 scores, or fewer if fewer contain one of the terms.

        ``statistics`` are those of the whole scope, or None if the scope is within this shard.
        """
        return self._hits(self._exact(terms, self._scope(doc_ids), statistics, k), k)

    def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """Return the ``k`` chunks with the largest inner product with ``vector``; none in a shard without vectors.

        The result is exact, except that an approximate index may miss some chunks if the scope is the whole shard.

        Raises:
            ValueError: The vector's dimension is not that of the index.
        """
        return self._hits(self._semantic(vector, self._scope(doc_ids).rows, k), k)

    def vectors_of(self, chunks: Iterable[Chunk]) -> NDArray[np.float32]:
        """Return the vectors of some chunks of this shard, shape (chunks, dimension), in the given order.

        If the chunk size is not embedded, a chunk's vector is the mean of its smaller chunks' vectors.

        Raises:
            KeyError: A chunk's document is not in this shard.
            ArchiveError: The archive has no vectors.
        """
        if self.smaller is not None:
            return self.smaller.mean(self._rows_of_chunks(chunks))
        if not self.vectors.shape[1]:
            raise ArchiveError(
                f"The archive holds no vectors of its chunks of {self.granularity} tokens: it was indexed with "
                "embedding.of: none. Run okralong index on it again with --embed smallest (the strategy sara needs "
                "--embed each)."
            )
        return np.asarray(self.vectors[self._rows_of_chunks(chunks)], dtype=np.float32)

    def compressed_of(self, chunks: Iterable[Chunk]) -> list[NDArray[np.float32]]:
        """Return the compressed vectors of some chunks of this shard, each of shape (vectors, hidden).

        Raises:
            KeyError: A chunk's document is not in this shard.
            ArchiveError: The shard has no compressed vectors.
        """
        if self.compressed is None:
            raise ArchiveError(
                f"The archive holds no compressed chunks of {self.granularity} tokens. Run okralong index on it again "
                "with a compressor (see compressor in the index config)."
            )
        return self.compressed.take(self._rows_of_chunks(chunks))

    def _rows_of_chunks(self, chunks: Iterable[Chunk]) -> list[int]:
        # Rows are sorted by (doc_id, ordinal), and a document's ordinals are consecutive from 0.
        return [self.ranges[chunk.doc_id][chunk.ordinal] for chunk in chunks]

    def chunks(self, rows: Iterable[int]) -> list[Chunk]:
        """Return the chunks of some rows, in the given order."""
        return [self.rows.chunk(row, self.granularity) for row in rows]

    def _scope(self, doc_ids: Sequence[str] | None) -> _Scope:
        key = None if doc_ids is None else tuple(doc_ids)
        try:
            return self._scopes[key]
        except KeyError:
            rows = RowRanges.of(self.rows_of(key))
        lengths = self.postings.lengths_of(rows)
        scope = _Scope(rows, lengths, int(lengths.sum(dtype=np.int64)))
        if key is None or len(key) == 1:
            if len(self._scopes) >= RECENT_SCOPES:
                self._scopes.clear()
            self._scopes[key] = scope
        return scope

    def _exact(self, terms: Sequence[str], scope: _Scope, statistics: ScopeStatistics | None, k: int) -> _Scored:
        rows_of = scope.rows
        if k <= 0 or not terms or not rows_of.size:
            return _NOTHING
        repeats = Counter(terms)
        found = [self.postings.find(term, rows_of) for term in repeats]
        if statistics is None:
            frequency = {term: len(rows) for term, (rows, _) in zip(repeats, found, strict=True)}
            statistics = ScopeStatistics(rows_of.size, scope.total_length, frequency)
        weights = np.array([count * statistics.inverse_document_frequency(term) for term, count in repeats.items()])
        places, scores = best_places(statistics, weights, found, rows_of, scope.lengths, k)
        return rows_of.rows_at(places), scores

    def _semantic(self, vector: Vector, scope: RowRanges, k: int) -> _Scored:
        held = self.vectors if self.smaller is None else self.smaller.vectors
        if k <= 0 or not scope.size or vector is None or not held.shape[1]:
            return _NOTHING
        query = np.asarray(vector, dtype=np.float32)
        if query.shape != held.shape[1:]:
            raise ValueError(
                f"A query vector of shape {query.shape} was given to an index of {held.shape[1]} dimensions. "
                "Embed questions with the model that the archive's manifest names."
            )
        if self.smaller is not None:
            return self.smaller.nearest(query, scope, k)
        # A GPU compares all vectors faster than a CPU searches an index.
        if self.approximate and not self.on_gpu and scope.size == self.n_chunks and k <= LARGEST_K:
            rows = self.approximate.candidates(query, k)
            if len(rows) >= min(k, scope.size):
                return rows, products(self.vectors, query, rows)
        return nearest(self.vectors, query, scope, k, self.on_gpu)

    def _hits(self, scored: _Scored, k: int) -> list[Hit]:
        """Return the best ``k``, best first; ties are in the order of chunk_id."""
        rows, scores = scored
        # Sorted in Python, because NumPy is slower for hardly more than k values.
        best = sorted(zip(scores.tolist(), rows.tolist(), strict=True), reverse=True)
        if len({score for score, _ in best}) < len(best):
            name = self.rows.chunk_id.at
            best.sort(key=lambda pair: (-pair[0], name(pair[1])))
        return [Hit(self._chunk(row), score) for score, row in best[:k]]

    def _chunk(self, row: int) -> Chunk:
        try:
            return self._recent[row]
        except KeyError:
            chunk = self.rows.chunk(row, self.granularity)
        if len(self._recent) >= RECENT_CHUNKS:
            self._recent.clear()
        self._recent[row] = chunk
        return chunk


def _unusable(folder: Folder, why: str) -> str:
    return f"The index shard {folder.path} cannot be used: {why}. Run okralong index on the archive again."
