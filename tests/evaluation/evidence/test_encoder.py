"""The bench's encoder: what it says of itself is what the loaded model would say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from okralong.lab.datasets.encoder import LIMIT, cached_encoder, index_encoder, over_limit
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.models.weights import resolve_embedding_model

pytestmark = pytest.mark.slow


def test_precision_and_limit_are_those_of_the_loaded_model(tmp_path: Path) -> None:
    path = resolve_embedding_model("embedded").path
    embedder = SentenceEmbedder(path, precision="float32")  # on any processor
    encoder = index_encoder(cached_encoder(tmp_path))
    assert encoder.precision() == embedder.precision
    assert embedder.limit == LIMIT
    texts = ["word " * 511, "word " * 510, "short", "Straße naïve 表 " * 200]
    assert encoder.over_limit(texts) == embedder.over_limit(texts) == [True, False, False, True]
    assert sum(over_limit(path, texts * 400, 2)) == 1600


def test_nothing_is_loaded_before_a_text_is_new() -> None:
    said = "from okralong.jobs import cli; from okralong.lab.evidence import sweep; import sys; "
    said += "from pathlib import Path; from okralong.lab.datasets import encoder; "
    said += "encoder.cached_encoder(Path('nowhere')); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
