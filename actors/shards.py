"""The actors that host one shard number of an archive, at all granularities, and the client that speaks to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import RayActorError

from okralong.actors.llm import plain_errors
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.bm25 import ScopeStatistics
from okralong.pipelines.archive.search import Spread
from okralong.pipelines.archive.shard import Vector
from okralong.pipelines.core.types import Candidates, Chunk, Hit

THREADS: Final = 4
"""Calls that an actor serves at once: numpy and FAISS let go of the interpreter while they work (ours)."""


class IndexShard:
    """Shard ``number`` of the archive at ``location``, which every node must be able to read.

    The methods are those of ``Shard`` after the granularity. With ``on_gpu`` the vectors are on a GPU too. Raises
    ArchiveError at the start, not at the first question, when a shard cannot be opened, and ConfigError when there is
    no GPU for it.
    """

    def __init__(self, location: str, number: int, on_gpu: bool = False) -> None:
        archive = Archive.open(location)
        found = {granularity: archive.shard(granularity, number) for granularity in archive.granularities}
        self._shards = {size: shard.on_a_gpu() if on_gpu else shard for size, shard in found.items()}

    def ready(self) -> int:
        """The number of chunks hosted, over all granularities."""
        return sum(shard.n_chunks for shard in self._shards.values())

    def statistics(self, granularity: int, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``."""
        return self._shards[granularity].statistics(terms, doc_ids)

    def candidates(
        self, granularity: int, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """See ``Shard.candidates``."""
        return self._shards[granularity].candidates(terms, vector, doc_ids, k)

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

    def compressed_of(self, granularity: int, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.compressed_of``."""
        return self._shards[granularity].compressed_of(chunks)


def start_index_shards(
    location: str, names: Sequence[Sequence[str | None]], gpus: float = 0.0, **options: Any
) -> list[list[Any]]:
    """Start the actors of each shard number, one under each of its names (None: without one); their handles in order.

    Each holds ``gpus`` of a GPU. ``options`` are Ray's actor options.
    """
    actor = ray.remote(IndexShard)
    options = {"num_cpus": 0, "num_gpus": gpus, "max_concurrency": THREADS, **options}
    return [
        [actor.options(name=name, **options).remote(location, number, gpus > 0) for name in of_one]
        for number, of_one in enumerate(names)
    ]


class Replicas:
    """The actors that hold one shard number. A call goes to the one with the fewest of this process's calls under way.

    One that dies takes no call with it that another can answer.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = list(handles)
        self._spread = Spread(len(self._handles))

    async def ask(self, method: str, *arguments: Any) -> Any:
        """What ``method`` of ``IndexShard`` returns or raises; RayActorError when no actor is left."""
        gone: frozenset[int] = frozenset()
        while True:
            place = self._spread.take(gone)
            try:
                return await plain_errors(getattr(self._handles[place], method).remote(*arguments))
            except RayActorError:
                gone |= {place}
                if len(gone) == len(self._handles):
                    raise
            finally:
                self._spread.done(place)


@dataclass(frozen=True, slots=True)
class RayShard:
    """One granularity of a shard number, as ``search`` takes it."""

    replicas: Replicas
    granularity: int

    async def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``."""
        found: ScopeStatistics = await self.replicas.ask("statistics", self.granularity, terms, doc_ids)
        return found

    async def candidates(
        self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """See ``Shard.candidates``."""
        found: Candidates = await self.replicas.ask("candidates", self.granularity, terms, vector, doc_ids, k)
        return found

    async def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """See ``Shard.exact``."""
        hits: list[Hit] = await self.replicas.ask("exact", self.granularity, terms, doc_ids, statistics, k)
        return hits

    async def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """See ``Shard.semantic``."""
        hits: list[Hit] = await self.replicas.ask("semantic", self.granularity, vector, doc_ids, k)
        return hits

    async def vectors_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.vectors_of``."""
        # Without the texts: a vector is found by its document and its ordinal.
        named = [replace(chunk, text="") for chunk in chunks]
        vectors: NDArray[np.float32] = await self.replicas.ask("vectors_of", self.granularity, named)
        return vectors

    async def compressed_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.compressed_of``."""
        named = [replace(chunk, text="") for chunk in chunks]
        vectors: NDArray[np.float32] = await self.replicas.ask("compressed_of", self.granularity, named)
        return vectors
