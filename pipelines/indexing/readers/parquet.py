"""Parquet: one document a row, read batch by batch; only the four known columns are taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.indexing.readers.raw import Reading, Source
from okralong.pipelines.indexing.readers.rows import document_of_row

_COLUMNS: Final = ("doc_id", "text", "title", "metadata")
_ROWS_AT_ONCE: Final = 16
"""Ours: documents are long, and a batch of them stands in memory."""


def read(source: Source) -> Iterator[Reading]:
    """Each row's document. Raises DocumentError when the file is not Parquet or has no doc_id or text column."""
    with source.open() as stream:
        try:
            file = pq.ParquetFile(stream)
            names = file.schema_arrow.names
        except MemoryError:  # Arrow's is one of its own exceptions as well
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} is not a readable Parquet file ({error}). Write it again, then index again."
            ) from error
        missing = [name for name in ("doc_id", "text") if name not in names]
        if missing:
            raise DocumentError(
                f"{source.uri} has no column {' and no column '.join(missing)} (it has {', '.join(names)}). "
                "Rename the columns to doc_id and text."
            )
        columns = [name for name in _COLUMNS if name in names]
        number = 0
        try:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns):
                for row in batch.to_pylist():
                    number += 1
                    yield document_of_row(row, source.uri, number)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise DocumentError(
                f"{source.uri} breaks off after row {number} ({error}). Write the file again, then index again."
            ) from error
