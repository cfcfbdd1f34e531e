"""Store the vectors that one encoder made for an archive, in numbered, immutable files.

A vector belongs to a text, not to a version or document. So equal texts share one vector, and a job reuses what a
killed job has embedded.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.archive.files import read_columns, write_columns
from okralong.pipelines.archive.versions import digest
from okralong.pipelines.core.schemas import vectors as vectors_schema
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import INT8

KEY_BYTES: Final = 16
"""Length of a text's key, a hash of 128 bits. Among 10^10 texts, two collide with a probability of 10^-19. project
default"""

Keys = NDArray[Any]
"""Keys of texts, with the dtype ``S16``: fixed-width bytes, which sort and compare like Python's bytes."""
Vectors = NDArray[np.float32]
Places = NDArray[np.int32]

VECTORS: Final = "vectors"
TEXTS: Final = "texts.arrow"
"""The file with the keys of all vector files, see ``TextIndex``."""
RESERVED: Final = "reserved"
"""The folder with an empty file whose name is the last assigned number."""
_PRECISION: Final = b"okralong.precision"
_DECODED_BYTES: Final = 128 * 2**20
"""Bytes of decoded files kept while vectors are gathered; the chunks of a document are in few files. project default"""


def text_keys(texts: Iterable[str]) -> Keys:
    """Return the keys of some texts, in their order."""
    data = b"".join(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(data, dtype=f"S{KEY_BYTES}")


def key_bytes(keys: Keys) -> list[bytes]:
    """Return the keys as Python bytes. ``tolist`` is not used, because it drops trailing zero bytes."""
    data = np.ascontiguousarray(keys).tobytes()
    return [data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES)]


def encoder_key(
    name: str, sha256: str | None, max_seq_length: int, prefix: str | None, dtype: str, precision: str
) -> str:
    """Return the folder name of an encoder. It depends on everything that affects a text's vector, except rounding.

    ``precision`` is that of the config. Vectors computed in float32 and bfloat16 share a folder; those of int8 have
    their own.
    """
    apart = (precision,) if precision == INT8 else ()
    return f"{name.replace('/', '--')}-{digest((name, sha256, max_seq_length, prefix, dtype, *apart))[:8]}"


def name_of(number: int) -> str:
    """Return the name of a vector file."""
    return f"{number:08d}.parquet"


@dataclass
class VectorStore:
    """The vector files of one encoder, which store the vectors in ``dtype`` (float32 or float16)."""

    folder: Folder
    dtype: str = "float32"
    _decoded: OrderedDict[int, tuple[Vectors, NDArray[np.bool_]]] = field(default_factory=OrderedDict)
    _decoded_bytes: int = 0

    @classmethod
    def of(cls, archive: Folder, encoder: str, dtype: str = "float32") -> VectorStore:
        """Return the store of an encoder in an archive; it need not exist yet."""
        return cls(archive.at(VECTORS, f"encoder={encoder}"), dtype)

    def numbers(self) -> list[int]:
        """Return the numbers of the existing files, ascending."""
        return sorted(int(name.removesuffix(".parquet")) for name in self.folder.names(".parquet"))

    def write(
        self,
        number: int,
        keys: Sequence[bytes],
        values: Vectors,
        over_limit: Sequence[bool | None],
        precision: str = "float32",
    ) -> None:
        """Write file ``number``: row i of ``values``, shape (n, d), is the unit vector of the text with ``keys[i]``.

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
        """Return the dimension of the vectors and the encoder's number format; None while there are none."""
        for number in self.numbers()[-1:]:
            with self.folder.parquet(name_of(number)) as file:
                schema = file.schema_arrow
                return schema.field("vector").type.list_size, schema.metadata[_PRECISION].decode()
        return None

    def keys(self, number: int) -> Keys:
        """Return the keys of a file, in its order."""
        return _as_keys(self.folder.read_table(name_of(number), ["text_key"])["text_key"])

    def gather(self, files: Places, rows: Places) -> tuple[Vectors, NDArray[np.bool_]]:
        """Return the vectors at some files and rows, shape (n, d), and whether texts exceed the encoder's limit."""
        values: Vectors | None = None
        over = np.zeros(len(files), dtype=np.bool_)
        for number in np.unique(files).tolist():
            found, flags = self._read(number)
            if values is None:
                values = np.empty((len(files), found.shape[1]), dtype=np.float32)
            here = files == number
            values[here], over[here] = found[rows[here]], flags[rows[here]]
        return (np.empty((0, 0), dtype=np.float32) if values is None else values), over

    def _read(self, number: int) -> tuple[Vectors, NDArray[np.bool_]]:
        if number in self._decoded:
            self._decoded.move_to_end(number)
            return self._decoded[number]
        table = self.folder.read_table(name_of(number), ["vector", "over_limit"])
        column = table["vector"].combine_chunks()
        values = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
        flags = table["over_limit"].combine_chunks().fill_null(False).to_numpy(zero_copy_only=False)
        self._decoded[number] = (values.astype(np.float32), flags)
        self._decoded_bytes += self._decoded[number][0].nbytes
        while self._decoded_bytes > _DECODED_BYTES and len(self._decoded) > 1:
            _, (old, _) = self._decoded.popitem(last=False)
            self._decoded_bytes -= old.nbytes
        return self._decoded[number]


