"""The key under which the vector of a chunk's text is kept: the same text has one vector, wherever it stands."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from okralong.pipelines.archive.versions import digest
from okralong.pipelines.core.schemas import vectors as vectors_schema
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import INT8

KEY_BYTES: Final = 16
"""A hash of 128 bits: among 10^10 texts two share a key with a probability of 10^-19. Ours."""

Keys = NDArray[Any]
"""Of numpy's dtype ``S16``: fixed-width bytes, which sort and compare as bytes do."""


def text_keys(texts: Iterable[str]) -> Keys:
    """The keys of some texts, in their order."""
    data = b"".join(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(data, dtype=f"S{KEY_BYTES}")


def key_bytes(keys: Keys) -> list[bytes]:
    """The keys as Python has them; numpy's own way drops zero bytes at the end."""
    data = np.ascontiguousarray(keys).tobytes()
    return [data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES)]


# --------
# The vectors of an archive by one encoder: files of distinct texts, numbered as they are written, never changed.
#
# No version owns them: a vector belongs to its text. What a killed job has embedded, the next one finds.

VECTORS: Final = "vectors"
_PRECISION: Final = b"okralong.precision"
_DECODED_BYTES: Final = 128 * 2**20
"""Files kept decoded while vectors are gathered; neighbours in a document lie in few files. Ours."""

Vectors = npt.NDArray[np.float32]


def encoder_key(
    name: str, sha256: str | None, max_seq_length: int, prefix: str | None, dtype: str, precision: str
) -> str:
    """The folder name of an encoder: everything that decides a text's vector, but for how its numbers are rounded.

    ``precision`` is the config's: float32 and bfloat16 give vectors that may stand side by side, int8 does not.
    """
    apart = (precision,) if precision == INT8 else ()
    return f"{name.replace('/', '--')}-{digest((name, sha256, max_seq_length, prefix, dtype, *apart))[:8]}"


@dataclass
class VectorStore:
    """The vector files of one encoder. ``dtype`` is float32 or float16."""

    folder: Folder
    dtype: str = "float32"
    _decoded: OrderedDict[int, tuple[Vectors, npt.NDArray[np.bool_]]] = field(default_factory=OrderedDict)
    _held: int = 0

    @classmethod
    def of(cls, archive: Folder, encoder: str, dtype: str = "float32") -> VectorStore:
        """The store of an archive's encoder, which need not be there yet."""
        return cls(archive.at(VECTORS, f"encoder={encoder}"), dtype)

    def numbers(self) -> list[int]:
        """The files that are there, rising."""
        return sorted(int(name.removesuffix(".parquet")) for name in self.folder.names(".parquet"))

    def write(
        self,
        number: int,
        keys: Sequence[bytes],
        values: Vectors,
        over_limit: Sequence[bool | None],
        precision: str = "float32",
    ) -> None:
        """Write file ``number``: row i of ``values`` (n, d) is the unit vector of the text of ``keys[i]``.

        ``precision`` is the number format that the encoder ran in.
        """
        schema = vectors_schema(values.shape[1], self.dtype)
        schema = schema.with_metadata({**schema.metadata, _PRECISION: precision.encode()})
        flat = pa.array(values.astype(self.dtype).reshape(-1))
        columns = [
            pa.array(keys, pa.binary(KEY_BYTES)),
            pa.FixedSizeListArray.from_arrays(flat, values.shape[1]),
            pa.array(over_limit, pa.bool_()),
        ]
        self.folder.write_table(name_of(number), pa.Table.from_arrays(columns, schema=schema))

    def about(self) -> tuple[int, str] | None:
        """The dimension of the vectors and the number format that the encoder ran in; None while there are none."""
        for number in self.numbers()[-1:]:
            with self.folder.open(name_of(number)) as file:
                schema = pq.ParquetFile(file).schema_arrow
                return schema.field("vector").type.list_size, schema.metadata[_PRECISION].decode()
        return None

    def keys(self, number: int) -> Keys:
        """The keys of a file, in its order."""
        with self.folder.open(name_of(number)) as file:
            column = pq.ParquetFile(file).read(columns=["text_key"])["text_key"].combine_chunks()
        return np.frombuffer(b"".join(column.to_pylist()), dtype=f"S{KEY_BYTES}")

    def gather(
        self, files: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
    ) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """The vectors at some places, shape (n, d), float32, and whether their texts are over the limit."""
        values: Vectors | None = None
        over = np.zeros(len(files), dtype=np.bool_)
        for number in np.unique(files).tolist():
            found, flags = self._read(number)
            if values is None:
                values = np.empty((len(files), found.shape[1]), dtype=np.float32)
            here = files == number
            values[here], over[here] = found[rows[here]], flags[rows[here]]
        return (np.empty((0, 0), dtype=np.float32) if values is None else values), over

    def _read(self, number: int) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        if number in self._decoded:
            self._decoded.move_to_end(number)
            return self._decoded[number]
        with self.folder.open(name_of(number)) as file:
            table = pq.ParquetFile(file).read(columns=["vector", "over_limit"])
        column = table["vector"].combine_chunks()
        values = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
        flags = table["over_limit"].combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
        self._decoded[number] = (values.astype(np.float32), flags)
        self._held += self._decoded[number][0].nbytes
        while self._held > _DECODED_BYTES and len(self._decoded) > 1:
            _, (old, _) = self._decoded.popitem(last=False)
            self._held -= old.nbytes
        return self._decoded[number]


