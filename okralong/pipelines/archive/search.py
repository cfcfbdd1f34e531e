"""Search many shards: query those that have documents of the scope, and merge their results.

If the scope spans several shards, BM25 takes two rounds: first the statistics of the scope, then the scores. If it is
within one shard, which is usual, a single call serves both retrievers.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from heapq import heapify, heapreplace
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive.bm25 import ScopeStatistics
from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.shard import Shard, Vector
from okralong.pipelines.archive.terms import analyze_query
from okralong.pipelines.core.languages import ENGLISH, question_language
from okralong.pipelines.core.types import Candidates, Chunk, Hit


class ShardClient(ABC):
    """The methods of ``Shard`` that a search needs, for a shard in this or another process."""

    @abstractmethod
    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call the shard's method of that name and return its result."""

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
        """See ``Shard.vectors_of``. Texts are not sent, since document and ordinal identify a vector."""
        vectors: NDArray[np.float32] = await self.ask("vectors_of", [replace(chunk, text="") for chunk in chunks])
        return vectors

    async def compressed_of(self, chunks: Sequence[Chunk]) -> list[NDArray[np.float32]]:
        """See ``Shard.compressed_of``."""
        vectors: list[NDArray[np.float32]] = await self.ask(
            "compressed_of", [replace(chunk, text="") for chunk in chunks]
        )
        return vectors


@dataclass(frozen=True, slots=True)
class LocalShard(ShardClient):
    """A shard in this process."""

    shard: Shard

    async def ask(self, method: str, *arguments: Any) -> Any:
        """See ``ShardClient``."""
        return getattr(self.shard, method)(*arguments)


_Part = tuple[ShardClient, tuple[str, ...] | None]
"""A shard, and the documents of the scope that it has (None: all of its documents)."""


async def search(
    shards: Sequence[ShardClient],
    query: str,
    vector: Vector,
    doc_ids: Sequence[str],
    k: int,
    languages: Collection[str] = (ENGLISH,),
) -> Candidates:
    """Return the best ``k`` chunks of the scope for each retriever, or fewer if fewer match.

    ``shards`` are all shards of one chunk size, in order. ``vector`` is the query's, shape (dimension,), or None for
    BM25 only. Empty ``doc_ids`` mean the whole archive. ``languages`` are those of the scope
    (``Archive.languages_of``).
    """
    parts, terms = _parts(shards, doc_ids), query_terms(query, languages)
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


def query_terms(query: str, languages: Collection[str]) -> list[str]:
    """Return the terms of a query over documents in these languages."""
    # The language of the query only matters among several: most scopes have one, and need no classifier.
    asked = question_language(query, languages) if len(languages) > 1 else ENGLISH
    return analyze_query(query, languages, asked)


async def stored_vectors(
    shards: Callable[[int], Sequence[ShardClient]], chunks: Sequence[Chunk]
) -> NDArray[np.float32]:
    """Return the index's vectors of ``chunks`` (at least one), shape (chunks, dimension), in their order.

    ``shards`` returns all shards of a chunk size, in order.
    """
    return np.stack(await _of_chunks(shards, chunks, lambda shard, some: shard.vectors_of(some)))


async def stored_compressed(
    shards: Callable[[int], Sequence[ShardClient]], chunks: Sequence[Chunk]
) -> list[NDArray[np.float32]]:
    """Return the compressed vectors of ``chunks``, each of shape (vectors, hidden)."""
    return await _of_chunks(shards, chunks, lambda shard, some: shard.compressed_of(some))


async def _of_chunks(
    shards: Callable[[int], Sequence[ShardClient]],
    chunks: Sequence[Chunk],
    ask: Callable[[ShardClient, Sequence[Chunk]], Awaitable[Iterable[NDArray[np.float32]]]],
) -> list[NDArray[np.float32]]:
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
    each = [one for some in found for one in some]
    return [each[place] for place in np.argsort(order)]


def merge_hits(lists: Iterable[Iterable[Hit]], k: int) -> list[Hit]:
    """Return the best ``k`` hits of several lists by descending score; ties are in the order of chunk_id."""
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


# Choose the number of processes for each shard, and a process for each call.


def calls_by_shard(scopes: Iterable[Sequence[str]], shards: int) -> list[int]:
    """Count the questions that use each shard. ``scopes`` has each question's documents, none for the whole archive."""
    calls = [0] * shards
    for doc_ids in scopes:
        asked = {shard_of(doc_id, shards) for doc_id in doc_ids} if doc_ids else range(shards)
        for number in asked:
            calls[number] += 1
    return calls


def replicas_by_shard(calls: Sequence[int], replicas: int) -> list[int]:
    """Return the number of processes for each shard, ``replicas`` times the number of shards in total.

    Each shard has one process. The others are assigned by the number of ``calls`` (D'Hondt's highest averages); ties go
    to the lower shard number. A shard without calls has only one.
    """
    dealt = [1] * len(calls)
    # A heap of shards by calls per process, most first; ties go to the lower shard number.
    hottest = [(-Fraction(count), number) for number, count in enumerate(calls)]
    heapify(hottest)
    for _ in range(len(calls) * (replicas - 1) if any(calls) else 0):
        _, number = hottest[0]
        dealt[number] += 1
        heapreplace(hottest, (-Fraction(calls[number], dealt[number]), number))
    return dealt


class Spread:
    """Balances calls over equal places: each call gets the place with the fewest calls in progress; ties take turns."""

    def __init__(self, places: int) -> None:
        self._under_way = [0] * places
        self._next = 0

    def take(self, avoid: frozenset[int] = frozenset()) -> int:
        """Return a place not in ``avoid``, to be released with ``done``. Raises ValueError if ``avoid`` has all."""
        places = len(self._under_way)
        turns = ((self._next + step) % places for step in range(places))
        place = min((turn for turn in turns if turn not in avoid), key=lambda turn: self._under_way[turn])
        self._under_way[place] += 1
        self._next = (place + 1) % places
        return place

    def done(self, place: int) -> None:
        """Release a place."""
        self._under_way[place] -= 1
