"""Small archives, in the first layout, written straight to their tables, and the chunks that went into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core import schemas as tables
from okralong.pipelines.core.storage import Folder
from tests.search.first_layout import build_shards, embeddings_folder, embeddings_schema

MODEL = "hub/test-encoder"
DIMENSION = 16
GRANULARITY = 150
_SENTENCE = (
    "revenue segment margin the of and cash flow flows company companies growing growth auditor board risk 2023 2024 "
    "goodwill impairment lease leases pension loss losses tax taxation dividend shares buyback café naïve"
)
WORDS = _SENTENCE.split()


@dataclass(frozen=True)
class Small:
    """An archive with the chunks (doc_id, chunk_id, text, vector) that it was made of, in order of its rows."""

    location: Path
    doc_ids: list[str]
    chunk_ids: list[str]
    texts: list[str]
    vectors: NDArray[np.float32]

    def inside(self, scope: Sequence[str]) -> list[int]:
        """Positions of the chunks of a scope; an empty scope is everything."""
        return [i for i, doc_id in enumerate(self.doc_ids) if not scope or doc_id in scope]

    def open(self) -> Archive:
        return Archive.open(self.location)


def random_corpus(seed: int, documents: int, chunks: int) -> dict[str, list[str]]:
    """Documents of up to ``chunks`` chunks of up to 30 words; some chunks are alike, some hold stop words only."""
    generator = np.random.default_rng(seed)
    corpus = {}
    for number in range(documents):
        count = int(generator.integers(1, chunks + 1))
        sizes = generator.integers(1, 31, size=count)
        corpus[f"report-{number:03d}"] = [" ".join(generator.choice(WORDS, size=size)) for size in sizes]
    corpus["report-000"] += [corpus["report-000"][0], "the of and"]
    return corpus


def unit_vectors(seed: int, count: int) -> NDArray[np.float32]:
    vectors = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    units: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def write_archive(
    location: Path, corpus: Mapping[str, Sequence[str]], shards: int = 1, seed: int = 0, precision: str = "float32"
) -> Small:
    """Write documents, chunks and embeddings (rows shuffled, in two files), build the shards and the manifest."""
    archive = Folder.of(location)
    doc_ids = [doc_id for doc_id, texts in sorted(corpus.items()) for _ in texts]
    ordinals = [ordinal for _, texts in sorted(corpus.items()) for ordinal in range(len(texts))]
    chunk_ids = [f"{doc_id}-{GRANULARITY}-{n:05d}" for doc_id, n in zip(doc_ids, ordinals, strict=True)]
    texts = [text for _, texts in sorted(corpus.items()) for text in texts]
    vectors = unit_vectors(seed, len(texts))
    if precision == "float16":
        vectors = vectors.astype(np.float16).astype(np.float32)
    chunks = pa.table(
        {
            "chunk_id": chunk_ids,
            "doc_id": doc_ids,
            "ordinal": pa.array(ordinals, pa.int32()),
            "start_char": [n * 1000 for n in ordinals],
            "end_char": [n * 1000 + len(text) for n, text in zip(ordinals, texts, strict=True)],
            "n_tokens": pa.array([len(text.split()) for text in texts], pa.int32()),
            "text": texts,
            "table_id": pa.array([None] * len(texts), pa.string()),
        }
    ).cast(tables.CHUNKS)
    schema = embeddings_schema(DIMENSION, precision)
    value = schema.field("vector").type.value_type
    flat = pa.array(vectors.ravel().astype(value.to_pandas_dtype()))
    embeddings = pa.table(
        [pa.array(chunk_ids), pa.array(doc_ids), pa.FixedSizeListArray.from_arrays(flat, DIMENSION)], schema=schema
    )
    order = np.random.default_rng(seed + 1).permutation(len(texts))
    half = len(order) // 2
    chunk_folder = archive.at("chunks", f"granularity={GRANULARITY}")
    vector_folder = embeddings_folder(archive, GRANULARITY, MODEL)
    for number, part in enumerate((order[:half], order[half:])):
        chunk_folder.write_table(f"part-{number}.parquet", chunks.take(pa.array(part)))
        vector_folder.write_table(f"part-{number}.parquet", embeddings.take(pa.array(part[::-1])))
    write_documents(archive, corpus)
    build_shards(archive, GRANULARITY, MODEL, shards)
    write_manifest(archive, shards, len(corpus))
    return Small(location, doc_ids, chunk_ids, texts, vectors)


def write_documents(archive: Folder, corpus: Mapping[str, Sequence[str]]) -> None:
    rows = [
        {
            "doc_id": doc_id,
            "source_uri": f"{doc_id}.txt",
            "sha256": "",
            "title": doc_id.title(),
            "n_chars": len(" ".join(texts)),
            "n_tokens": len(" ".join(texts).split()),
            "text": " ".join(texts),
            "tables": [{"table_id": "t0", "start_char": 0, "end_char": 3}],
            "metadata": [("year", "2024")],
        }
        for doc_id, texts in corpus.items()
    ]
    archive.at("documents").write_table("part-0.parquet", pa.Table.from_pylist(rows, schema=tables.DOCUMENTS))


def write_manifest(archive: Folder, shards: int, documents: int) -> None:
    archive.write_manifest(
        {
            "schema_version": tables.SCHEMA_VERSION,
            "granularities": [GRANULARITY],
            "embedding": {"name": MODEL, "dimension": DIMENSION},
            "shards": shards,
            "counts": {"documents": documents},
        }
    )
