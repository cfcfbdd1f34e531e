"""Indexing without Ray: the same chunks and vectors as the index job would write, and nothing done twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.search import search, stored_vectors
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Chunk
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.conftest import LANTERN, ORCHARD

Embed = Callable[[list[str]], npt.NDArray[np.float32]]

EACH = EmbeddingConfig(of="each")
CONFIG = IndexConfig(granularities=[64, 150], shards=2, embedding=EACH)
RAW = [RawDocument("orchard", ORCHARD, "orchard.txt"), RawDocument("lantern", LANTERN, "lantern.md")]


class Counting:
    """The real encoder, with a list of how many texts each call had."""

    def __init__(self, embed: Embed) -> None:
        self.embed = embed
        self.calls: list[int] = []

    def encoder(self) -> Encoder:
        def encode(texts: list[str]) -> npt.NDArray[np.float32]:
            self.calls.append(len(texts))
            return self.embed(texts)

        def long_ones(texts: list[str]) -> list[bool]:
            return [count_tokens(text) > 100 for text in texts]

        return Encoder(encode, resolve_embedding_model("embedded"), lambda: "float32", long_ones)


def expected(raw: list[RawDocument], granularity: int) -> list[Chunk]:
    return [chunk for each in raw for chunk in chunk_document(make_document(each), granularity)]


async def everything(archive: Archive, granularity: int, vector: npt.NDArray[np.float32]) -> list[Chunk]:
    found = await search(archive.clients(granularity), "", vector, (), 1000)
    return [hit.chunk for hit in found.semantic]


def ids(chunks: list[Chunk]) -> set[str]:
    return {chunk.chunk_id for chunk in chunks}


async def test_the_archive_holds_the_chunks_and_their_vectors(minilm: Embed, tmp_path: Path) -> None:
    archive = index_here(str(tmp_path / "archive"), RAW, CONFIG, Counting(minilm).encoder())
    (query,) = minilm(["Who founded the orchard?"])
    for granularity in CONFIG.granularities:
        wanted = {chunk.chunk_id: chunk for chunk in expected(RAW, granularity)}
        found = await everything(archive, granularity, query)
        assert {chunk.chunk_id: chunk for chunk in found} == wanted
        held = await stored_vectors(archive.clients, found)
        np.testing.assert_allclose(held, minilm([chunk.text for chunk in found]), atol=1e-5)
    best = await search(archive.clients(64), "Who founded the orchard?", query, (), 1)
    assert "Ines Calder" in best.exact[0].chunk.text
    assert "Ines Calder" in best.semantic[0].chunk.text
    assert archive.document("orchard").table_spans == make_document(RAW[0]).table_spans
    assert len(archive.document("orchard").table_spans) == 1


def test_the_manifest_says_what_was_made(minilm: Embed, tmp_path: Path) -> None:
    manifest = index_here(str(tmp_path), RAW, CONFIG, Counting(minilm).encoder()).manifest
    assert (manifest["documents"], manifest["failures"], manifest["shards"]) == (2, 0, 2)
    assert manifest["document_tokens"] == count_tokens(ORCHARD) + count_tokens(LANTERN)
    assert manifest["chunks"] == {str(size): len(expected(RAW, size)) for size in (64, 150)}
    long_ones = sum(chunk.n_tokens > 100 for chunk in expected(RAW, 150))
    assert manifest["chunks_over_encoder_limit"] == {"64": 0, "150": long_ones}
    assert long_ones > 0
    assert manifest["embedding"]["precision"] == "float32"
    assert manifest["embedding"]["dimension"] == 384


async def test_a_next_version_embeds_only_texts_that_are_new(minilm: Embed, tmp_path: Path) -> None:
    counting = Counting(minilm)
    first = index_here(str(tmp_path), RAW, CONFIG, counting.encoder())
    assert sum(counting.calls) == len({chunk.text for size in (64, 150) for chunk in expected(RAW, size)})
    assert index_here(str(tmp_path), RAW[::-1], CONFIG, counting.encoder()).version == first.version == 1
    counting.calls.clear()
    changed = [replace(RAW[0], text=f"{ORCHARD} Odd Fellow was there."), RAW[1]]
    archive = index_here(str(tmp_path), changed, CONFIG, counting.encoder())
    old = {chunk.text for size in (64, 150) for chunk in expected(RAW, size)}
    new = {chunk.text for size in (64, 150) for chunk in expected(changed, size)} - old
    assert sum(counting.calls) == len(new) < len(old)
    (query,) = minilm(["Odd Fellow"])
    for size in (64, 150):
        found = await everything(archive, size, query)
        assert {chunk.chunk_id: chunk for chunk in found} == {c.chunk_id: c for c in expected(changed, size)}
        held = await stored_vectors(archive.clients, found)
        np.testing.assert_allclose(held, minilm([chunk.text for chunk in found]), atol=1e-5)
        # Who has opened the first version reads on in it.
        assert ids(await everything(Archive.open(first.location), size, query)) == ids(expected(RAW, size))
    assert (first.document("orchard").text, archive.document("orchard").text) == (ORCHARD, changed[0].text)
    counting.calls.clear()
    back = index_here(str(tmp_path), RAW, CONFIG, counting.encoder())  # what went and comes back is known
    assert (back.version, counting.calls) == (3, [])
    assert back.manifest["fingerprint"] == first.manifest["fingerprint"]


async def test_shards_are_shared_and_sizes_come_and_go(minilm: Embed, tmp_path: Path) -> None:
    counting = Counting(minilm)
    first = index_here(str(tmp_path), RAW, CONFIG, counting.encoder())
    wider = IndexConfig(granularities=[64, 150, 100], shards=3, embedding=EACH)
    second = index_here(str(tmp_path), RAW, wider, counting.encoder())
    assert (second.n_shards, second.granularities) == (3, (64, 150, 100))
    (query,) = minilm(["anything"])
    for size in wider.granularities:
        assert ids(await everything(second, size, query)) == ids(expected(RAW, size))
    texts = {chunk.text for size in wider.granularities for chunk in expected(RAW, size)}
    assert sum(counting.calls) == len(texts)  # nothing was embedded again for another number of shards
    one = IndexConfig(granularities=[150], shards=2, embedding=EACH)
    third = index_here(str(tmp_path), RAW[:1], one, counting.encoder())
    assert third.doc_ids() == ["orchard"]
    assert ids(await everything(third, 150, query)) == ids(expected(RAW[:1], 150))
    names = [archive.manifest["files"]["index"]["150"] for archive in (first, third)]
    lantern, orchard = shard_of("lantern", 2), shard_of("orchard", 2)
    assert (names[0][orchard] == names[1][orchard]) == (lantern != orchard)
    assert names[0][lantern] != names[1][lantern]


@pytest.mark.parametrize("raw", [[], [RAW[0], RAW[0]]])
def test_documents_without_an_id_of_their_own_are_refused(
    minilm: Embed, tmp_path: Path, raw: list[RawDocument]
) -> None:
    with pytest.raises(ValueError, match=f"{len(raw)} documents with"):
        index_here(str(tmp_path), raw, CONFIG, Counting(minilm).encoder())
