"""Build the shards of a version, reusing those whose documents did not change.

A shard is named after its documents, so equal shards are never written twice, and those that a killed job finished are
found again. A new shard takes the rows, vectors and term counts of unchanged documents from shards of the previous
version, which are memory-mapped, and only those of new documents from the archive's tables. The result is identical to
a build from scratch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.archive import files
from okralong.pipelines.archive.dense import build_approximate
from okralong.pipelines.archive.files import DenseConfig, joined, shard_of
from okralong.pipelines.archive.terms import analyze_texts
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import ArchiveError

Rows = tuple[pa.RecordBatch, NDArray[np.float32], NDArray[np.bool_]]
"""Chunks in the columns of ``files.ROWS_SCHEMA``; their vectors, shape (chunks, dimension), with a dimension of 0 if
there are none; and whether each exceeds the encoder's limit."""
NewRows = Callable[[str, set[str]], Iterator[Rows]]
"""A function that yields the chunks of some documents of a part."""
_VECTOR: Final = "vector"
_OVER: Final = "over_limit"


@dataclass(frozen=True, slots=True)
class Held:
    """A document of a shard: the hash of its id and text, the part to read it from, and the language of its terms."""

    sha256: str
    part: str
    language: str = ENGLISH


@dataclass(frozen=True)
class Base:
    """The shards of the previous version: their folders in order, and the hash of each document in them.

    ``languages`` has the documents whose terms are not English.
    """

    folders: Sequence[Folder] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
    languages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuiltShard:
    """A finished shard: its folder's name, its number of chunks, and how many of them exceed the encoder's limit."""

    name: str
    rows: int
    over_limit: int
    built: bool


def rebuild_shards(
    place: Folder,
    granularity: int,
    names: Sequence[str],
    documents: Mapping[str, Held],
    base: Base,
    new_rows: NewRows,
    dimension: int,
    dense: DenseConfig,
) -> list[BuiltShard]:
    """Build those of the shards ``names`` (in the order of their numbers) that are missing in the folder ``place``.

    ``documents`` has the documents of all shards. One shard at a time is in memory. With a ``dimension`` of 0 the
    shards have no vectors.
    """
    missing = {number for number, name in enumerate(names) if not place.at(name).exists(MANIFEST)}
    wanted: dict[int, dict[str, Held]] = {number: {} for number in missing}
    fresh: dict[str, set[str]] = {}
    for doc_id, held in documents.items():
        number = shard_of(doc_id, len(names))
        if number in missing:
            wanted[number][doc_id] = held
            if base.documents.get(doc_id) != held.sha256:
                fresh.setdefault(held.part, set()).add(doc_id)
    with tempfile.TemporaryDirectory(prefix="okralong-index-") as scratch:
        _deal(fresh, new_rows, len(names), dimension, Path(scratch))
        for number in sorted(missing):
            sources = base.folders
            if (
                base.folders and len(names) % len(base.folders) == 0
            ):  # all documents of a shard come from one base shard
                sources = [base.folders[number % len(base.folders)]]
            _build(
                place.at(names[number]),
                granularity,
                wanted[number],
                base,
                sources,
                Path(scratch, str(number)),
                dimension,
                dense,
            )
    return [_described(place.at(name), name, number in missing) for number, name in enumerate(names)]


def _deal(fresh: Mapping[str, set[str]], new_rows: NewRows, shards: int, dimension: int, scratch: Path) -> None:
    """Write each row of the new documents to its shard's file in ``scratch``, in one pass over the parts."""
    schema = files.ROWS_SCHEMA.append(pa.field(_OVER, pa.bool_()))
    if dimension:
        schema = schema.append(pa.field(_VECTOR, pa.list_(pa.float32(), dimension)))
    writers: dict[int, pa.RecordBatchFileWriter] = {}
    try:
        for part, doc_ids in sorted(fresh.items()):
            for rows, values, over in new_rows(part, doc_ids):
                columns = [*rows.columns, pa.array(over)]
                if dimension:
                    columns.append(pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), dimension))
                batch = pa.RecordBatch.from_arrays(columns, schema=schema)
                owners = np.array([shard_of(doc_id, shards) for doc_id in rows.column("doc_id").to_pylist()])
                for number in np.unique(owners).tolist():
                    if number not in writers:
                        writers[number] = pa.ipc.new_file(str(scratch / str(number)), schema)
                    writers[number].write_batch(batch.filter(pa.array(owners == number)))
    finally:
        for writer in writers.values():
            writer.close()