def name_of(number: int) -> str:
    """The name of a vector file."""
    return f"{number:08d}.parquet"


# --------
# Where the vector of a text is: sorted runs of keys beside the vector files, looked up by halving, never held whole.
#
# A run covers a range of file numbers and is named by it, so that no list of runs is needed. New files get a run of
# their own; a run that is not much smaller than the one before is merged with it, so that there are few (log n) and
# each key is merged few times. Runs hold nothing that the vector files do not say: what is missing is made again.

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


# --------
# Which vectors the texts of some parts still need, and taking the others away.


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
    with folder.open(name_of(number)) as file:
        table = pq.ParquetFile(file).read()
    kept = np.concatenate([bits, np.zeros(len(table) - len(bits), dtype=np.bool_)])
    folder.write_table(name_of(target), table.filter(pa.array(kept)))


# --------
# Which texts of some parts have no vector yet, and which part embeds each: every distinct text stands in one place.
#
# The keys of all parts are gone through in ranges of their first byte, so that a two-hundredth of them is in memory at
# a time. Each part's share waits in a local file.

_EDGES = np.array([bytes([byte]) for byte in range(1, 256)], dtype=f"S{KEY_BYTES}")


def owned_texts(parts: Mapping[str, Keys], index: TextIndex, scratch: Path) -> dict[str, int]:
    """For each part that has something to embed, how many texts; their keys are in ``scratch/PART``, sorted.

    ``parts`` has the sorted keys of each part, mapped files where they are many. A text that several parts have is the
    first one's.
    """
    names = list(parts)
    cuts = [np.searchsorted(keys, _EDGES).astype(np.int32) for keys in parts.values()]
    counts = dict.fromkeys(names, 0)
    for block in range(256):
        pieces = [
            keys[cut[block - 1] if block else 0 : cut[block] if block < 255 else None]
            for keys, cut in zip(parts.values(), cuts, strict=True)
        ]
        if not any(map(len, pieces)):
            continue
        owners = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        # The first of equal keys is the first part's: unique keeps the first one, and parts stand in order.
        keys, first = np.unique(np.concatenate(pieces), return_index=True)
        owners = owners[first]
        missing = index.find(keys)[0] < 0
        keys, owners = keys[missing], owners[missing]
        for number in np.unique(owners).tolist():
            mine = keys[owners == number]
            with (scratch / names[number]).open("ab") as out:
                out.write(mine.tobytes())
            counts[names[number]] += len(mine)
    return {name: count for name, count in counts.items() if count}
