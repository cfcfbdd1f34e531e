"""Which vectors the texts of some parts still need, and taking the others away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archives.text_index import RUNS, TextIndex
from okralong.pipelines.archives.texts import Keys
from okralong.pipelines.archives.vector_store import VectorStore, name_of


def drop_dead_vectors(store: VectorStore, live: Iterable[Keys], *, every_row: bool, dry_run: bool) -> list[str]:
    """Delete the vector files of a store that hold no live text; with ``every_row`` write those that hold some anew,
    without the rest. The names of the files that go. ``live`` are keys, in any order and as often as one likes.

    Only the holder of the archive's lock may call it. The bits that are held are one for each vector.
    """
    index = TextIndex.open(store)
    needed = {number: np.zeros(0, dtype=np.bool_) for number in store.numbers()}
    for keys in live:
        files, rows = index.find(keys)
        for number in np.unique(files[files > 0]).tolist():
            mine = rows[files == number]
            bits = needed[number]
            if len(bits) <= int(mine.max()):
                bits = np.concatenate([bits, np.zeros(int(mine.max()) + 1 - len(bits), dtype=np.bool_)])
            bits[mine] = True
            needed[number] = bits
    gone = [number for number, bits in needed.items() if not bits.any()]
    partly = [number for number, bits in needed.items() if bits.any()] if every_row else []
    partly = [number for number in partly if int(needed[number].sum()) < len(store.keys(number))]
    if (gone or partly) and not dry_run:
        # The runs name places that will not be there: they go first, and the next job makes them again.
        runs = store.folder.at(RUNS)
        for name in runs.names(".npy"):
            runs.remove(name)
        next_number = index.reserve(len(partly))
        for at, number in enumerate(partly):
            _copy_rows(store, number, needed[number], next_number + at)
        for number in (*gone, *partly):
            store.folder.remove(name_of(number))
    return [name_of(number) for number in sorted((*gone, *partly))]


def _copy_rows(store: VectorStore, number: int, bits: Any, target: int) -> None:
    folder = store.folder
    with folder.filesystem.open_input_file(folder.at(name_of(number)).path) as file:
        table = pq.ParquetFile(file).read()
    kept = np.concatenate([bits, np.zeros(len(table) - len(bits), dtype=np.bool_)])
    folder.write_table(name_of(target), table.filter(pa.array(kept)))
