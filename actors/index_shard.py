"""The actor that hosts one shard number of an archive, at all granularities, and the client that speaks to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray

from okralong.actors.ledger import plain_errors
from okralong.pipelines.search.archive import Archive
from okralong.pipelines.search.bm25 import ScopeStatistics
from okralong.pipelines.search.shard import Vector
from okralong.pipelines.values import Chunk, Hit

THREADS: Final = 4
"""Calls that an actor serves at once: numpy and FAISS let go of the interpreter while they work (ours)."""


class IndexShard:
    """Shard ``number`` of the archive at ``location``, which every node must be able to read.

    The methods are those of ``Shard`` after the granularity. Raises ArchiveError at the start, not at the first
    question, when a shard cannot be opened.
    """

    def __init__(self, location: str, number: int) -> None:
        archive = Archive.open(location)
        self._shards = {granularity: archive.shard(granularity, number) for granularity in archive.granularities}

    def ready(self) -> int:
        """The number of chunks hosted, over all granularities."""
        return sum(shard.n_chunks for shard in self._shards.values())

    def statistics(self, granularity: int, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``."""
        return self._shards[granularity].statistics(terms, doc_ids)

    def exact(
        self,
        granularity: int,
        terms: Sequence[str],
        doc_ids: Sequence[str] | None,
        statistics: ScopeStatistics | None,
        k: int,
    ) -> list[Hit]:
        """See ``Shard.exact``."""
        return self._shards[granularity].exact(terms, doc_ids, statistics, k)

    def semantic(self, granularity: int, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """See ``Shard.semantic``."""
        return self._shards[granularity].semantic(vector, doc_ids, k)

    def vectors_of(self, granularity: int, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.vectors_of``."""
        return self._shards[granularity].vectors_of(chunks)


def start_index_shards(location: str, names: Sequence[str | None], **options: Any) -> list[Any]:
    """Start an actor for each shard number, under its name (None: without one); returns their handles in order.

    ``options`` are Ray's actor options.
    """
    actor = ray.remote(IndexShard)
    options = {"num_cpus": 0, "max_concurrency": THREADS, **options}
    return [actor.options(name=name, **options).remote(location, number) for number, name in enumerate(names)]


@dataclass(frozen=True, slots=True)
class RayShard:
    """One granularity of an ``IndexShard`` actor, as ``search`` takes it."""

    handle: Any
    granularity: int

    async def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``."""
        found: ScopeStatistics = await plain_errors(self.handle.statistics.remote(self.granularity, terms, doc_ids))
        return found

    async def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """See ``Shard.exact``."""
        hits: list[Hit] = await plain_errors(self.handle.exact.remote(self.granularity, terms, doc_ids, statistics, k))
        return hits

    async def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """See ``Shard.semantic``."""
        hits: list[Hit] = await plain_errors(self.handle.semantic.remote(self.granularity, vector, doc_ids, k))
        return hits

    async def vectors_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.vectors_of``."""
        # Without the texts: a vector is found by its document and its ordinal.
        named = [replace(chunk, text="") for chunk in chunks]
        vectors: NDArray[np.float32] = await plain_errors(self.handle.vectors_of.remote(self.granularity, named))
        return vectors
