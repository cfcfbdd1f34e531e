"""Shares of the work of embedding: for each part the texts that no part before it has and no vector file holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from okralong.pipelines.archive.vectors import KEY_BYTES, key_bytes, text_keys
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.chunk_tables import chunk_batches, chunks_folder
from okralong.pipelines.indexing.config import IndexConfig

WORK: Final = "work"
"""The folder of what a running job hands to its tasks; empty between jobs."""

_SLICES_WANTED: Final = 128
"""Vector files of a job: what a kill loses is one in the making for each encoder, a hundredth of all. Ours."""
_LEAST_SLICE: Final = 32
_MOST_SLICE: Final = 4096
"""Texts of a vector file: a large archive has no swarm of small files, and a task holds some megabytes. Ours."""


_NAME: Final = re.compile(r"[0-9a-f]{16}-\d{2,}|\..*\.partial")
"""Of a part, and of what a killed job was writing."""


@dataclass(frozen=True, slots=True)
class Share:
    """What to embed of ``part``: its keys are in ``work/part``. The texts go into vector files from number ``first``
    on, ``size`` texts each.
    """

    part: str
    first: int
    size: int


def plan_shares(
    archive: Folder, counts: Mapping[str, int], scratch: Path, reserve: Callable[[int], int]
) -> list[Share]:
    """Number the vector files as ``reserve`` has it, and hand out the keys that ``owned_texts`` left in ``scratch``."""
    size = min(max(sum(counts.values()) // _SLICES_WANTED, _LEAST_SLICE), _MOST_SLICE)
    first = reserve(sum(-(-count // size) for count in counts.values()))
    shares = []
    for part, count in counts.items():
        archive.at(WORK).write_file(part, scratch / part)
        shares.append(Share(part, first, size))
        first += -(-count // size)
    return shares


def clear_work(archive: Folder) -> None:
    """Take away what was handed out, and nothing else that may stand there."""
    folder = archive.at(WORK)
    for name in filter(_NAME.fullmatch, folder.names()):
        folder.remove(name)
    if folder.is_local and folder.is_there and not folder.names():
        folder.filesystem.delete_dir(folder.path)


def share_texts(archive: str, share: Share, config: IndexConfig) -> Iterator[dict[str, Any]]:
    """The work orders of a share, one for each vector file: its number, keys and texts."""
    folder = Folder.of(archive)
    owned = np.frombuffer(folder.at(WORK).read_bytes(share.part), dtype=f"S{KEY_BYTES}")
    todo = np.ones(len(owned), dtype=np.bool_)
    keys: list[bytes] = []
    texts: list[str] = []
    number = share.first
    for granularity in config.granularities:
        for batch in chunk_batches(chunks_folder(folder, granularity, config.boundaries), share.part):
            column = batch.column("text")
            for row in _new_rows(text_keys(column.to_pylist()), owned, todo):
                keys.extend(key_bytes(owned[row[1] : row[1] + 1]))
                texts.append(column[row[0]].as_py())
                if len(keys) == share.size:
                    yield {"number": number, "keys": keys, "texts": texts}
                    number, keys, texts = number + 1, [], []
    if keys:
        yield {"number": number, "keys": keys, "texts": texts}


def _new_rows(found: Any, owned: Any, todo: Any) -> Sequence[tuple[int, int]]:
    """(row, place in ``owned``) of the texts that are to do and were not met before; they are then no more to do."""
    places = np.minimum(np.searchsorted(owned, found), len(owned) - 1)
    rows = np.flatnonzero((owned[places] == found) & todo[places])
    _, first = np.unique(places[rows], return_index=True)
    rows = rows[np.sort(first)]
    todo[places[rows]] = False
    return list(zip(rows.tolist(), places[rows].tolist(), strict=True))
