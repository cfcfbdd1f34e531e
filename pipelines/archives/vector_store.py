"""The vectors of an archive by one encoder: files of distinct texts, numbered as they are written, never changed.

No version owns them: a vector belongs to its text. What a killed job has embedded, the next one finds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archives.catalogue import digest
from okralong.pipelines.archives.texts import KEY_BYTES, Keys
from okralong.pipelines.core.schemas import vectors as vectors_schema
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import INT8

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
            with self.folder.filesystem.open_input_file(self.folder.at(name_of(number)).path) as file:
                schema = pq.ParquetFile(file).schema_arrow
                return schema.field("vector").type.list_size, schema.metadata[_PRECISION].decode()
        return None

    def keys(self, number: int) -> Keys:
        """The keys of a file, in its order."""
        with self.folder.filesystem.open_input_file(self.folder.at(name_of(number)).path) as file:
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
        with self.folder.filesystem.open_input_file(self.folder.at(name_of(number)).path) as file:
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
