"""Questions are embedded without sentence-transformers, to the same vectors, where their encoder is a plain one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.indexing.query_encoder import PlainEncoder
from okralong.pipelines.models.weights import resolve_embedding_model

pytestmark = pytest.mark.slow

TEXTS = ["What was the revenue in 2021?", "Who?", "the margin of every segment " * 120, "Größe, naïve café"]


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(resolve_embedding_model("embedded").path)


@pytest.mark.parametrize("prefix", [None, "query: "])
def test_vectors_are_those_of_sentence_transformers(folder: Path, prefix: str | None) -> None:
    wanted = EmbeddingConfig(model="embedded", query_prefix=prefix)
    plain = PlainEncoder.load(folder, wanted)
    assert plain is not None
    peer = SentenceEmbedder(str(folder), wanted.max_seq_length, "float32", query_prefix=prefix)
    assert plain.dimension == peer.dimension
    for texts in (TEXTS, TEXTS[:1], TEXTS[2:3]):
        np.testing.assert_allclose(plain.encode_queries(texts), peer.encode_queries(texts), atol=2e-6)
    assert plain.encode_queries([]).shape == (0, plain.dimension)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
        ("sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": True}),
        ("modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""}]),
    ],
)
def test_a_model_of_another_kind_is_left_to_the_library(folder: Path, tmp_path: Path, file: str, said: object) -> None:
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    (copy / file).write_text(json.dumps(said), encoding="utf-8")
    assert PlainEncoder.load(copy, EmbeddingConfig(model=str(copy))) is None


def test_the_library_is_not_loaded_for_a_question() -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from okralong.pipelines.indexing.config import EmbeddingConfig\n"
        "from okralong.pipelines.indexing.query_encoder import PlainEncoder\n"
        "from okralong.pipelines.models.weights import resolve_embedding_model\n"
        "model = PlainEncoder.load(Path(resolve_embedding_model('embedded').path), EmbeddingConfig(model='embedded'))\n"
        "model.encode_queries(['Who?'])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"sentence_transformers", "sklearn", "pandas"} & set(done.stdout.split())
