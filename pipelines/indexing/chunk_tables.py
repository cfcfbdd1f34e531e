"""The ``chunks`` table, part by part, with the keys of its texts beside it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.vectors import Keys, text_keys
from okralong.pipelines.core.schemas import CHUNKS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.chunker import chunk_document
from okralong.pipelines.indexing.ingest import part_file, read_documents
from okralong.pipelines.indexing.units import Boundaries

CHUNKS_FOLDER: Final = "chunks"
BATCH_ROWS: Final = 4096
"""Chunks held at a time while a part is gone through: about 3 MB of text. Ours."""


def chunks_folder(archive: Folder, granularity: int, at: Boundaries) -> Folder:
    """Where the chunks of one size are; those that end at words are apart."""
    return archive.at(CHUNKS_FOLDER, f"granularity={granularity}{'' if at == 'sentences' else f'-{at}'}")


def keys_file(part: str) -> str:
    """The sorted keys of a part's texts; written after its chunks, so that its presence means that both are there."""
    return f"{part}.keys.npy"


def chunk_part(archive: str, part: str, granularities: Sequence[int], at: Boundaries) -> int:
    """Chunk the documents of one part at some sizes and write them; how many chunks there are of all sizes."""
    documents = read_documents(archive, part)
    return sum(_chunk(Folder.of(archive), part, documents, granularity, at) for granularity in granularities)


def _chunk(archive: Folder, part: str, documents: Sequence[Document], granularity: int, at: Boundaries) -> int:
    chunks = [chunk for document in documents for chunk in chunk_document(document, granularity, at)]
    table = pa.Table.from_pydict(
        {name: [getattr(chunk, name) for chunk in chunks] for name in CHUNKS.names}, schema=CHUNKS
    )
    folder = chunks_folder(archive, granularity, at)
    folder.write_table(part_file(part), table)
    write_keys(folder, part, (chunk.text for chunk in chunks))
    return len(chunks)


def write_keys(folder: Folder, part: str, texts: Iterable[str]) -> None:
    """Write the sorted keys of a part's texts: the part is then complete at the size of ``folder``."""
    buffer = io.BytesIO()
    np.save(buffer, np.unique(text_keys(texts)), allow_pickle=False)
    folder.write_bytes(keys_file(part), buffer.getvalue())


def read_keys(folder: Folder, part: str) -> Keys:
    """The sorted keys of a part's texts at the size of ``folder``."""
    if folder.is_local:
        return np.asarray(np.load(Path(folder.path) / keys_file(part), allow_pickle=False))
    return np.asarray(np.load(io.BytesIO(folder.read_bytes(keys_file(part))), allow_pickle=False))


def chunk_batches(folder: Folder, part: str) -> Iterator[pa.RecordBatch]:
    """The chunks of one part: by doc_id, then in order of the text."""
    with folder.filesystem.open_input_file(folder.at(part_file(part)).path) as file:
        for batch in pq.ParquetFile(file).iter_batches(BATCH_ROWS):
            yield batch.replace_schema_metadata(None)
