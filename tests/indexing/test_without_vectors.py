"""An archive of BM25 alone (``embedding.of: none``): nothing is embedded, everything is found by words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from okralong.pipelines.answering.retrieve import fuse
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search, stored_vectors
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.indexing.maintenance import purge, vacuum
from okralong.pipelines.methods.registry import FullPolicy, describe
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare
from tests.conftest import LANTERN, ORCHARD

Embed = Callable[[list[str]], npt.NDArray[np.float32]]

SIZES = [64, 150]
NONE = IndexConfig(granularities=SIZES, shards=2, embedding=EmbeddingConfig(of="none"))
EACH = IndexConfig(granularities=SIZES, shards=2, embedding=EmbeddingConfig(of="each"))
RAW = [RawDocument("orchard", ORCHARD, "orchard.txt"), RawDocument("lantern", LANTERN, "lantern.md")]
WORDS = "Who founded the orchard?"


def encoder(embed: Embed, seen: list[str]) -> Encoder:
    def encode(texts: list[str]) -> npt.NDArray[np.float32]:
        seen.extend(texts)
        return embed(texts)

    return Encoder(encode, resolve_embedding_model("embedded"), lambda: "float32", lambda texts: [False] * len(texts))


async def test_it_is_searched_by_bm25_alone(minilm: Embed, tmp_path: Path) -> None:
    archive = index_here(str(tmp_path / "none"), RAW, NONE)
    assert not archive.has_vectors
    assert not Folder.of(tmp_path / "none").exists("vectors")
    assert not list((tmp_path / "none").rglob("vectors.npy"))
    assert (archive.manifest["embedding"]["of"], archive.manifest["embedding"]["dimension"]) == ("none", 0)
    whole = index_here(str(tmp_path / "each"), RAW, EACH, encoder(minilm, []))
    (vector,) = minilm([WORDS])
    for scope in ((), ("orchard",), ("lantern", "orchard")):
        found = await search(archive.clients(64), WORDS, None, scope, 5)
        wanted = await search(whole.clients(64), WORDS, vector, scope, 5)
        assert found.exact == wanted.exact
        assert not found.semantic
        assert wanted.semantic
    with pytest.raises(ArchiveError, match=r"embedding\.of: none"):
        await stored_vectors(archive.clients, [hit.chunk for hit in found.exact])


async def test_vectors_come_later_and_are_not_lost(minilm: Embed, tmp_path: Path) -> None:
    seen: list[str] = []
    first = index_here(str(tmp_path), RAW, NONE)
    assert index_here(str(tmp_path), RAW, NONE).version == first.version == 1
    second = index_here(str(tmp_path), RAW, EACH, encoder(minilm, seen))
    assert (second.version, second.has_vectors, first.has_vectors) == (2, True, False)
    assert seen
    (vector,) = minilm([WORDS])
    found = (await search(second.clients(150), WORDS, vector, (), 9)).semantic
    held = await stored_vectors(second.clients, [hit.chunk for hit in found])
    np.testing.assert_allclose(held, minilm([hit.chunk.text for hit in found]), atol=1e-5)
    seen.clear()
    third = index_here(str(tmp_path), RAW, NONE)
    assert third.manifest["files"]["index"] == first.manifest["files"]["index"]
    fourth = index_here(str(tmp_path), RAW, EACH, encoder(minilm, seen))
    assert fourth.manifest["files"]["index"] == second.manifest["files"]["index"]
    assert seen == []


async def test_a_next_version_takes_rows_over_and_a_purge_works(tmp_path: Path) -> None:
    index_here(str(tmp_path), RAW, NONE)
    more = [*RAW, RawDocument("ferry", "The Petrel crosses the sound twice a day.", "ferry.txt")]
    index_here(str(tmp_path), more, NONE)
    found = await search(Archive.open(tmp_path).clients(64), "the Petrel", None, (), 3)
    assert [hit.chunk.doc_id for hit in found.exact] == ["ferry"]
    folder = Folder.of(tmp_path)
    purge(folder, "ferry", by="a test")
    vacuum(folder, 1)
    archive = Archive.open(tmp_path)
    assert archive.doc_ids() == ["lantern", "orchard"]
    assert not (await search(archive.clients(64), "the Petrel crosses", None, ("lantern",), 3)).semantic


@pytest.mark.parametrize(
    ("given", "key"),
    [({"dense": {"index": "ivf"}}, "dense.index ivf"), ({"compressor": "shipped"}, "compressor needs vectors")],
)
def test_what_needs_vectors_is_refused_with_its_key(given: dict[str, object], key: str) -> None:
    with pytest.raises(ValueError, match=key):
        IndexConfig.model_validate({"embedding": {"of": "none"}, **given})


def test_an_encoder_is_asked_for_where_vectors_are_wanted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no encoder was given"):
        index_here(str(tmp_path), RAW, EACH)


@pytest.mark.parametrize(
    ("strategy", "policy", "refused"),
    [
        ("okralong", "policy/default.yaml", False),
        ("okralong_precise", "policy/paper.yaml", False),
        ("long_context", "policy/default.yaml", False),
        ("budget_rag", "policy/default.yaml", False),
        ("std_rag", "policy/default.yaml", True),
        ("raptor", "policy/default.yaml", True),
        ("flare", "policy/default.yaml", True),
    ],
)
def test_strategies_that_retrieve_by_vectors_are_refused_before_anything_is_spent(
    tmp_path: Path, strategy: str, policy: str, refused: bool
) -> None:
    index_here(str(tmp_path / "archive"), RAW, IndexConfig(embedding=EmbeddingConfig(of="none")))
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"query_id": "q", "question": "Who founded it?"}\n', encoding="utf-8")
    config = load_config(RunConfig, "answer.yaml", {"strategy": strategy, "policy": policy})
    if refused:
        with pytest.raises(ConfigError, match=r"embedding\.of: none.*Nothing was spent"):
            prepare(str(tmp_path / "archive"), str(questions), config)
    else:
        assert prepare(str(tmp_path / "archive"), str(questions), config).strategy.name == strategy


def test_policies_that_choose_by_vectors_say_so() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    dense = load_config(FullPolicy, "policy/default.yaml", {"fusion.only": "semantic"})
    assert [describe("okralong", each).needs.vectors for each in (policy, dense)] == [False, True]
    budget = load_config(FullPolicy, "policy/default.yaml", {"budget_rag.retriever": "semantic"})
    assert [describe("budget_rag", each).needs.vectors for each in (policy, budget)] == [False, True]
    assert describe("sara", policy).needs.vectors


async def test_bm25_ranks_whatever_the_weights_where_nothing_is_semantic(tmp_path: Path) -> None:
    archive = index_here(str(tmp_path), RAW, NONE)
    found = await search(archive.clients(64), WORDS, None, (), 5)
    for weights in ((0.0, 1.0), (2.0, 3.0)):
        assert [hit.chunk for hit in fuse(found, *weights)] == [hit.chunk for hit in found.exact]
