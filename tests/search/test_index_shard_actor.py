"""Shards hosted by Ray actors answer as shards in this process do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import ray

from okralong.actors.shards import RayShard, Replicas, start_index_shards
from okralong.pipelines.archive.search import search, stored_vectors
from tests.search.small_archive import GRANULARITY, random_corpus, unit_vectors, write_archive

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("ray_cluster")
async def test_actors_answer_like_local_shards(tmp_path: Path) -> None:
    small = write_archive(tmp_path, random_corpus(13, documents=8, chunks=12), shards=2)
    archive = small.open()
    first, second = start_index_shards(str(tmp_path), [[None, None], [None]])
    handles = [*first, *second]
    try:
        assert sum(ray.get([handle.ready.remote() for handle in (first[0], second[0])])) == len(small.texts)
        remote = [RayShard(Replicas(each), GRANULARITY) for each in (first, second)]
        vector = unit_vectors(6, 1)[0]
        for scope in ((), ("report-002",), ("report-001", "report-005", "report-007")):
            found = await search(remote, "growth of taxation", vector, scope, 7)
            assert found == await search(archive.clients(GRANULARITY), "growth of taxation", vector, scope, 7)
            assert found.exact
        chunks = [hit.chunk for hit in found.semantic]
        held = await stored_vectors(lambda granularity: remote, chunks)
        assert np.array_equal(held, await stored_vectors(archive.clients, chunks))
        # One of two goes for good: the other answers in its place.
        ray.kill(first[0])
        for _ in range(4):
            assert found == await search(remote, "growth of taxation", vector, scope, 7)
    finally:
        for handle in handles:
            ray.kill(handle)
