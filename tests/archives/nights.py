"""Small archives night after night, with an encoder whose vectors are hashes of the texts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import granularity_folder
from okralong.pipelines.archive.shard_builder import BaseShard
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.models.weights import ResolvedModel

CONFIG = IndexConfig(granularities=[16, 32], shards=3, embedding=EmbeddingConfig(of="each"))
MODEL = ResolvedModel("", "hashes", None)
WORDS = [
    "amber",
    "basin",
    "copper",
    "delta",
    "ember",
    "fjord",
    "glacier",
    "harbour",
    "island",
    "juniper",
    "kelp",
    "lagoon",
    "marsh",
    "nickel",
    "orchard",
]


def hashed(texts: list[str]) -> npt.NDArray[np.float32]:
    """Unit vectors of eight numbers, another one for each text."""
    rows = [np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint32) for text in texts]
    values = np.array(rows, dtype=np.float64) + 1.0
    units: npt.NDArray[np.float32] = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return units


def encoder(seen: list[str] | None = None) -> Encoder:
    def encode(texts: list[str]) -> npt.NDArray[np.float32]:
        if seen is not None:
            seen.extend(texts)
        return hashed(texts)

    return Encoder(encode, MODEL, lambda: "float32", lambda texts: [len(text) > 90 for text in texts])


def night(
    place: Path | str, texts: Mapping[str, str], seen: list[str] | None = None, config: IndexConfig = CONFIG
) -> Archive:
    """Index the documents, doc_id to text, as the next version."""
    raw = [RawDocument(doc_id, text, f"{doc_id}.txt") for doc_id, text in texts.items()]
    return index_here(str(place), raw, config, encoder(seen))


def made_up(name: str, words: int = 80) -> str:
    """A text of its own for each name."""
    generator = np.random.default_rng(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
    chosen = generator.choice(WORDS, size=words)
    return " ".join(f"{word}." if at % 9 == 8 else str(word) for at, word in enumerate(chosen))


def contents(archive: Archive) -> dict[object, object]:
    """All that a reader can see of an archive: documents, chunks, vectors, postings."""
    found: dict[object, object] = {doc_id: archive.document(doc_id).text for doc_id in archive.doc_ids()}
    for size in archive.granularities:
        for number, name in enumerate(archive.manifest["files"]["index"][str(size)]):
            shard = BaseShard.open(granularity_folder(archive.folder, size).at(name))
            postings = shard.postings(np.arange(len(shard.rows)))
            arrays = (postings.pointers, postings.rows, postings.frequencies, postings.lengths, shard.over_limit)
            found[size, number] = (
                shard.rows.to_pylist(),
                shard.vectors.tolist(),
                postings.vocabulary.to_pylist(),
                [array.tolist() for array in arrays],
            )
    return found


def chunk_texts(archive: Archive, doc_id: str | None = None) -> list[str]:
    """The texts of all chunks of an archive, or of one document of it."""
    return [
        row["text"]
        for size in archive.granularities
        for name in archive.manifest["files"]["index"][str(size)]
        for row in BaseShard.open(granularity_folder(archive.folder, size).at(name)).rows.to_pylist()
        if doc_id in (None, row["doc_id"])
    ]


def words_in(place: Path) -> str:
    """Everything that stands in the tables and columns of a folder, as one string."""
    said = []
    for path in sorted(place.rglob("*")):
        if path.suffix == ".parquet":
            said.append(str(pq.ParquetFile(path).read().to_pylist()))
        elif path.suffix == ".arrow":
            said.append(str(pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()))
        elif path.is_file():
            said.append(path.read_bytes().decode("latin-1"))
    return "\n".join(said)
