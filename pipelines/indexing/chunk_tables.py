"""The ``chunks`` and ``embeddings`` tables, part by part: what is written, and what the encoder is handed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from okralong.pipelines.indexing.chunker import chunk_document
from okralong.pipelines.indexing.ingest import part_name, read_documents
from okralong.pipelines.indexing.units import Boundaries
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import CHUNKS, embeddings


def chunk_part(archive: str, part: int, granularity: int, at: Boundaries) -> pa.Table:
    """Chunk the documents of one part, write them, and return the rows: by doc_id, then in order of the text."""
    chunks = [chunk for doc in read_documents(archive, part) for chunk in chunk_document(doc, granularity, at)]
    table = pa.Table.from_pydict(
        {name: [getattr(chunk, name) for chunk in chunks] for name in CHUNKS.names}, schema=CHUNKS
    )
    Folder.of(archive).at("chunks", f"granularity={granularity}").write_table(part_name(part), table)
    return table


def embeddings_folder(archive: Folder, granularity: int, model: str) -> Folder:
    """Where the vectors of ``granularity`` by ``model`` are; a slash in a hub name is written ``--``."""
    return archive.at("embeddings", f"granularity={granularity}", f"model={model.replace('/', '--')}")


def write_vectors(
    folder: Folder,
    part: int,
    chunk_ids: Sequence[str],
    doc_ids: Sequence[str],
    vectors: npt.NDArray[np.float32],
    dtype: str,
) -> None:
    """Write one part of ``embeddings`` as ``dtype``; row i of ``vectors`` (n, d) is that of ``chunk_ids[i]``."""
    schema = embeddings(vectors.shape[1], dtype)
    values = pa.array(vectors.astype(dtype).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])
    folder.write_table(
        part_name(part),
        pa.Table.from_arrays([pa.array(chunk_ids, pa.string()), pa.array(doc_ids, pa.string()), column], schema=schema),
    )
