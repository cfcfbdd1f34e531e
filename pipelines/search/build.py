"""Building the shards of one granularity from the tables ``chunks`` and ``embeddings``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.errors import ArchiveError
from okralong.pipelines.search import layout
from okralong.pipelines.search.approximate import build_approximate
from okralong.pipelines.search.dense_config import DenseConfig
from okralong.pipelines.search.merged_postings import MergedPostings, PostingPiece
from okralong.pipelines.search.partition import partition, partitioned
from okralong.pipelines.storage import MANIFEST, Folder
from okralong.pipelines.tables import SCHEMA_VERSION


def build_shards(archive: Folder, granularity: int, model: str, shards: int, dense: DenseConfig | None = None) -> None:
    """Write ``index/granularity=N/shard-00000`` and so on; shards from an earlier build are replaced.

    ``model`` is the dense model's name; a slash in it is written ``--`` in the folder's name. ``dense`` says which
    shards get an approximate index beside their vectors (None: none). One shard is in memory at
    a time; the rows of the others wait in the system's temporary folder, which must have room for the vectors of one
    granularity. Vectors of chunks that are no longer there are passed over. Raises ArchiveError when a chunk has no
    vector of ``model``, or when a chunk_id stands twice.
    """
    chunks = archive.at("chunks", f"granularity={granularity}")
    vectors = archive.at("embeddings", f"granularity={granularity}", f"model={model.replace('/', '--')}")
    with tempfile.TemporaryDirectory(prefix="okralong-index-") as scratch:
        chunk_parts, vector_parts = Path(scratch, "chunks"), Path(scratch, "vectors")
        chunk_parts.mkdir()
        vector_parts.mkdir()
        partition(chunks, layout.ROWS_SCHEMA.names, shards, chunk_parts)
        partition(vectors, ("chunk_id", "doc_id", "vector"), shards, vector_parts)
        for number in range(shards):
            rows = _ordered(partitioned(chunk_parts, number), chunks)
            matrix = _aligned(partitioned(vector_parts, number), rows, vectors)
            write_shard(layout.shard_folder(archive, granularity, number), granularity, rows, matrix, dense)
    _remove_beyond(layout.granularity_folder(archive, granularity), shards)


def _ordered(part: pa.Table | None, source: Folder) -> pa.Table:
    rows = layout.ROWS_SCHEMA.empty_table() if part is None else part.cast(layout.ROWS_SCHEMA)
    rows = rows.sort_by([("doc_id", "ascending"), ("ordinal", "ascending")]).combine_chunks()
    if pc.count_distinct(rows.column("chunk_id")).as_py() != len(rows):
        counts = rows.column("chunk_id").value_counts()
        twice = next(entry["values"] for entry in counts.to_pylist() if entry["counts"] > 1)
        raise ArchiveError(
            f"The chunk {twice} stands more than once in {source.path}. Two files hold the same document: delete "
            "the folder and run okralong index again."
        )
    return rows


def _aligned(part: pa.Table | None, rows: pa.Table, source: Folder) -> NDArray[np.float32]:
    """The vectors in the order of ``rows``, filled batch by batch so that no second copy is made."""
    chunk_ids = rows.column("chunk_id").combine_chunks()
    dimension = 0 if part is None else part.schema.field("vector").type.list_size
    matrix = np.empty((len(rows), dimension), dtype=np.float32)
    filled = np.zeros(len(rows), dtype=np.bool_)
    if part is not None:
        places = pc.index_in(part.column("chunk_id").cast(pa.large_string()), value_set=chunk_ids)
        places = pc.fill_null(places, -1).to_numpy()
        start = 0
        for batch in part.column("vector").chunks:
            block = batch.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)
            target = places[start : start + len(batch)]
            matrix[target[target >= 0]] = block[target >= 0]
            filled[target[target >= 0]] = True
            start += len(batch)
    if not filled.all():
        first = chunk_ids[int(np.argmin(filled))].as_py()
        raise ArchiveError(
            f"{int((~filled).sum())} chunks have no vector in {source.path}, the first of them is {first}. "
            "Run okralong index again: it embeds what is missing."
        )
    return matrix


def write_shard(
    folder: Folder,
    granularity: int,
    rows: pa.Table,
    matrix: NDArray[np.float32],
    dense: DenseConfig | None = None,
    over_limit: NDArray[np.bool_] | None = None,
    postings: MergedPostings | None = None,
) -> None:
    """Write the files of one shard, its manifest last. ``rows`` are in order of (doc_id, ordinal), row i of ``matrix``
    is the vector of row i. ``dense`` says whether it gets an approximate index beside its vectors (None: it does not),
    ``over_limit`` of which rows the encoder does not see the end. ``postings`` are those of the rows where they are
    known.
    """
    folder.remove(MANIFEST)
    over_limit = np.zeros(len(rows), dtype=np.bool_) if over_limit is None else over_limit
    layout.write_array(folder, layout.VECTORS, matrix)
    layout.write_array(folder, layout.OVER_LIMIT, over_limit)
    approximate = None if dense is None else build_approximate(matrix, dense)
    if approximate is None:
        folder.remove(layout.APPROXIMATE)
    else:
        folder.write_bytes(layout.APPROXIMATE, approximate.data)
    if postings is None:
        everything = PostingPiece.of_texts(rows.column("text").to_pylist(), np.arange(len(rows)))
        postings = MergedPostings.of([everything], len(rows))
    postings.write(folder)
    layout.write_columns(folder, layout.ROWS, rows)
    layout.write_columns(folder, layout.RANGES, _document_ranges(rows))
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
        return layout.RANGES_SCHEMA.empty_table()
    runs = pc.run_end_encode(rows.column("doc_id").combine_chunks())
    ends = runs.run_ends.to_numpy()
    firsts = np.concatenate(([0], ends[:-1])).astype(np.int32)
    return pa.table([runs.values, pa.array(firsts), pa.array(ends, pa.int32())], schema=layout.RANGES_SCHEMA)


def _remove_beyond(folder: Folder, shards: int) -> None:
    kept = {f"shard-{number:05d}" for number in range(shards)}
    for name in folder.names():
        if name.startswith("shard-") and name not in kept:
            folder.filesystem.delete_dir(folder.at(name).path)
