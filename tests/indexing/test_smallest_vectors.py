"""Vectors of the smallest chunks alone (``embedding.of: smallest``): larger ones are found by those inside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search, stored_vectors
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Chunk, ConfigError
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.indexing.maintenance import purge
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.conftest import LANTERN, ORCHARD

Vectors = npt.NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]

SIZES = [256, 32, 100]
RAW = [
    RawDocument("orchard", ORCHARD * 3, "orchard.txt"),
    RawDocument("lantern", LANTERN, "lantern.md"),
    RawDocument("note", "A note.", "note.txt"),
]
WORDS = "Who founded the orchard?"


def config(of: str, shards: int = 2) -> IndexConfig:
    embedding = EmbeddingConfig.model_validate({"of": of})
    return IndexConfig(granularities=SIZES, shards=shards, embedding=embedding)


def encoder(embed: Embed, seen: list[str]) -> Encoder:
    def encode(texts: list[str]) -> Vectors:
        seen.extend(texts)
        return embed(texts)

    return Encoder(encode, resolve_embedding_model("embedded"), lambda: "float32", lambda texts: [False] * len(texts))


def chunks(size: int, raw: list[RawDocument] = RAW) -> list[Chunk]:
    return [chunk for each in raw for chunk in chunk_document(make_document(each), size)]


def inside(chunk: Chunk, small: list[Chunk]) -> list[int]:
    """The places of the chunks of ``small`` that ``chunk`` overlaps."""
    return [
        place
        for place, one in enumerate(small)
        if one.doc_id == chunk.doc_id and one.start_char < chunk.end_char and one.end_char > chunk.start_char
    ]


@pytest.fixture(scope="module")
def made(minilm: Embed, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    seen: list[str] = []
    place = tmp_path_factory.mktemp("smallest") / "archive"
    index_here(str(place), RAW, config("smallest"), encoder(minilm, seen))
    return place, seen


def test_each_text_is_embedded_once(made: tuple[Path, list[str]]) -> None:
    place, seen = made
    assert sorted(seen) == sorted({chunk.text for chunk in chunks(32)})
    archive = Archive.open(place)
    assert archive.manifest["embedding"]["of"] == "smallest"
    assert archive.has_vectors
    held = {str(file.relative_to(place)).split("/")[1] for file in place.glob("index/*/*/vectors.npy")}
    assert held == {"granularity=32"}


@pytest.mark.parametrize("scope", [(), ("orchard",), ("lantern", "note"), ("lantern", "orchard")])
async def test_a_larger_chunk_scores_as_the_best_one_inside(
    made: tuple[Path, list[str]], minilm: Embed, scope: tuple[str, ...]
) -> None:
    archive, small = Archive.open(made[0]), chunks(32)
    (query,) = minilm([WORDS])
    cosines = minilm([chunk.text for chunk in small]) @ query
    for size in (100, 256):
        wanted = {
            chunk.chunk_id: max(cosines[inside(chunk, small)])
            for chunk in chunks(size)
            if not scope or chunk.doc_id in scope
        }
        for k in (1, 3, 100):
            found = (await search(archive.clients(size), WORDS, query, scope, k)).semantic
            best = sorted(wanted.values(), reverse=True)[:k]
            np.testing.assert_allclose([hit.score for hit in found], best, atol=1e-5)
            for hit in found:
                assert hit.score == pytest.approx(wanted[hit.chunk.chunk_id], abs=1e-5)


async def test_scores_do_not_depend_on_shards_and_vectors_are_means(
    made: tuple[Path, list[str]], minilm: Embed, tmp_path: Path
) -> None:
    archive, small = Archive.open(made[0]), chunks(32)
    one = index_here(str(tmp_path), RAW, config("smallest", 1), encoder(minilm, []))
    (query,) = minilm([WORDS])
    for size in (32, 100, 256):
        found, again = [await search(each.clients(size), WORDS, query, (), 7) for each in (archive, one)]
        assert found == again
    held = await stored_vectors(archive.clients, [hit.chunk for hit in found.semantic])
    vectors = minilm([chunk.text for chunk in small])
    means = np.stack([vectors[inside(hit.chunk, small)].mean(axis=0) for hit in found.semantic])
    np.testing.assert_allclose(held, means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)


async def test_it_goes_over_into_the_others_and_back(minilm: Embed, tmp_path: Path) -> None:
    seen: list[str] = []
    none = index_here(str(tmp_path), RAW, config("none"))
    first = index_here(str(tmp_path), RAW, config("smallest"), encoder(minilm, seen))
    names = [archive.manifest["files"]["index"] for archive in (none, first)]
    assert [names[0][str(size)] == names[1][str(size)] for size in SIZES] == [True, False, True]
    seen.clear()
    each = index_here(str(tmp_path), RAW, config("each"), encoder(minilm, seen))
    small, larger = ({chunk.text for size in sizes for chunk in chunks(size)} for sizes in ([32], [100, 256]))
    assert set(seen) == larger - small
    assert each.manifest["files"]["index"]["32"] == names[1]["32"]
    seen.clear()
    back = index_here(str(tmp_path), RAW, config("smallest"), encoder(minilm, seen))
    assert (seen, back.manifest["files"]["index"]) == ([], names[1])
    longer = [*RAW, RawDocument("ferry", "The Petrel crosses the sound twice a day. " * 20, "ferry.txt")]
    index_here(str(tmp_path), longer, config("smallest"), encoder(minilm, seen))
    assert set(seen) == {chunk.text for chunk in chunks(32, longer[-1:])}
    purge(Folder.of(tmp_path), "ferry", by="a test")
    archive = Archive.open(tmp_path)
    (query,) = minilm(["The Petrel"])
    assert {hit.chunk.doc_id for hit in (await search(archive.clients(256), "", query, (), 99)).semantic} == {
        "lantern",
        "note",
        "orchard",
    }


def test_a_compressor_needs_vectors_of_its_own_size(minilm: Embed, tmp_path: Path) -> None:
    asked = config("smallest").model_copy(update={"compressor": "shipped"})
    with pytest.raises(ConfigError, match=r"those with vectors are of 32.*embedding\.of to each"):
        index_here(str(tmp_path), RAW, asked, encoder(minilm, []))
