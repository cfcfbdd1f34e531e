"""Where the vector of a text is: sorted runs of keys beside the vector files, looked up by halving, never held whole.

A run covers a range of file numbers and is named by it, so that no list of runs is needed. New files get a run of their
own; a run that is not much smaller than the one before is merged with it, so that there are few (log n) and each key is
merged few times. Runs hold nothing that the vector files do not say: what is missing is made again.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from okralong.pipelines.archives.texts import KEY_BYTES, Keys
from okralong.pipelines.archives.vector_store import VectorStore
from okralong.pipelines.core.storage import Folder

RUN_KEYS: Final = 1_000_000
"""Keys that are sorted at a time: 24 MB. Ours."""
RUNS: Final = "runs"
RESERVED: Final = "reserved"
"""Holds an empty file named by the last number that was handed out."""
_NAME: Final = re.compile(r"run-(\d{8})-(\d{8})\.places\.npy")

Places = npt.NDArray[np.int32]
Found = npt.NDArray[np.int64]
Block = tuple[Keys, Places]


@dataclass(frozen=True, slots=True)
class _Run:
    """Of the vector files ``first`` to ``last``: sorted ``keys``, and the (file, row) of each, both mapped."""

    first: int
    last: int
    keys: Keys
    places: Places


@dataclass
class TextIndex:
    """The keys of a store's vector files. Only the archive's one writer opens it."""

    store: VectorStore
    scratch: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="okralong-texts-")
    )
    _runs: list[_Run] = field(default_factory=list)

    @classmethod
    def open(cls, store: VectorStore) -> TextIndex:
        """The runs that are there, and new ones for the files that none of them covers."""
        index = cls(store)
        numbers = index.store.numbers()
        there = (match for name in index.folder.names(".npy") if (match := _NAME.fullmatch(name)))
        for first, negated in sorted((int(match[1]), -int(match[2])) for match in there):
            if index._runs and -negated <= index._runs[-1].last:
                index._remove(first, -negated)  # a merge has taken it in
            else:
                index._runs.append(index._open(first, -negated))
        covered = {number for run in index._runs for number in range(run.first, run.last + 1)}
        new = [number for number in numbers if number not in covered]
        if new and index._runs and new[0] < index._runs[-1].last:
            # A worker of a job that was killed wrote it late. Runs must not overlap: they are all made again.
            for run in index._runs:
                index._remove(run.first, run.last)
            index._runs, new = [], numbers
        index.take_in(new)
        return index

    @property
    def folder(self) -> Folder:
        """Where the runs are."""
        return self.store.folder.at(RUNS)

    def reserve(self, count: int) -> int:
        """The first of ``count`` numbers that no vector file has or will have: a worker that outlives its job for some
        seconds must not write into a file of the next one.
        """
        marks = self.store.folder.at(RESERVED)
        held = marks.names()
        numbers = self.store.numbers()
        first = max([0, *numbers[-1:], *(run.last for run in self._runs), *map(int, held)]) + 1
        if count:
            marks.write_bytes(f"{first + count - 1:08d}", b"")
            for name in held:
                marks.remove(name)
        return first

    def find(self, keys: Keys) -> tuple[Found, Found]:
        """File and row of each key; file -1 where no vector is."""
        files = np.full(len(keys), -1, dtype=np.int64)
        rows = np.zeros(len(keys), dtype=np.int64)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run.keys, keys), len(run.keys) - 1)
            hit = (run.keys[at] == keys) & (files < 0)
            files[hit], rows[hit] = run.places[at[hit], 0], run.places[at[hit], 1]
        return files, rows

    def take_in(self, numbers: Sequence[int]) -> None:
        """Make runs of vector files that are new, in order of their numbers, and merge runs of like size."""
        waiting: list[Block] = []
        first, final = 0, max(numbers, default=0)
        for number in sorted(numbers):
            keys = self.store.keys(number)
            first = first or number
            waiting.append((keys, _places(number, len(keys))))
            if sum(len(keys) for keys, _ in waiting) >= RUN_KEYS or number == final:
                self._add(first, number, waiting)
                waiting, first = [], 0

    def _add(self, first: int, last: int, blocks: Sequence[Block]) -> None:
        self._write(first, last, sum(len(keys) for keys, _ in blocks), [_sorted(blocks)])
        while len(self._runs) > 1 and len(self._runs[-2].keys) <= 2 * len(self._runs[-1].keys):
            left, right = self._runs[-2:]
            del self._runs[-2:]
            self._write(left.first, right.last, len(left.keys) + len(right.keys), _merged(left, right))
            self._remove(left.first, left.last)
            self._remove(right.first, right.last)

    def _write(self, first: int, last: int, size: int, blocks: Iterable[Block]) -> None:
        names = _names(first, last)
        keys = _new_array(Path(self.scratch.name, names[0]), np.dtype(f"S{KEY_BYTES}"), (size,))
        places = _new_array(Path(self.scratch.name, names[1]), np.dtype(np.int32), (size, 2))
        start = 0
        for some, where in blocks:
            keys[start : start + len(some)], places[start : start + len(some)] = some, where
            start += len(some)
        keys.flush()
        places.flush()
        for name in names:
            self.folder.write_file(name, Path(self.scratch.name, name))
        self._runs.append(_Run(first, last, *(_mapped(Path(self.scratch.name, name)) for name in names)))

    def _open(self, first: int, last: int) -> _Run:
        paths = []
        for name in _names(first, last):
            path = Path(self.folder.path, name)
            if not self.folder.is_local:
                path = Path(self.scratch.name, name)
                self.folder.copy_out(name, path)
            paths.append(path)
        return _Run(first, last, *map(_mapped, paths))

    def _remove(self, first: int, last: int) -> None:
        for name in reversed(_names(first, last)):
            self.folder.remove(name)


def _names(first: int, last: int) -> tuple[str, str]:
    """The files of a run; the places are written last, so that their presence means that both are there."""
    run = f"run-{first:08d}-{last:08d}"
    return f"{run}.keys.npy", f"{run}.places.npy"


def _new_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    make: Any = np.lib.format.open_memmap
    return make(path, mode="w+", dtype=dtype, shape=shape)


def _mapped(path: Path) -> Any:
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)


def _places(number: int, rows: int) -> Places:
    return np.stack([np.full(rows, number), np.arange(rows)], axis=1).astype(np.int32)


def _sorted(blocks: Sequence[Block]) -> Block:
    keys = np.concatenate([keys for keys, _ in blocks])
    places = np.concatenate([places for _, places in blocks])
    order = np.argsort(keys, kind="stable")
    return keys[order], places[order]


def _merged(left: _Run, right: _Run) -> Iterator[Block]:
    """Two runs as one, block by block: blocks are the ranges of the keys' first byte."""
    edges = np.array([bytes([byte]) for byte in range(1, 256)], dtype=f"S{KEY_BYTES}")
    cuts = [np.concatenate(([0], np.searchsorted(run.keys, edges), [len(run.keys)])) for run in (left, right)]
    for at in range(256):
        spans = [slice(int(cut[at]), int(cut[at + 1])) for cut in cuts]
        yield _sorted([(run.keys[span], run.places[span]) for run, span in zip((left, right), spans, strict=True)])
