"""Multilingual encoders and cross-encoders are a line of a config: tiny models in the layouts of E5, BGE-M3 and its
reranker, with one character per token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from okralong.lab.datasets.encoder import plain_encoder
from okralong.pipelines.answering.rerank import RerankerConfig
from okralong.pipelines.archive.search import search
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.indexing.query_encoder import PlainEncoder, load_query_encoder, settings_of_vectors
from okralong.pipelines.models.cross_encoder import CrossEncoder
from tests.languages.test_archives import TEXTS

pytestmark = pytest.mark.slow

POSITIONS = 66


def write_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    letters = sorted({char for text in TEXTS.values() for char in text if not char.isspace()} | set("query:pasg"))
    tokenizer = Tokenizer(models.WordLevel({each: n for n, each in enumerate(marks + letters)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("", "isolated")]
    )
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=POSITIONS - 2,
    ).save_pretrained(folder)
    return len(marks + letters)


def write_model(folder: Path, ranks: bool = False) -> Path:
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification, XLMRobertaModel

    config = XLMRobertaConfig(
        vocab_size=write_tokenizer(folder),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        type_vocab_size=1,
        num_labels=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model: Any = XLMRobertaForSequenceClassification(config) if ranks else XLMRobertaModel(config)
    model.save_pretrained(folder)
    return folder


def write_encoder(folder: Path, pooling: str) -> str:
    write_model(folder)
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(kinds.items())
    ]
    modes = {f"pooling_mode_{each}": each == pooling for each in ("cls_token", "mean_tokens")}
    for name, said in (
        ("modules.json", modules),
        ("sentence_bert_config.json", {"max_seq_length": POSITIONS - 2, "do_lower_case": False}),
        ("1_Pooling/config.json", {"word_embedding_dimension": 32, **modes}),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(said), encoding="utf-8")
    return str(folder)


@pytest.mark.parametrize(("name", "pooling"), [("multilingual-e5-small", "mean_tokens"), ("bge-m3", "cls_token")])
async def test_an_encoder_is_one_line(tmp_path: Path, name: str, pooling: str) -> None:
    model = write_encoder(tmp_path / name, pooling)
    wanted = EmbeddingConfig(model=model, of="each")
    prefixes = ("query: ", "passage: ") if name.endswith("e5-small") else (None, None)
    assert (wanted.query_prefix, wanted.passage_prefix) == prefixes
    config = IndexConfig(granularities=[16], embedding=wanted)
    raw = [RawDocument(file.removesuffix(".txt"), text, file) for file, text in TEXTS.items()]
    archive = index_here(str(tmp_path / "archive"), raw, config, plain_encoder(model))
    encoder = load_query_encoder(archive.manifest, 8)
    assert isinstance(encoder, PlainEncoder) == (pooling == "mean_tokens")
    whole = "".join(TEXTS.values())  # longer than the model reads
    peer = SentenceEmbedder(model, 512, "float32", query_prefix=prefixes[0], passage_prefix=prefixes[1])
    for texts in ([TEXTS["zh.txt"][:30], whole],):
        np.testing.assert_allclose(encoder.encode_queries(texts), peer.encode_queries(texts), atol=2e-6)
    differs = not np.allclose(peer.encode_queries(["提高股息"]), peer.encode(["提高股息"]), atol=1e-3)
    assert differs == (prefixes[0] is not None)
    (vector,) = encoder.encode_queries(["董事会向股东建议提高股息"])
    found = await search(archive.clients(16), "", vector, (), 3)
    assert found.semantic[0].chunk.doc_id in ("zh", "ja")


def test_a_cross_encoder_is_one_line(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "bge-reranker-v2-m3", ranks=True)
    config = RerankerConfig(model=str(folder))
    assert not config.reads_spans
    loaded = CrossEncoder.load(config.folder(), "float32")
    passages = list(TEXTS.values())
    readings = loaded.read(["董事会建议什么？"] * len(passages), passages)
    assert len({round(each.relevance, 6) for each in readings}) == len(passages)
    # The end of a longer passage is not read.
    (cut,) = loaded.read(["董事会建议什么？"], ["".join(passages)])
    assert cut.relevance == pytest.approx(readings[0].relevance, abs=1e-5)


def test_an_archive_of_an_earlier_release_gets_no_prefixes_of_e5() -> None:
    now = IndexConfig(embedding=EmbeddingConfig(model="intfloat/multilingual-e5-small")).content()
    assert settings_of_vectors({"config": now}).query_prefix == "query: "
    before = {**now, "embedding": {**now["embedding"], "query_prefix": None, "passage_prefix": None}}
    assert settings_of_vectors({"config": before}).query_prefix is None
