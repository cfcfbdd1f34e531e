"""The encoder without Ray: unit vectors, whole chunks, and an honest count of what it does not see."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.models.weights import resolve_embedding_model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    return SentenceEmbedder(resolve_embedding_model("embedded").path, precision="float32")


def test_unit_vectors_in_the_order_given(embedder: SentenceEmbedder) -> None:
    texts = ["A long text about apples and pears in the valley. " * 8, "Lamps.", "Two boats cross the sound."]
    vectors = embedder.encode(texts)
    assert vectors.shape == (3, embedder.dimension) == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    for number, text in enumerate(texts):
        np.testing.assert_allclose(embedder.encode([text])[0], vectors[number], atol=1e-5)
    assert embedder.encode([]).shape == (0, 384)


def test_passes_of_our_own_give_what_the_library_gives(embedder: SentenceEmbedder) -> None:
    draw = np.random.default_rng(1)
    words = [
        "the",
        "press",
        "was",
        "bought",
        "in",
        "March",
        "by",
        "a",
        "grower",
        "of",
        "pears",
        "|",
        "1,204",
        "|",
        "naïve",
        "café",
    ]
    texts = [" ".join(draw.choice(words, size)) for size in (*draw.integers(1, 90, size=20), 700)]
    model = SentenceTransformer(resolve_embedding_model("embedded").path, device="cpu")
    model.max_seq_length = embedder.limit
    embedded = embedder.embed(texts)
    assert embedder.beside_tokens is not None  # it is not the library that was asked
    np.testing.assert_allclose(embedded.vectors, model.encode_document(texts, normalize_embeddings=True), atol=1e-5)
    assert embedded.over_limit == embedder.over_limit(texts)
    assert any(embedded.over_limit)
    assert embedder.embed([]).over_limit == []


def test_a_model_that_is_more_than_its_tokens_embeds_by_itself(
    embedder: SentenceEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["word " * 600, "A second press was bought."]
    wanted = embedder.embed(texts)
    monkeypatch.setattr(embedder, "beside_tokens", None)
    found = embedder.embed(texts)
    np.testing.assert_allclose(found.vectors, wanted.vectors, atol=1e-5)
    assert found.over_limit == wanted.over_limit == [True, False]


def test_the_tail_of_a_400_token_chunk_is_in_its_vector(embedder: SentenceEmbedder) -> None:
    head = "The orchard grows apples and pears in the valley. " * 36
    plain = head + "It also sells pears in autumn and apples in spring to the shops."
    other = head + "The submarine volcano erupted under a violin concert in Lisbon!"
    assert 350 < count_tokens(plain) <= 400
    assert embedder.over_limit([plain, other]) == [False, False]
    first, second = embedder.encode([plain, other])
    assert float(first @ second) < 0.9999
    cut = SentenceEmbedder(resolve_embedding_model("embedded").path, max_seq_length=256, precision="float32")
    first, second = cut.encode([plain, other])
    assert float(first @ second) > 0.999999
    assert cut.over_limit([plain, other, "short"]) == [True, True, False]


def test_a_limit_beyond_the_positions_is_lowered_to_them() -> None:
    embedder = SentenceEmbedder(resolve_embedding_model("embedded").path, max_seq_length=4096, precision="float32")
    assert embedder.limit == 512
    assert embedder.over_limit(["word " * 511, "word " * 510]) == [True, False]


def test_what_stands_before_queries_and_passages(embedder: SentenceEmbedder) -> None:
    folder = resolve_embedding_model("embedded").path
    prefixed = SentenceEmbedder(folder, precision="float32", query_prefix="query: ", passage_prefix="passage: ")
    text = "Who sold the orchard?"
    wanted = embedder.encode(["query: " + text, "passage: " + text])
    found = np.stack([prefixed.encode_queries([text])[0], prefixed.encode([text])[0]])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(embedder.encode_queries([text]), embedder.encode([text]), atol=1e-6)
    longest = "word " * 510
    assert (embedder.over_limit([longest]), prefixed.over_limit([longest])) == ([False], [True])


def test_a_models_own_prompts_are_taken_unless_others_are_given(tmp_path: Path) -> None:
    folder = shutil.copytree(resolve_embedding_model("embedded").path, tmp_path / "prompted")
    settings = folder / "config_sentence_transformers.json"
    said = json.loads(settings.read_text()) | {"prompts": {"query": "ask: ", "passage": "read: "}}
    settings.write_text(json.dumps(said))
    own = SentenceEmbedder(str(folder), precision="float32")
    none = SentenceEmbedder(str(folder), precision="float32", query_prefix="", passage_prefix="")
    text = "Who sold the orchard?"
    wanted = none.encode(["ask: " + text, "read: " + text, text, text])
    found = [own.encode_queries([text]), own.encode([text]), none.encode_queries([text]), none.encode([text])]
    np.testing.assert_allclose(np.concatenate(found), wanted, atol=1e-5)


def test_bfloat16_stays_close_to_float32(embedder: SentenceEmbedder) -> None:
    half = SentenceEmbedder(resolve_embedding_model("embedded").path, precision="bfloat16")
    texts = ["Sales of cider rose because a second press was bought."]
    found = half.encode(texts)
    assert found.dtype == np.float32
    assert float(found[0] @ embedder.encode(texts)[0]) > 0.995


def test_int8_is_another_encoder_near_float32(embedder: SentenceEmbedder) -> None:
    quantized = SentenceEmbedder(resolve_embedding_model("embedded").path, precision="int8")
    assert (quantized.precision, quantized.device) == ("int8", "cpu")
    texts = ["Sales of cider rose because a second press was bought.", "The ferry was late. " * 40, "Lamps."]
    found = quantized.embed(texts)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1.0, atol=1e-5)
    near = (found.vectors * embedder.encode(texts)).sum(axis=1)
    assert 0.9 < near.min() < 0.9999
    assert found.over_limit == [False] * 3
    queries = quantized.encode_queries(["Why did sales rise?"])
    assert int((found.vectors @ queries[0]).argmax()) == 0


def test_int8_on_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="not on cuda"):
        SentenceEmbedder(resolve_embedding_model("embedded").path, precision="int8", device="cuda")


def test_a_folder_without_safetensors_says_what_to_give(tmp_path: Path) -> None:
    """As facebook/contriever-msmarco is published: its weights are in pytorch_model.bin, which can hold code."""
    packaged = Path(resolve_embedding_model("embedded").path)
    for name in ("vocab.txt", "tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((packaged / name).read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"weights")
    with pytest.raises(ConfigError, match="only safetensors are read"):
        SentenceEmbedder(str(tmp_path))


def test_a_plain_folder_is_read_with_mean_pooling(embedder: SentenceEmbedder, tmp_path: Path) -> None:
    """As the paper's Contriever is used: a transformer without sentence-transformers' files."""
    packaged = Path(resolve_embedding_model("embedded").path)
    for name in ("vocab.txt", "tokenizer_config.json", "config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((packaged / name).read_bytes())
    texts = ["Sales were 12.5 million.", "Moss chairs the board."]
    assert SentenceEmbedder(str(tmp_path), precision="float32").encode(texts) == pytest.approx(
        embedder.encode(texts), abs=1e-5
    )
