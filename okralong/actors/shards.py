"""Actors that host one shard number of an archive, at all granularities, and their client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.exceptions import RayActorError

from okralong.actors.cluster import plain_errors
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import ShardClient, Spread

THREADS: Final = 4
"""Calls that an actor serves at once: numpy and FAISS release the interpreter lock. # project default"""


class IndexShard:
    """Shard ``number`` of the archive at ``location``, which every node must be able to read.

    With ``on_gpu`` the vectors are on a GPU too. The constructor raises ArchiveError if a shard cannot be opened, and
    ConfigError if there is no GPU for it.
    """

    def __init__(self, location: str, number: int, on_gpu: bool = False) -> None:
        archive = Archive.open(location)
        found = {granularity: archive.shard(granularity, number) for granularity in archive.granularities}
        self._shards = {size: shard.on_a_gpu() if on_gpu else shard for size, shard in found.items()}

    def ready(self) -> int:
        """Return the number of chunks, over all granularities."""
        return sum(shard.n_chunks for shard in self._shards.values())

    def ask(self, granularity: int, method: str, *arguments: Any) -> Any:
        """Call a method of the ``Shard`` of this granularity."""
        return getattr(self._shards[granularity], method)(*arguments)


def start_index_shards(
    location: str, names: Sequence[Sequence[str | None]], gpus: float = 0.0, **options: Any
) -> list[list[Any]]:
    """Start the actors of each shard number, one under each of its names, and return their handles in order.

    An actor whose name is None has no name. Each holds ``gpus`` of a GPU. ``options`` are Ray's actor options.
    """
    actor = ray.remote(IndexShard)
    options = {"num_cpus": 0, "num_gpus": gpus, "max_concurrency": THREADS, **options}
    return [
        [actor.options(name=name, **options).remote(location, number, gpus > 0) for name in of_one]
        for number, of_one in enumerate(names)
    ]


class Replicas:
    """The actors that hold one shard number.

    A call goes to the actor with the fewest calls of this process in flight; if it dies, the call goes to another.
    """

    def __init__(self, handles: Sequence[Any]) -> None:
        self._handles = list(handles)
        self._spread = Spread(len(self._handles))

    async def ask(self, granularity: int, method: str, *arguments: Any) -> Any:
        """Call a method of ``Shard``. Raises what it raises, and RayActorError if no actor is left."""
        gone: frozenset[int] = frozenset()
        while True:
            place = self._spread.take(gone)
            try:
                return await plain_errors(self._handles[place].ask.remote(granularity, method, *arguments))
            except RayActorError:
                gone |= {place}
                if len(gone) == len(self._handles):
                    raise
            finally:
                self._spread.done(place)


@dataclass(frozen=True, slots=True)
class RayShard(ShardClient):
    """One granularity of a shard number, as ``search`` takes it."""

    replicas: Replicas
    granularity: int

    async def ask(self, method: str, *arguments: Any) -> Any:
        """See ``ShardClient``."""
        return await self.replicas.ask(self.granularity, method, *arguments)