@dataclass
class TextIndex:
    """The file and row of each text's vector, by key; ``keys`` is sorted.

    It takes 24 bytes of memory per distinct text (240 MB for ten million), and three times that while new files are
    added. ``texts.arrow`` is a copy for the next job: keys that it lacks are read from the vector files, and surplus
    keys are ignored. Only the archive's single writer may open it.
    """

    store: VectorStore
    keys: Keys = field(default_factory=lambda: text_keys([]))
    files: Places = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    rows: Places = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    @classmethod
    def open(cls, store: VectorStore) -> TextIndex:
        """Return the index of all existing vector files, including those that a killed job left."""
        index = cls(store)
        numbers = store.numbers()
        if store.folder.exists(TEXTS):
            table = read_columns(store.folder, TEXTS)
            table = table.filter(pc.is_in(table["file"], pa.array(numbers, pa.int32())))
            index.keys, index.files, index.rows = _as_keys(table["key"]), *(table[name].to_numpy() for name in _PLACE)
        index.take_in(sorted(set(numbers) - set(np.unique(index.files).tolist())))
        return index

    def find(self, keys: Keys) -> tuple[Places, Places]:
        """Return the file and row of each key; the file is -1 for a text without a vector."""
        if not len(self.keys):
            return np.full(len(keys), -1, dtype=np.int32), np.zeros(len(keys), dtype=np.int32)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.files[at], -1), self.rows[at]

    def take_in(self, numbers: Sequence[int]) -> None:
        """Add new vector files, in order of their numbers."""
        if not numbers:
            return
        with ThreadPoolExecutor() as pool:
            read = list(pool.map(self.store.keys, numbers))
        files = [np.full(len(keys), number, dtype=np.int32) for number, keys in zip(numbers, read, strict=True)]
        rows = [np.arange(len(keys), dtype=np.int32) for keys in read]
        # If two files have the same text, because a worker outlived its job, the first one is used.
        self.keys, first = np.unique(np.concatenate([self.keys, *read]), return_index=True)
        self.files, self.rows = np.concatenate([self.files, *files])[first], np.concatenate([self.rows, *rows])[first]
        keys = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(KEY_BYTES), len(self.keys), [None, pa.py_buffer(self.keys)]
        )
        write_columns(self.store.folder, TEXTS, pa.table([keys, self.files, self.rows], names=["key", *_PLACE]))

    def reserve(self, count: int) -> int:
        """Reserve ``count`` consecutive numbers for new vector files, and return the first.

        No number is ever assigned twice, because a worker may outlive its job for some seconds and must not write to a
        file of the next job.
        """
        marks = self.store.folder.at(RESERVED)
        held = marks.names()
        first = max([0, *self.store.numbers()[-1:], *map(int, held)]) + 1
        if count:
            marks.write_bytes(f"{first + count - 1:08d}", b"")
            for name in held:
                marks.remove(name)
        return first


_PLACE: Final = ("file", "row")


def _as_keys(column: pa.ChunkedArray) -> Keys:
    return np.frombuffer(b"".join(_bytes_of(piece) for piece in column.chunks), dtype=f"S{KEY_BYTES}")


def _bytes_of(keys: pa.FixedSizeBinaryArray) -> bytes:
    start, size = keys.offset * KEY_BYTES, len(keys) * KEY_BYTES
    return memoryview(keys.buffers()[1])[start : start + size].tobytes() if size else b""


def owned_texts(parts: Mapping[str, Keys], index: TextIndex) -> dict[str, Keys]:
    """Return the sorted keys of texts to embed by part; parts without any are left out.

    ``parts`` has the distinct keys of each part. A text without a vector that several parts have is assigned to the
    first. The function takes some 60 bytes of memory per text in ``parts``.
    """
    if not parts:
        return {}
    owners = np.repeat(np.arange(len(parts), dtype=np.int32), [len(keys) for keys in parts.values()])
    # ``unique`` returns the first of equal keys, which is that of the first part, because the parts are in order.
    keys, first = np.unique(np.concatenate(list(parts.values())), return_index=True)
    missing = index.find(keys)[0] < 0
    keys, owners = keys[missing], owners[first[missing]]
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=len(parts)))
    pieces = np.split(keys[order], ends[:-1])
    return {part: piece for part, piece in zip(parts, pieces, strict=True) if len(piece)}


def drop_unused_vectors(store: VectorStore, used: Iterable[Keys], *, every_row: bool, dry_run: bool) -> list[str]:
    """Delete the vector files that have no used texts, and return their names.

    ``used`` has keys in any order, possibly repeated. With ``every_row``, files with some unused texts are rewritten
    without them. The caller must hold the archive's lock. Takes one bit of memory per vector.
    """
    index = TextIndex.open(store)
    needed = {number: np.zeros(0, dtype=np.bool_) for number in store.numbers()}
    for keys in used:
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
        store.folder.remove(TEXTS)  # it has the keys of deleted texts; the next job rebuilds it
        next_number = index.reserve(len(partly))
        for at, number in enumerate(partly):
            _copy_rows(store, number, needed[number], next_number + at)
        for number in (*gone, *partly):
            store.folder.remove(name_of(number))
    return [name_of(number) for number in sorted((*gone, *partly))]


def _copy_rows(store: VectorStore, number: int, bits: NDArray[np.bool_], target: int) -> None:
    table = store.folder.read_table(name_of(number))
    kept = np.concatenate([bits, np.zeros(len(table) - len(bits), dtype=np.bool_)])
    store.folder.write_table(name_of(target), table.filter(pa.array(kept)))
