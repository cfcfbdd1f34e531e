"""The evidence bench over an archive whose chunks have other vectors: all else, BM25 among it, stays as it is.

A vector may depend on where a chunk stands, so vectors are given by chunk, not by text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.embedding.window_pooling import WindowEncoder
from okralong.lab.datasets.encoder import CachedEncoder
from okralong.lab.evidence.bench import Bench, Retrievals
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.core.types import Chunk

Vectors = NDArray[np.float32]

VectorsOf = Callable[[Sequence[Chunk]], Vectors]
"""The vectors of some chunks, in their order."""


@dataclass
class OtherVectors(Archive):
    """An archive with shards of its own."""

    shards: Mapping[tuple[int, int], Shard] = field(default_factory=dict)

    def shard(self, granularity: int, number: int) -> Shard:
        """See ``Archive``."""
        return self.shards[granularity, number]


def with_vectors(bench: Bench, queries: CachedEncoder, vectors_of: VectorsOf) -> Bench:
    """The same bench with all chunks embedded by ``vectors_of``, of all sizes at once, and questions by ``queries``."""
    archive = bench.retrievals.archive
    numbers = [(size, number) for size in archive.granularities for number in range(archive.n_shards)]
    plain = {key: archive.shard(*key) for key in numbers}
    chunks = {key: shard.chunks(range(shard.n_chunks)) for key, shard in plain.items()}
    found = vectors_of([chunk for of_shard in chunks.values() for chunk in of_shard])
    ends = np.cumsum([len(of_shard) for of_shard in chunks.values()])
    parts = dict(zip(chunks, np.split(found, ends[:-1]), strict=True))
    shards = {
        key: Shard(shard.granularity, parts[key], shard.postings, shard.rows, shard.ranges)
        for key, shard in plain.items()
    }
    other = OtherVectors(archive.location, archive.folder, archive.manifest, shards=shards)
    return replace(bench, retrievals=Retrievals(other, queries))


def by_text(encoder: CachedEncoder) -> VectorsOf:
    """Each chunk embedded by itself."""
    return lambda chunks: encoder.encode([chunk.text for chunk in chunks])


def by_window(encoder: WindowEncoder, texts: Mapping[str, str]) -> VectorsOf:
    """Chunks of all sizes pooled from one pass over their documents, whose texts are ``texts`` by doc_id."""

    def vectors_of(chunks: Sequence[Chunk]) -> Vectors:
        places: dict[str, list[int]] = {}
        for place, chunk in enumerate(chunks):
            places.setdefault(chunk.doc_id, []).append(place)
        pooled = [
            encoder.embed(texts[doc_id], [(chunks[place].start_char, chunks[place].end_char) for place in own])
            for doc_id, own in places.items()
        ]
        order = [place for own in places.values() for place in own]
        vectors: Vectors = np.concatenate(pooled)[np.argsort(order)]
        return vectors

    return vectors_of
