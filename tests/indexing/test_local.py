"""Indexing without Ray: the same chunks and vectors as the index job would write, and nothing done twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from okralong.pipelines.indexing.chunker import chunk_document
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.local import Encoder, index_here
from okralong.pipelines.indexing.make_document import make_document
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.models.embedded import resolve_embedding_model
from okralong.pipelines.search.archive import Archive
from okralong.pipelines.search.scatter import search, stored_vectors
from okralong.pipelines.tokens import count_tokens
from okralong.pipelines.values import Chunk
from tests.conftest import LANTERN, ORCHARD

Embed = Callable[[list[str]], npt.NDArray[np.float32]]

CONFIG = IndexConfig(granularities=[64, 150], shards=2)
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

        def long_ones(texts: list[str]) -> int:
            return sum(count_tokens(text) > 100 for text in texts)

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
    assert archive.document("orchard").tables == make_document(RAW[0]).tables
    assert len(archive.document("orchard").tables) == 1


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


async def test_it_is_made_once_and_anew_when_something_changed(minilm: Embed, tmp_path: Path) -> None:
    counting = Counting(minilm)
    index_here(str(tmp_path), RAW, CONFIG, counting.encoder())
    made = (tmp_path / "manifest.json").stat().st_mtime_ns
    index_here(str(tmp_path), RAW[::-1], CONFIG, counting.encoder())
    assert len(counting.calls) == 2
    assert (tmp_path / "manifest.json").stat().st_mtime_ns == made
    changed = [replace(RAW[0], text=ORCHARD.replace("Ines Calder", "Odd Fellow")), RAW[1]]
    archive = index_here(str(tmp_path), changed, CONFIG, counting.encoder())
    assert len(counting.calls) == 4
    (query,) = minilm(["Odd Fellow"])
    assert ids(await everything(archive, 64, query)) == ids(expected(changed, 64)) != ids(expected(RAW, 64))


def test_nothing_of_another_archive_is_left(minilm: Embed, tmp_path: Path) -> None:
    index_here(str(tmp_path), RAW, CONFIG, Counting(minilm).encoder())
    chunks = tmp_path / "chunks" / "granularity=150"
    (chunks / "part-00000.parquet").rename(chunks / "part-00007.parquet")
    archive = index_here(str(tmp_path), RAW[:1], IndexConfig(granularities=[150]), Counting(minilm).encoder())
    assert archive.doc_ids() == ["orchard"]
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["granularity=150"]
    assert [path.name for path in chunks.iterdir()] == ["part-00000.parquet"]


@pytest.mark.parametrize("raw", [[], [RAW[0], RAW[0]]])
def test_documents_without_an_id_of_their_own_are_refused(
    minilm: Embed, tmp_path: Path, raw: list[RawDocument]
) -> None:
    with pytest.raises(ValueError, match=f"{len(raw)} documents with"):
        index_here(str(tmp_path), raw, CONFIG, Counting(minilm).encoder())
