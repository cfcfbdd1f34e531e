"""One search over many shards: ask those that hold documents of the scope, merge what they found.

BM25 takes two rounds where the scope spans shards: first what the scope looks like, then the scores under the sum. A
scope inside one shard, the usual case, takes one call for both retrievers.
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
    """What a search needs of a shard, wherever the shard may be: methods of ``Shard``, which see."""

    @abstractmethod
    async def ask(self, method: str, *arguments: Any) -> Any:
        """What that method of the shard returns or raises."""

    async def statistics(self, terms: Sequence[str], doc_ids: Sequence[str] | None) -> ScopeStatistics:
        """See ``Shard.statistics``, here and below."""
        found: ScopeStatistics = await self.ask("statistics", terms, doc_ids)
        return found

    async def candidates(
        self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """As above."""
        found: Candidates = await self.ask("candidates", terms, vector, doc_ids, k)
        return found

    async def exact(
        self, terms: Sequence[str], doc_ids: Sequence[str] | None, statistics: ScopeStatistics | None, k: int
    ) -> list[Hit]:
        """As above."""
        hits: list[Hit] = await self.ask("exact", terms, doc_ids, statistics, k)
        return hits

    async def semantic(self, vector: Vector, doc_ids: Sequence[str] | None, k: int) -> list[Hit]:
        """As above."""
        hits: list[Hit] = await self.ask("semantic", vector, doc_ids, k)
        return hits

    async def vectors_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """As above. The texts are left out: a vector is found by its document and its ordinal."""
        vectors: NDArray[np.float32] = await self.ask("vectors_of", [replace(chunk, text="") for chunk in chunks])
        return vectors

    async def compressed_of(self, chunks: Sequence[Chunk]) -> NDArray[np.float32]:
        """As above."""
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
"""A shard and the documents that it is asked about; None for all that it has."""


async def search(
    shards: Sequence[ShardClient], query: str, vector: Vector, doc_ids: Sequence[str], k: int
) -> Candidates:
    """The best ``k`` chunks of the scope for each retriever; fewer where fewer match.

    ``shards`` are all shards of one granularity in order of their numbers; ``vector`` is the query's, of shape
    (dimension,), or None for BM25 alone; an empty ``doc_ids`` means the whole archive.
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
    """The vectors that the index holds for ``chunks``, shape (chunks, dimension), in their order; at least one chunk.

    ``shards`` gives all shards of a granularity in order of their numbers.
    """
    return await _of_chunks(shards, chunks, lambda shard, some: shard.vectors_of(some))


async def stored_compressed(
    shards: Callable[[int], Sequence[ShardClient]], chunks: Sequence[Chunk]
) -> NDArray[np.float32]:
    """The same of the compressed vectors, shape (chunks, vectors of a chunk, hidden). Raises ArchiveError."""
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
    """The best ``k`` of several lists by falling score, ties by chunk_id."""
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


# How many processes each shard gets, and which of them a call goes to.


def calls_by_shard(scopes: Iterable[Sequence[str]], shards: int) -> list[int]:
    """How many questions ask each shard; ``scopes`` are their documents, none for the whole archive."""
    calls = [0] * shards
    for doc_ids in scopes:
        asked = {shard_of(doc_id, shards) for doc_id in doc_ids} if doc_ids else range(shards)
        for number in asked:
            calls[number] += 1
    return calls


def replicas_by_shard(calls: Sequence[int], replicas: int) -> list[int]:
    """Processes of each shard: one, and of ``len(calls) * (replicas - 1)`` more each where most calls share one.

    Those are D'Hondt's highest averages, ties to the lower number. A shard that nobody asks has one.
    """
    dealt = [1] * len(calls)
    # Least first: the most calls that share a process, then the lower number.
    hottest = [(-Fraction(count), number) for number, count in enumerate(calls)]
    heapify(hottest)
    for _ in range(len(calls) * (replicas - 1) if any(calls) else 0):
        _, number = hottest[0]
        dealt[number] += 1
        heapreplace(hottest, (-Fraction(calls[number], dealt[number]), number))
    return dealt


class Spread:
    """Which of ``places`` equal places a call goes to: the one with the fewest calls under way, by turns."""

    def __init__(self, places: int) -> None:
        self._under_way = [0] * places
        self._next = 0

    def take(self, avoid: frozenset[int] = frozenset()) -> int:
        """A place, none of ``avoid``; give it back with ``done``. Raises ValueError when all are to be avoided."""
        places = len(self._under_way)
        turns = ((self._next + step) % places for step in range(places))
        place = min((turn for turn in turns if turn not in avoid), key=lambda turn: self._under_way[turn])
        self._under_way[place] += 1
        self._next = (place + 1) % places
        return place

    def done(self, place: int) -> None:
        """A call at ``place`` has ended."""
        self._under_way[place] -= 1
