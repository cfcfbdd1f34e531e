"""The table of compressed chunks: made at index time or by a later pass, found by chunk, kept by vacuum, purged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import stored_compressed, stored_vectors
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.indexing.maintenance import purge, vacuum
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.sara.artifact import ArrayCompressor, gelu, sentences_in
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.config import check_encoder, check_table
from tests.fakes.reports import ALDER, BIRCH
from tests.sara.compressors import random_compressor

DOCUMENTS = [RawDocument(each.doc_id, each.text, each.doc_id) for each in (ALDER, BIRCH)]


@pytest.fixture(scope="session")
def encoder(minilm: Callable[[list[str]], Any]) -> Encoder:
    model = resolve_embedding_model("embedded")
    return Encoder(minilm, model, lambda: "float32", lambda texts: [False] * len(texts))


def config(compressor: str | Path, **more: Any) -> IndexConfig:
    embedding = EmbeddingConfig(of="each")
    return IndexConfig(granularities=[150, 256], compressor=str(compressor), embedding=embedding, **more)


def files(archive: Path) -> set[str]:
    return {str(path.relative_to(archive)) for path in archive.rglob("compressed.arrow")}


def test_arrays_compute_what_torch_does(tmp_path: Path) -> None:
    folder = random_compressor(tmp_path, vectors_per_chunk=3)
    given = np.random.default_rng(1).normal(size=(9, 384)).astype(np.float32)
    arrays, module = ArrayCompressor.load(folder), Compressor.load(folder)
    assert arrays.fingerprint == module.fingerprint
    made = arrays(given)
    assert made.shape == (9, 3, 48)
    with torch.inference_mode():
        assert np.allclose(made, module(torch.from_numpy(given)).numpy(), atol=1e-5)
    assert np.allclose(arrays.pooled(given), module.pooled(torch.from_numpy(given)).numpy(), atol=1e-5)
    values = np.linspace(-6, 6, 500, dtype=np.float32)
    assert np.allclose(gelu(values), torch.nn.functional.gelu(torch.from_numpy(values)).numpy(), atol=2e-6)
    assert arrays(given[:0]).shape == (0, 3, 48)


async def test_each_chunk_is_found_and_is_its_own_vector_compressed(tmp_path: Path, encoder: Encoder) -> None:
    compressor = ArrayCompressor.load(random_compressor(tmp_path / "c", vectors_per_chunk=2))
    archive = index_here(str(tmp_path / "a"), DOCUMENTS, config(tmp_path / "c", shards=2), encoder)
    held = archive.manifest["compressor"]
    assert held == {
        "fingerprint": compressor.fingerprint,
        "granularity": 256,
        "generator": "embedded",
        "vectors_per_chunk": 2,
        "hidden": 48,
    }
    assert len(files(tmp_path / "a")) == 2, "a table a shard, at one granularity alone"
    shards = [archive.shard(256, number) for number in range(2)]
    chunks = [chunk for shard in shards for chunk in shard.chunks(range(shard.n_chunks))][::-1]
    found = await stored_compressed(archive.clients, chunks)
    vectors = await stored_vectors(archive.clients, chunks)
    assert np.shape(found) == (len(chunks), 2, 48)
    assert len(chunks) >= 4
    assert np.allclose(found, compressor(vectors), atol=2e-4), "half precision"
    assert np.abs(np.stack(found) - compressor(vectors)[::-1]).max() > 2e-3, "and no other's"
    small = archive.shard(150, 0)
    with pytest.raises(ArchiveError, match=r"no compressed chunks of 150 tokens.*index"):
        small.compressed_of(small.chunks([0]))


def test_a_later_pass_adds_it_and_embeds_nothing(tmp_path: Path, encoder: Encoder) -> None:
    place = tmp_path / "a"
    first = index_here(str(place), DOCUMENTS, config("none"), encoder)
    assert "compressor" not in first.manifest
    random_compressor(tmp_path / "c")
    second = index_here(str(place), DOCUMENTS, config(tmp_path / "c"), encoder)
    assert (second.version, second.manifest["work"]["texts_embedded"]) == (2, 0)
    assert second.manifest["files"]["index"] == first.manifest["files"]["index"]
    assert second.manifest["fingerprint"] != first.manifest["fingerprint"]
    again = index_here(str(place), DOCUMENTS, config(tmp_path / "c"), encoder)
    assert again.version == 2
    other = random_compressor(tmp_path / "other", seed=9)
    third = index_here(str(place), DOCUMENTS, config(other), encoder)
    assert third.version == 3
    assert len(files(place)) == 2
    # The table of the older compressor goes with the versions that name it, the other one stays.
    vacuum(Folder.of(place), 1)
    (left,) = files(place)
    assert third.manifest["compressor"]["fingerprint"] in left
    assert len(Archive.open(place).shard(256, 0).compressed_of(Archive.open(place).shard(256, 0).chunks([0]))) == 1


def own_sentences(compressor: ArrayCompressor, encoder: Encoder, text: str) -> Any:
    return compressor(encoder.encode(sentences_in(text, compressor.shape.vectors_per_chunk)))[:, 0]


async def test_each_sentence_of_a_chunk_has_its_vector(tmp_path: Path, encoder: Encoder) -> None:
    folder = random_compressor(tmp_path / "c", unit="sentence", vectors_per_chunk=5)
    compressor = ArrayCompressor.load(folder)
    short = RawDocument(
        "note", "The lamp burns for nine years before its cell is changed. Mara leads the crew.", "note"
    )
    archive = index_here(str(tmp_path / "a"), [*DOCUMENTS, short], config(folder, shards=2), encoder)
    held = archive.manifest["compressor"]
    assert (held["unit"], held["vectors_per_chunk"]) == ("sentence", 5)
    shards = [archive.shard(256, number) for number in range(2)]
    chunks = [chunk for shard in shards for chunk in shard.chunks(range(shard.n_chunks))]
    found = await stored_compressed(archive.clients, chunks)
    for chunk, vectors in zip(chunks, found, strict=True):
        assert np.allclose(vectors, own_sentences(compressor, encoder, chunk.text), atol=2e-3), "half precision"
    assert {len(vectors) for vectors in found} == {1, 5}


def test_a_rebuilt_shard_embeds_the_sentences_of_new_chunks_alone(tmp_path: Path, encoder: Encoder) -> None:
    """And purged ones go, also from a table of lists."""
    folder, place = random_compressor(tmp_path / "c", unit="sentence", vectors_per_chunk=16), tmp_path / "a"
    first = index_here(str(place), DOCUMENTS[:1], config(folder), encoder)
    asked: list[str] = []

    def encode(texts: list[str]) -> Any:
        asked.extend(texts)
        return encoder.encode(texts)

    second = index_here(str(place), DOCUMENTS, config(folder), replace(encoder, encode=encode))
    new = second.shard(256, 0).n_chunks - first.shard(256, 0).n_chunks
    assert second.manifest["work"]["chunks_compressed"] == new > 0
    assert any(text.startswith("Annual report of Birch.") for text in asked)
    assert not any(text.startswith("Annual report of Alder.") for text in asked)
    purge(Folder.of(place), ALDER.doc_id)
    shard, compressor = Archive.open(place).shard(256, 0), ArrayCompressor.load(folder)
    chunks = shard.chunks(range(shard.n_chunks))
    assert {chunk.doc_id for chunk in chunks} == {BIRCH.doc_id}
    for chunk, vectors in zip(chunks, shard.compressed_of(chunks), strict=True):
        assert np.allclose(vectors, own_sentences(compressor, encoder, chunk.text), atol=2e-3)
    # Another compressor embeds sentences again, and no chunk.
    other = random_compressor(tmp_path / "other", seed=9, unit="sentence", vectors_per_chunk=16)
    fourth = index_here(str(place), DOCUMENTS[1:], config(other), encoder)
    assert fourth.manifest["work"]["texts_embedded"] == 0
    assert fourth.manifest["work"]["chunks_compressed"] == shard.n_chunks
    vacuum(Folder.of(place), 1)
    (left,) = files(place)
    assert ArrayCompressor.load(other).fingerprint in left


def test_a_chunk_has_at_most_so_many_parts_and_loses_no_text() -> None:
    prose = (
        "Alder grew in every region. It earned 5 million dollars in 2019, more than ever before. Costs fell a bit.\n"
    )
    table = "Region | 2018 | 2019\n" * 40
    word = "one"
    for text in (prose, table, prose + table, word):
        for most in (1, 3, 16):
            parts = sentences_in(text, most)
            assert 1 <= len(parts) <= most
            assert "".join("".join(parts).split()) == "".join(text.split())
    assert sentences_in(2 * prose, 16)[0] == (
        "Alder grew in every region. It earned 5 million dollars in 2019, more than ever before."
    ), "a short sentence shares the next one's vector"
    sizes = [len(part) for part in sentences_in(table, 8)]
    assert max(sizes) < 2 * min(sizes), "a long table is dealt evenly"
    assert sentences_in("  \n", 4) == [""]


async def test_a_purged_document_is_in_no_table(tmp_path: Path, encoder: Encoder) -> None:
    place = tmp_path / "a"
    compressor = ArrayCompressor.load(random_compressor(tmp_path / "c"))
    before = index_here(str(place), DOCUMENTS, config(tmp_path / "c"), encoder)
    (old,) = files(place)
    purge(Folder.of(place), BIRCH.doc_id)
    after = Archive.open(place)
    assert after.manifest["compressor"] == before.manifest["compressor"]
    (new,) = files(place)
    assert new != old
    shard = after.shard(256, 0)
    chunks = shard.chunks(range(shard.n_chunks))
    assert {chunk.doc_id for chunk in chunks} == {ALDER.doc_id}
    assert np.allclose(shard.compressed_of(chunks), compressor(shard.vectors_of(chunks)), atol=2e-3)
    assert BIRCH.doc_id.encode() not in (place / new).read_bytes()


def test_what_does_not_fit_is_refused_before_anything_is_done(tmp_path: Path, encoder: Encoder) -> None:
    def index(folder: str | Path, **more: Any) -> Archive:
        return index_here(str(tmp_path / "a"), DOCUMENTS, config(folder, **more), encoder)

    with pytest.raises(ConfigError, match=r"holds no compressor.*train-sara"):
        index(tmp_path)
    with pytest.raises(
        ConfigError, match=r"cannot be used.*chunks of 512 tokens, and those with vectors are of 150, 256"
    ):
        index(random_compressor(tmp_path / "wide", chunk_tokens=512))
    with pytest.raises(ConfigError, match=r"trained on the vectors of contriever"):
        index(random_compressor(tmp_path / "other", encoder="contriever", encoder_sha256="0" * 64))
    with pytest.raises(ConfigError, match=r"chunks of 512 tokens, and those with vectors are of 150, 256"):
        index(random_compressor(tmp_path / "long", chunk_tokens=512, unit="sentence"))
    assert not (tmp_path / "a").exists()


def test_a_run_is_told_what_its_archive_lacks(tmp_path: Path, encoder: Encoder) -> None:
    one, other = random_compressor(tmp_path / "c"), random_compressor(tmp_path / "other", seed=9)
    without = index_here(str(tmp_path / "none"), DOCUMENTS, config("none"), encoder).manifest
    held = index_here(str(tmp_path / "a"), DOCUMENTS, config(one), encoder).manifest
    check_encoder(one, held, "a")
    check_table(one, held, "a", 256)
    with pytest.raises(ArchiveError, match=r"holds no compressed chunks.*okralong index.*Nothing was spent"):
        check_table(one, without, "a", 256)
    with pytest.raises(ArchiveError, match=r"compressed by \w{12}, and the compressor .*other is \w{12}"):
        check_table(other, held, "a", 256)
    with pytest.raises(ArchiveError, match=r"sara.granularity is 150"):
        check_table(one, held, "a", 150)
    by_sentence = random_compressor(tmp_path / "sentences", unit="sentence")
    with pytest.raises(ArchiveError, match=r"compressed by \w{12}, and the compressor .*sentences is \w{12}"):
        check_table(by_sentence, held, "a", 256)
    wrong = random_compressor(tmp_path / "wrong", inputs=100)
    with pytest.raises(ConfigError, match=r"reads vectors of length 100, and the archive's have length 384"):
        check_encoder(wrong, held, "a")
