"""How many processes each shard gets, and which of them a call goes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heapreplace

from okralong.pipelines.search.sharding import shard_of


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
