"""Search many shards: query those that hold documents of the scope, and merge their results.

If the scope spans shards, BM25 takes two rounds: statistics of the scope first, then scores. A scope within one shard,
the usual case, takes a single call for both retrievers.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from heapq import heapify, heapreplace
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive.bm25 import ScopeStatistics, analyze_query
from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.shard import Shard, Vector
from okralong.pipelines.core.types import Candidates, Chunk, Hit


class ShardClient(ABC):
    """The methods of ``Shard`` that a search needs, wherever the shard is."""

    @abstractmethod
    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call that method of the shard and return its result."""

    async def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``."""
        found: ScopeStatistics = await self.ask("statistics", terms, doc_ids)
        return found

    async def candidates(
        self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """See ``Shard.candidates``."""
        found: Candidates = await self.ask("candidates", terms, vector, doc_ids, k)
        return found

    async def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """See ``Shard.exact``."""
        hits: list[Hit] = await self.ask("exact", terms, doc_ids, statistics, k)
        return hits

    async def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """See ``Shard.semantic``."""
        hits: list[Hit] = await self.ask("semantic", vector, doc_ids, k)
        return hits

    async def vectors_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.vectors_of``; texts are not sent, since document and ordinal identify a vector."""
        vectors: NDArray[np.float32] = await self.ask("vectors_of", [replace(chunk, text="") for chunk in chunks])
        return vectors

    async def compressed_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """See ``Shard.compressed_of``."""
        vectors: NDArray[np.float32] = await self.ask("compressed_of", [replace(chunk, text="") for chunk in chunks])
        return vectors


@dataclass(frozen=True, slots=True)
class LocalShard(ShardClient):
    """A shard in this process."""

    shard: Shard

    async def ask(self, method: str, *arguments: Any) -> Any:
        """See ``ShardClient``."""
        return getattr(self.shard, method)(*arguments)


_Part = tuple[ShardClient, tuple[str, ...] | None]
"""A shard and the documents of the scope in it; None for all."""


async def search(
    shards: Sequence[ShardClient], query: str, vector: Vector, doc_ids: Sequence[str], k: int
) -> Candidates:
    """Return the best ``k`` chunks of the scope for each retriever, or fewer if fewer match.

    ``shards`` are all shards of one granularity, in order. ``vector`` is the query's, shape (dimension,), or None for
    BM25 only. Empty ``doc_ids`` mean the whole archive.
    """
    parts, terms = _parts(shards, doc_ids), analyze_query(query)
    if len(parts) == 1:
        client, part = parts[0]
        return await client.candidates(terms, vector, part, k)
    if vector is None:
        return Candidates(tuple(await _exact(parts, terms, k)), ())
    exact, semantic = await asyncio.gather(
        _exact(parts, terms, k),
        asyncio.gather(*(client.semantic(vector, part, k) for client, part in parts)),
    )
    return Candidates(tuple(exact), tuple(merge_hits(semantic, k)))


async def stored_vectors(
    shards: Callable[[int], Sequence[ShardClient]], chunks: Sequence[Chunk]
) -> NDArray[np.float32]:
    """Return the index's vectors of ``chunks`` (at least one), shape (chunks, dimension), in their order.

    ``shards`` returns all shards of a granularity, in order.
    """
    return await _of_chunks(shards, chunks, lambda shard, some: shard.vectors_of(some))


async def stored_compressed(
    shards: Callable[[int], Sequence[ShardClient]], chunks: Sequence[Chunk]
) -> NDArray[np.float32]:
    """Return the compressed vectors of ``chunks``, shape (chunks, vectors per chunk, hidden). Raises ArchiveError."""
    return await _of_chunks(shards, chunks, lambda shard, some: shard.compressed_of(some))


async def _of_chunks(
    shards: Callable[[int], Sequence[ShardClient]],
    chunks: Sequence[Chunk],
    ask: Callable[[ShardClient, Sequence[Chunk]], Awaitable[NDArray[np.float32]]],
) -> NDArray[np.float32]:
    places: dict[tuple[int, int], list[int]] = {}
    for place, chunk in enumerate(chunks):
        number = shard_of(chunk.doc_id, len(shards(chunk.granularity)))
        places.setdefault((chunk.granularity, number), []).append(place)
    found = await asyncio.gather(
        *(
            ask(shards(granularity)[number], [chunks[place] for place in group])
            for (granularity, number), group in places.items()
        )
    )
    order = [place for group in places.values() for place in group]
    return np.concatenate(found)[np.argsort(order)]


def merge_hits(lists: Iterable[Iterable[Hit]], k: int) -> list[Hit]:
    """Return the best ``k`` of several lists by descending score, ties by chunk_id."""
    everything = [hit for hits in lists for hit in hits]
    return sorted(everything, key=lambda hit: (-hit.score, hit.chunk.chunk_id))[:k]


async def _exact(parts: Sequence[_Part], terms: list[str], k: int) -> list[Hit]:
    if not terms:
        return []
    known = await asyncio.gather(*(client.statistics(terms, part) for client, part in parts))
    total = reduce(add, known, ScopeStatistics())
    found = await asyncio.gather(*(client.exact(terms, part, total, k) for client, part in parts))
    return merge_hits(found, k)


def _parts(shards: Sequence[ShardClient], doc_ids: Sequence[str]) -> list[_Part]:
    if not doc_ids:
        return [(client, None) for client in shards]
    owned: dict[int, list[str]] = {}
    for doc_id in doc_ids:
        owned.setdefault(shard_of(doc_id, len(shards)), []).append(doc_id)
    return [(shards[number], tuple(owned[number])) for number in sorted(owned)]


# The number of processes of each shard, and the choice of one for a call.


def calls_by_shard(scopes: Iterable[Sequence[str]], shards: int) -> list[int]:
    """Count the questions that use each shard; ``scopes`` are their documents, empty for the whole archive."""
    calls = [0] * shards
    for doc_ids in scopes:
        asked = {shard_of(doc_id, shards) for doc_id in doc_ids} if doc_ids else range(shards)
        for number in asked:
            calls[number] += 1
    return calls


def replicas_by_shard(calls: Sequence[int], replicas: int) -> list[int]:
    """Return the number of processes per shard: one each, and ``len(calls) * (replicas - 1)`` more by demand.

    Additional ones go by D'Hondt's highest averages, ties to the lower number. A shard without calls has one process.
    """
    dealt = [1] * len(calls)
    # A heap of the calls per process, most first, ties to the lower number.
    hottest = [(-Fraction(count), number) for number, count in enumerate(calls)]
    heapify(hottest)
    for _ in range(len(calls) * (replicas - 1) if any(calls) else 0):
        _, number = hottest[0]
        dealt[number] += 1
        heapreplace(hottest, (-Fraction(calls[number], dealt[number]), number))
    return dealt


class Spread:
    """Balances calls over equal places: each goes to the place with the fewest calls in progress, in turn."""

    def __init__(self, places: int) -> None:
        self._under_way = [0] * places
        self._next = 0

    def take(self, avoid: frozenset[int] = frozenset()) -> int:
        """Return a place, none of ``avoid``; release it with ``done``. Raises ValueError if all are to be avoided."""
        places = len(self._under_way)
        turns = ((self._next + step) % places for step in range(places))
        place = min((turn for turn in turns if turn not in avoid), key=lambda turn: self._under_way[turn])
        self._under_way[place] += 1
        self._next = (place + 1) % places
        return place

    def done(self, place: int) -> None:
        """Release a place."""
        self._under_way[place] -= 1
