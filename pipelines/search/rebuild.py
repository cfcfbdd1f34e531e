"""The shards of a version: those whose documents are as they were are taken over, the others are put together anew.

A shard is named by its documents, so an equal one is never written twice, and what a killed job has built is found. A
new one takes the rows, vectors and counted words of old documents from the shard before it, which is mapped and not
decoded, and only those of new documents from the tables.
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

from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.search import layout
from okralong.pipelines.search.base_shard import BaseShard
from okralong.pipelines.search.build import write_shard
from okralong.pipelines.search.dense_config import DenseConfig
from okralong.pipelines.search.merged_postings import MergedPostings, PostingPiece
from okralong.pipelines.search.scope import joined
from okralong.pipelines.search.sharding import shard_of

Rows = tuple[pa.RecordBatch, NDArray[np.float32], NDArray[np.bool_]]
"""Some chunks in the columns of ``layout.ROWS_SCHEMA``, their vectors, and which are over the encoder's limit."""
NewRows = Callable[[str, set[str]], Iterator[Rows]]
"""The chunks of some documents of a part."""
_VECTOR: Final = "vector"
_OVER: Final = "over_limit"


@dataclass(frozen=True, slots=True)
class Held:
    """A document as a shard holds it: the hash of its id and text, and the part that it can be read from."""

    sha256: str
    part: str


@dataclass(frozen=True)
class Base:
    """Shards to take from: their folders, in order of their numbers, and the hash of each document that they hold."""

    folders: Sequence[Folder] = ()
    documents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuiltShard:
    """A shard that is there: its folder's name, and how many chunks it has, of which so many are over the limit."""

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
    """Have every shard of ``names``, in order of their numbers, in the folder ``place``; build those that are missing.

    ``documents`` are all that the shards together hold. One shard is in memory at a time.
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
            if base.folders and len(names) % len(base.folders) == 0:  # all of a shard's documents come from one
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
    """One pass over the parts that hold new documents: each row goes to the scratch file of its shard."""
    vector = pa.list_(pa.float32(), dimension)
    schema = layout.ROWS_SCHEMA.append(pa.field(_VECTOR, vector)).append(pa.field(_OVER, pa.bool_()))
    writers: dict[int, pa.RecordBatchFileWriter] = {}
    try:
        for part, doc_ids in sorted(fresh.items()):
            for rows, values, over in new_rows(part, doc_ids):
                column = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), dimension)
                batch = pa.RecordBatch.from_arrays([*rows.columns, column, pa.array(over)], schema=schema)
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
    taken: list[tuple[BaseShard, list[range]]] = []
    for source in sources:
        shard = BaseShard.open(source)
        kept = joined(
            rows
            for doc_id, rows in shard.ranges.items()
            if doc_id in documents and documents[doc_id].sha256 == base.documents.get(doc_id)
        )
        taken.append((shard, kept))
        for rows in kept:
            tables.append(shard.rows.slice(rows.start, len(rows)))
            values.append(shard.vectors[rows.start : rows.stop])
            flags.append(shard.over_limit[rows.start : rows.stop])
    old_rows = sum(map(len, tables))
    texts: list[str] = []
    if scratch.exists():
        dealt = pa.ipc.open_file(pa.memory_map(str(scratch))).read_all()
        tables.append(dealt.select(layout.ROWS_SCHEMA.names))
        values.extend(
            batch.flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)
            for batch in dealt.column(_VECTOR).chunks
        )
        flags.append(dealt.column(_OVER).to_numpy())
        texts = dealt.column("text").to_pylist()
    rows_table, order = _ordered(tables, folder)
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    matrix = np.empty((len(order), dimension), dtype=np.float32)
    start = 0
    for block in values:
        matrix[places[start : start + len(block)]] = block
        start += len(block)
    over_limit = np.concatenate(flags)[order] if flags else np.zeros(0, dtype=np.bool_)
    pieces = [*_old_postings(taken, places), PostingPiece.of_texts(texts, places[old_rows:])]
    write_shard(folder, granularity, rows_table, matrix, dense, over_limit, MergedPostings.of(pieces, len(order)))


def _old_postings(
    taken: Sequence[tuple[BaseShard, Sequence[range]]], places: NDArray[np.int64]
) -> Iterator[PostingPiece]:
    start = 0
    for shard, kept in taken:
        mine = np.full(len(shard.rows), -1, dtype=np.int64)
        for rows in kept:
            mine[rows.start : rows.stop] = places[start : start + len(rows)]
            start += len(rows)
        if kept:
            yield shard.postings(mine)


def _ordered(tables: Sequence[pa.Table], folder: Folder) -> tuple[pa.Table, NDArray[np.int64]]:
    """The rows in order of (doc_id, ordinal), and of each its place before."""
    if not tables:
        return layout.ROWS_SCHEMA.empty_table(), np.zeros(0, dtype=np.int64)
    rows = pa.concat_tables(tables)
    order = pc.sort_indices(rows, sort_keys=[("doc_id", "ascending"), ("ordinal", "ascending")])
    rows = rows.take(order).combine_chunks()
    if pc.count_distinct(rows.column("chunk_id")).as_py() != len(rows):
        raise ArchiveError(
            f"A chunk stands more than once among those for {folder.path}. Delete the folder {folder.path} if it is "
            "there, and run okralong index again."
        )
    return rows, order.to_numpy().astype(np.int64)


def _described(folder: Folder, name: str, built: bool) -> BuiltShard:
    about: dict[str, Any] = folder.read_manifest() or {}
    return BuiltShard(name, int(about["rows"]), int(about.get("over_limit", 0)), built)
