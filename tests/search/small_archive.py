"""Small archives, written straight to their files, and the chunks that went into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import DenseConfig, granularity_folder, shard_of
from okralong.pipelines.archive.shard_builder import write_shard
from okralong.pipelines.core.storage import Folder
from tests.archives.written import shard_name, write_version

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
    """Write documents, shards and the manifest; vectors are those of numbers in ``precision``."""
    doc_ids = [doc_id for doc_id, texts in sorted(corpus.items()) for _ in texts]
    ordinals = [ordinal for _, texts in sorted(corpus.items()) for ordinal in range(len(texts))]
    chunk_ids = [f"{doc_id}-{GRANULARITY}-{n:05d}" for doc_id, n in zip(doc_ids, ordinals, strict=True)]
    texts = [text for _, texts in sorted(corpus.items()) for text in texts]
    vectors = unit_vectors(seed, len(texts))
    if precision == "float16":
        vectors = vectors.astype(np.float16).astype(np.float32)
    small = Small(location, doc_ids, chunk_ids, texts, vectors)
    write_shards(small, shards)
    documents = [
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
    write_version(location, documents, [GRANULARITY], {"name": MODEL, "dimension": DIMENSION}, shards)
    return small


def write_shards(small: Small, shards: int, dense: DenseConfig | None = None) -> None:
    """Write the chunks into so many shards."""
    ordinals = [int(chunk_id.rsplit("-", 1)[1]) for chunk_id in small.chunk_ids]
    rows = pa.table(
        {
            "chunk_id": small.chunk_ids,
            "doc_id": small.doc_ids,
            "ordinal": ordinals,
            "start_char": [n * 1000 for n in ordinals],
            "end_char": [n * 1000 + len(text) for n, text in zip(ordinals, small.texts, strict=True)],
            "n_tokens": [len(text.split()) for text in small.texts],
            "text": small.texts,
            "table_id": pa.nulls(len(small.texts)),
        }
    ).cast(layout.ROWS_SCHEMA)
    owners = np.array([shard_of(doc_id, shards) for doc_id in small.doc_ids])
    place = granularity_folder(Folder.of(small.location), GRANULARITY)
    for number in range(shards):
        mine = rows.filter(pa.array(owners == number)).combine_chunks()
        write_shard(place.at(shard_name(number)), GRANULARITY, mine, small.vectors[owners == number], dense)
