"""How tables are written: a few small rows plainly, since runs write many such files, everything else compressed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.pipelines.archive.vectors import VectorStore, name_of
from okralong.pipelines.core.storage import FEW_ROWS, SMALL_BYTES, Folder


@pytest.mark.parametrize(
    ("rows", "text", "compression"),
    [
        (FEW_ROWS, "short", "UNCOMPRESSED"),
        (FEW_ROWS + 1, "short", "ZSTD"),
        (2, "A report says the same again. " * (SMALL_BYTES // 40), "ZSTD"),
    ],
)
def test_what_is_small_is_written_plainly(tmp_path: Path, rows: int, text: str, compression: str) -> None:
    table = pa.table({"text": [text] * rows})
    Folder.of(tmp_path).write_table("a.parquet", table)
    column = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0)
    assert column.compression == compression
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_vectors_take_no_more_than_their_numbers(tmp_path: Path) -> None:
    rows, dimension = 3 * FEW_ROWS, 384
    values = np.random.default_rng(0).standard_normal((rows, dimension)).astype(np.float32)
    keys = [number.to_bytes(16, "big") for number in range(rows)]
    VectorStore(Folder.of(tmp_path)).write(1, keys, values, [False] * rows)
    assert (tmp_path / name_of(1)).stat().st_size < 1.02 * (values.nbytes + 16 * rows)
