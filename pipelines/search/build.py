"""Writing the files of one shard."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.search import layout
from okralong.pipelines.search.approximate import build_approximate
from okralong.pipelines.search.dense_config import DenseConfig
from okralong.pipelines.search.merged_postings import MergedPostings, PostingPiece


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
