"""The index config: the shipped file is the default, and what is impossible is refused with its key."""

from __future__ import annotations

import pytest

from okralong.pipelines.core.config import load_config, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig


def test_the_shipped_file_says_the_defaults() -> None:
    assert load_config(IndexConfig, "index.yaml") == IndexConfig()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("granularities: []", "granularities"),
        ("granularities: [150, 150]", "granularities"),
        ("granularities: [8]", "granularities"),
        ("embedding: {precision: int4}", "embedding.precision"),
        ("embedding: {precision: int8, gpus_per_actor: 0.5}", "int8 runs on CPUs"),
        ("embedding: {gpus_per_actor: -1.0}", "embedding.gpus_per_actor"),
        ("embedding: {gpus: 1}", "embedding.gpus is not a known key"),
        ("shards: 0", "shards"),
        ("limits: {document_s: 0.0}", "limits.document_s"),
        ("limits: {document_s: .inf}", "limits.document_s"),
        ("limits: {document_gib: 0.01}", "limits.document_gib"),
        ("limits: {document_mb: 5.0}", "limits.document_mb is not a known key"),
        ("max_file_megabytes: .inf", "max_file_megabytes"),
    ],
)
def test_impossible_values_are_refused(text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        parse_config(IndexConfig, text, "index.yaml")


def test_a_question_is_embedded_alike_whatever_stands_beside_it_unless_the_config_says_bfloat16() -> None:
    named = ("auto", "float32", "int8", "bfloat16")
    asked = {precision: EmbeddingConfig(precision=precision).query_precision for precision in named}
    assert asked == {"auto": "float32", "float32": "float32", "int8": "float32", "bfloat16": "bfloat16"}


def test_int8_takes_no_gpu() -> None:
    assert EmbeddingConfig().gpus is None
    assert EmbeddingConfig(gpus_per_actor=0.5).gpus == 0.5
    assert EmbeddingConfig(precision="int8").gpus == EmbeddingConfig(precision="int8", gpus_per_actor=0).gpus == 0
