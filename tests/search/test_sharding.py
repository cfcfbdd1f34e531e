"""The number of shards changes where chunks lie, and nothing that a question sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.search import LocalShard, merge_hits, search
from tests.search.small_archive import GRANULARITY, random_corpus, unit_vectors, write_archive

CORPUS = random_corpus(21, documents=10, chunks=20)


@pytest.mark.parametrize("scope", [(), ("report-001", "report-005", "report-006"), ("report-000",)])
async def test_one_three_and_seven_shards_agree(tmp_path: Path, scope: tuple[str, ...]) -> None:
    vector = unit_vectors(50, 1)[0]
    found = []
    for shards in (1, 3, 7):
        small = write_archive(tmp_path / str(shards), CORPUS, shards)
        found.append(await search(small.open().clients(GRANULARITY), "growing cash losses", vector, scope, 15))
    for other in found[1:]:
        assert other == found[0]
    assert len(found[0].exact) == 15 or scope


async def test_ties_go_by_chunk_id_across_shards(tmp_path: Path) -> None:
    corpus = {f"doc-{name}": ["goodwill impairment", "lease", "goodwill impairment"] for name in "abcdefgh"}
    small = write_archive(tmp_path, corpus, shards=3)
    same = [chunk_id for chunk_id, text in zip(small.chunk_ids, small.texts, strict=True) if "goodwill" in text]
    for k in (1, 5, 15, 16, 40):
        found = await search(small.open().clients(GRANULARITY), "goodwill", unit_vectors(1, 1)[0], (), k)
        assert [hit.chunk.chunk_id for hit in found.exact] == sorted(same)[:k]


def test_every_document_is_whole_in_its_shard(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, CORPUS, shards=4).open()
    for number in range(4):
        shard = archive.shard(GRANULARITY, number)
        assert all(shard_of(doc_id, 4) == number for doc_id in shard.doc_ids)
        for doc_id in shard.doc_ids:
            (rows,) = shard.rows_of([doc_id])
            assert [chunk.text for chunk in shard.chunks(rows)] == CORPUS[doc_id]
            assert [chunk.ordinal for chunk in shard.chunks(rows)] == list(range(len(CORPUS[doc_id])))


@dataclass(frozen=True)
class CountingShard(LocalShard):
    """A local shard that notes what it was asked."""

    asked: list[str] = field(default_factory=list)

    async def ask(self, method: str, *arguments: Any) -> Any:
        self.asked.append(method)
        return await LocalShard.ask(self, method, *arguments)


async def test_only_shards_of_the_scope_are_asked(tmp_path: Path) -> None:
    archive = write_archive(tmp_path, CORPUS, shards=5).open()
    clients = [CountingShard(archive.shard(GRANULARITY, number)) for number in range(5)]
    await search(clients, "tax", unit_vectors(1, 1)[0], ("report-002",), 3)
    owner = shard_of("report-002", 5)
    assert [client.asked for client in clients] == [["candidates"] if number == owner else [] for number in range(5)]
    scope = ("report-001", "report-002", "report-005")
    owners = {shard_of(doc_id, 5) for doc_id in scope}
    assert 1 < len(owners) < 5
    for client in clients:
        client.asked.clear()
    await search(clients, "tax", unit_vectors(1, 1)[0], scope, 3)
    assert [sorted(client.asked) for client in clients] == [
        ["exact", "semantic", "statistics"] if number in owners else [] for number in range(5)
    ]


def test_merging_nothing_gives_nothing() -> None:
    assert merge_hits([[], []], 5) == []