def _build(
    folder: Folder,
    granularity: int,
    documents: Mapping[str, Held],
    base: Base,
    sources: Sequence[Folder],
    scratch: Path,
    dimension: int,
    dense: DenseConfig,
) -> None:
    tables: list[pa.Table] = []
    values: list[NDArray[np.float32]] = []
    flags: list[NDArray[np.bool_]] = []
    taken: list[_Taken] = []
    for source in sources:
        shard = BaseShard.open(source)
        same = {
            doc_id: base.languages.get(doc_id, ENGLISH) == documents[doc_id].language
            for doc_id in shard.ranges
            if doc_id in documents and documents[doc_id].sha256 == base.documents.get(doc_id)
        }
        for as_before in (True, False):
            kept = joined(shard.ranges[doc_id] for doc_id, is_same in same.items() if is_same == as_before)
            taken.append((shard, kept, as_before))
            for rows in kept:
                tables.append(shard.rows.slice(rows.start, len(rows)))
                if dimension:
                    values.append(shard.vectors[rows.start : rows.stop])
                flags.append(shard.over_limit[rows.start : rows.stop])
    old_rows = sum(map(len, tables))
    new = files.ROWS_SCHEMA.empty_table()
    if scratch.exists():
        dealt = pa.ipc.open_file(pa.memory_map(str(scratch))).read_all()
        tables.append(dealt.select(files.ROWS_SCHEMA.names))
        if dimension:
            values.extend(
                batch.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
                for batch in dealt.column(_VECTOR).chunks
            )
        flags.append(dealt.column(_OVER).to_numpy())
        new = dealt.select(["doc_id", "text"])
    rows_table, order = _ordered(tables, folder)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    matrix = np.empty((len(order), dimension), dtype=np.float32)
    start = 0
    for block in values:
        matrix[places[start : start + len(block)]] = block
        start += len(block)
    over_limit = np.concatenate(flags)[order] if flags else np.zeros(0, dtype=np.bool_)
    fresh = PostingPiece.of_texts(new["text"].to_pylist(), places[old_rows:], _languages(new, documents))
    pieces = [*_old_postings(taken, places, documents), fresh]
    write_shard(folder, granularity, rows_table, matrix, dense, over_limit, MergedPostings.of(pieces, len(order)))


_Taken = tuple["BaseShard", Sequence[range], bool]
"""A base shard, rows to take from it, and whether their terms are in the same language as before."""


def _old_postings(
    taken: Sequence[_Taken], places: NDArray[np.int64], documents: Mapping[str, Held]
) -> Iterator[PostingPiece]:
    start = 0
    for shard, kept, as_before in taken:
        mine = np.full(len(shard.rows), -1, dtype=np.int64)
        first = start
        for rows in kept:
            mine[rows.start : rows.stop] = places[start : start + len(rows)]
            start += len(rows)
        if kept and as_before:
            yield shard.postings(mine)
        elif kept:
            again = pa.concat_tables([shard.rows.slice(rows.start, len(rows)) for rows in kept])
            yield PostingPiece.of_texts(again["text"].to_pylist(), places[first:start], _languages(again, documents))


def _languages(rows: pa.Table, documents: Mapping[str, Held]) -> list[str]:
    return [documents[doc_id].language for doc_id in rows["doc_id"].to_pylist()]


def _ordered(tables: Sequence[pa.Table], folder: Folder) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return the rows sorted by (doc_id, ordinal), and the previous index of each."""
    if not tables:
        return files.ROWS_SCHEMA.empty_table(), np.zeros(0, dtype=np.int64)
    rows = pa.concat_tables(tables)
    order = pc.sort_indices(rows, sort_keys=[("doc_id", "ascending"), ("ordinal", "ascending")])
    rows = rows.take(order).combine_chunks()
    if pc.count_distinct(rows.column("chunk_id")).as_py() != len(rows):
        raise ArchiveError(
            f"The chunks for {folder.path} contain a duplicate. Delete the folder {folder.path} if it exists, and run "
            "okralong index again."
        )
    return rows, order.to_numpy().astype(np.int64)


def _described(folder: Folder, name: str, built: bool) -> BuiltShard:
    about: dict[str, Any] = folder.read_manifest() or {}
    return BuiltShard(name, int(about["rows"]), int(about.get("over_limit", 0)), built)


# The files of one shard, and the base shard from which it takes rows.


@dataclass(frozen=True)
class PostingPiece:
    """Postings in the form of a shard's files; ``places`` has the new row of each row, or -1 for a dropped one."""

    vocabulary: Any
    pointers: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    lengths: NDArray[np.int32]
    places: NDArray[np.int64]

    @classmethod
    def of_texts(
        cls, texts: Sequence[str], places: NDArray[np.int64], languages: Sequence[str] | None = None
    ) -> PostingPiece:
        """Make the postings of new texts in their languages (default: English); text i is row i of the piece."""
        table = analyze_texts(texts, languages)
        n_rows = max(len(table.lengths), 1)
        row_of = np.repeat(np.arange(len(table.lengths), dtype=np.int64), table.lengths)
        # Sorting one integer per (term, row) gives the order of the postings and their counts in a single pass.
        pairs, counts = np.unique(table.terms * n_rows + row_of, return_counts=True)
        per_term = np.bincount(pairs // n_rows, minlength=len(table.vocabulary))
        return cls(
            vocabulary=pa.array(table.vocabulary, pa.large_string()),
            pointers=np.concatenate(([0], np.cumsum(per_term))).astype(np.int64),
            rows=(pairs % n_rows).astype(np.int32),
            frequencies=counts.astype(np.int32),
            lengths=table.lengths,
            places=places,
        )


@dataclass(frozen=True)
class MergedPostings:
    """The merged postings of all pieces, in the form of ``archive/files.py``."""

    vocabulary: pa.Array
    pointers: NDArray[np.int64]
    rows: NDArray[np.int32]
    frequencies: NDArray[np.int32]
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, pieces: Sequence[PostingPiece], n_rows: int) -> MergedPostings:
        """Merge pieces that together contain each of the ``n_rows`` new rows once."""
        words = pa.chunked_array([_flat(piece.vocabulary) for piece in pieces], pa.large_string()).unique()
        words = words.take(pc.sort_indices(words))  # sorted by UTF-8 bytes, which is the order of code points
        lengths = np.zeros(n_rows, dtype=np.int32)
        pairs, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        for piece in pieces:
            number = pc.index_in(_flat(piece.vocabulary), value_set=words).to_numpy(zero_copy_only=False)
            term = np.repeat(number.astype(np.int64), np.diff(piece.pointers))
            place = piece.places[piece.rows]
            kept = place >= 0
            # One integer per (term, row): sorting them gives the order of the postings.
            pairs.append(term[kept] * n_rows + place[kept])
            counts.append(piece.frequencies[kept])
            lengths[piece.places[piece.places >= 0]] = piece.lengths[piece.places >= 0]
        together, frequencies = np.concatenate(pairs), np.concatenate(counts)
        order = np.argsort(together)
        together = together[order]
        per_term = np.bincount(together // max(n_rows, 1), minlength=len(words))
        left = per_term > 0  # words that only removed documents have are left out
        return cls(
            vocabulary=words.filter(pa.array(left)),
            pointers=np.concatenate(([0], np.cumsum(per_term[left]))).astype(np.int64),
            rows=(together % max(n_rows, 1)).astype(np.int32),
            frequencies=frequencies[order].astype(np.int32),
            lengths=lengths,
        )

    def write(self, folder: Folder) -> None:
        """Write the postings' files into a shard's folder."""
        files.write_array(folder, files.POINTERS, self.pointers)
        files.write_array(folder, files.POSTING_ROWS, self.rows)
        files.write_array(folder, files.FREQUENCIES, self.frequencies)
        files.write_array(folder, files.LENGTHS, self.lengths)
        files.write_columns(folder, files.VOCABULARY, pa.table([self.vocabulary], schema=files.VOCABULARY_SCHEMA))


def _flat(words: Any) -> pa.Array:
    if not isinstance(words, pa.ChunkedArray):
        return words
    return pa.concat_arrays(words.chunks) if words.num_chunks else pa.array([], pa.large_string())


@dataclass(frozen=True)
class BaseShard:
    """A memory-mapped shard of the previous version, from which a new shard takes unchanged rows.

    ``ranges`` has the rows of each document, ``over_limit`` marks rows that exceed the encoder's limit, and ``counted``
    has the arrays of its postings by their names in ``PostingPiece``. The class is separate from ``Shard``, which is
    made for searching and may hold the columns in other forms.
    """

    rows: pa.Table
    ranges: dict[str, range]
    vectors: NDArray[np.float32]
    over_limit: NDArray[np.bool_]
    vocabulary: pa.Array
    counted: dict[str, Any]

    @classmethod
    def open(cls, folder: Folder) -> BaseShard:
        """Map the shard's files, after a copy if they are remote. Raises ArchiveError if they are unusable."""
        try:
            with files.mapped_here(folder) as path:
                rows = files.open_columns(path, files.ROWS, files.ROWS_SCHEMA)
                flags, embedded = ((path / name).exists() for name in (files.OVER_LIMIT, files.VECTORS))
                nothing = np.empty((len(rows), 0), dtype=np.float32)
                words = files.open_columns(path, files.VOCABULARY, files.VOCABULARY_SCHEMA).column("term")
                postings = {"pointers": files.POINTERS, "rows": files.POSTING_ROWS}
                postings |= {"frequencies": files.FREQUENCIES, "lengths": files.LENGTHS}
                return cls(
                    rows=rows,
                    ranges=files.open_ranges(path),
                    vectors=files.open_array(path, files.VECTORS) if embedded else nothing,
                    over_limit=files.open_array(path, files.OVER_LIMIT) if flags else np.zeros(len(rows), bool),
                    vocabulary=words.combine_chunks(),
                    counted={name: files.open_array(path, file) for name, file in postings.items()},
                )
        except (OSError, ValueError, pa.ArrowException) as error:
            raise ArchiveError(
                f"The index shard {folder.path} of an earlier version cannot be used: {error}. Delete that folder's "
                "version below versions/, or index into a new archive."
            ) from error

    def postings(self, places: NDArray[np.int64]) -> PostingPiece:
        """Return the shard's postings; ``places`` has the new row of each row, or -1 if it is dropped."""
        return PostingPiece(self.vocabulary, **self.counted, places=places)


def write_shard(
    folder: Folder,
    granularity: int,
    rows: pa.Table,
    matrix: NDArray[np.float32],
    dense: DenseConfig | None = None,
    over_limit: NDArray[np.bool_] | None = None,
    postings: MergedPostings | None = None,
) -> None:
    """Write the files of one shard, its manifest last.

    Args:
        folder: The shard's folder.
        granularity: Chunk size in tokens.
        rows: The chunks sorted by (doc_id, ordinal).
        matrix: Row i is the vector of row i; shape (rows, 0) for a shard with BM25 only.
        dense: Settings of the approximate index; None for no index.
        over_limit: Marks rows that exceed the encoder's limit.
        postings: The postings of the rows if they are known.
    """
    folder.remove(MANIFEST)
    over_limit = np.zeros(len(rows), dtype=np.bool_) if over_limit is None else over_limit
    if matrix.shape[1]:
        files.write_array(folder, files.VECTORS, matrix)
        files.write_array(folder, files.OVER_LIMIT, over_limit)
    approximate = None if dense is None or not matrix.shape[1] else build_approximate(matrix, dense)
    if approximate is None:
        folder.remove(files.APPROXIMATE)
    else:
        folder.write_bytes(files.APPROXIMATE, approximate.data)
    if postings is None:
        everything = PostingPiece.of_texts(rows.column("text").to_pylist(), np.arange(len(rows)))
        postings = MergedPostings.of([everything], len(rows))
    postings.write(folder)
    files.write_columns(folder, files.ROWS, rows)
    files.write_columns(folder, files.RANGES, _document_ranges(rows))
    folder.write_manifest(
        {
            "schema_version": SCHEMA_VERSION,
            "granularity": granularity,
            "rows": len(rows),
            "terms": len(postings.vocabulary),
            "dimension": matrix.shape[1],
            "over_limit": int(over_limit.sum()),
            "approximate": approximate and {"effort": approximate.effort, "recall": approximate.recall},
        }
    )


def _document_ranges(rows: pa.Table) -> pa.Table:
    if not len(rows):
        return files.RANGES_SCHEMA.empty_table()
    runs = pc.run_end_encode(rows.column("doc_id").combine_chunks())
    ends = runs.run_ends.to_numpy()
    firsts = np.concatenate(([0], ends[:-1])).astype(np.int32)
    return pa.table([runs.values, pa.array(firsts), pa.array(ends, pa.int32())], schema=files.RANGES_SCHEMA)
