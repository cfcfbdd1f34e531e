"""Analyzer and query embedder on real Serve: calls that come together are worked on together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from okralong.actors.cluster import remove_apps, run_apps
from okralong.actors.models import QueryEmbedderReplica, analyzer_app, query_embedder_app, reranker_app
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import MINILM_SHA256

CALLS, MANY = 24, 400
LONG_S = 10.0
"""How long a batch that is not full waits. Those here become full, however slowly their calls come."""
MANIFEST: dict[str, Any] = {
    "config": {"embedding": {"model": "embedded", "max_seq_length": 512, "precision": "float32"}},
    "embedding": {"sha256": MINILM_SHA256, "dimension": 384},
}


def test_analyzer_batches_concurrent_calls(ray_cluster: None) -> None:
    config = AnalyzerConfig(max_batch=8, batch_wait_s=LONG_S)
    (handle,) = run_apps({"analyzer-under-test": analyzer_app(config)})
    asked = [AnalysisInput(f"What was the average of {n} and 7?", ("Seven.",)) for n in range(CALLS)]
    pending = [handle.remote(one) for one in asked]
    together = [one.result(timeout_s=120) for one in pending]
    for one, alone in zip(together, load_analyzer(config).analyze(asked), strict=True):
        assert one.analyzer == alone.analyzer == "heads:shipped"
        assert one.type_probabilities == pytest.approx(alone.type_probabilities, abs=1e-4)
        assert one.evidence_probability == pytest.approx(alone.evidence_probability, abs=1e-4)
    sizes = handle.stats.remote().result(timeout_s=60)
    assert sum(size * count for size, count in sizes.items()) == CALLS
    assert sizes == {8: CALLS // 8}
    remove_apps(["analyzer-under-test"])


def test_query_embedder_batches_and_agrees_with_single_calls(ray_cluster: None) -> None:
    (handle,) = run_apps({"embedder-under-test": query_embedder_app(MANIFEST)})
    queries = [f"revenue of division {n}" for n in range(CALLS)]
    alone = handle.remote(queries[3]).result(timeout_s=120)
    pending = [handle.remote(query) for query in queries]
    vectors = np.stack([one.result(timeout_s=120) for one in pending])
    assert vectors.shape == (CALLS, 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors[3] == pytest.approx(alone, abs=1e-5)
    sizes = handle.stats.remote().result(timeout_s=60)
    assert sum(size * count for size, count in sizes.items()) == CALLS + 1
    assert max(sizes) >= 4
    remove_apps(["embedder-under-test"])


def test_calls_that_come_by_the_hundred_fill_the_batches(ray_cluster: None) -> None:
    """A replica that refused some would have them from Ray's router one by one, after its pauses."""
    (handle,) = run_apps({"embedder-under-test": query_embedder_app(MANIFEST)})
    pending = [handle.remote(f"revenue of division {n}") for n in range(MANY)]
    assert all(len(one.result(timeout_s=120)) == 384 for one in pending)
    sizes = handle.stats.remote().result(timeout_s=60)
    assert sum(size * count for size, count in sizes.items()) == MANY
    assert sum(sizes.values()) <= MANY // 4  # one by one they are some hundreds
    remove_apps(["embedder-under-test"])


def test_reranker_reads_queries_together_and_agrees_with_single_calls(ray_cluster: None) -> None:
    config = RerankerConfig(precision="float32", batch_wait_s=2.0)
    (handle,) = run_apps({"reranker-under-test": reranker_app(config)})
    passages = ["Alder sold 1,204 loaves in 2023.", "Rails are made of steel."]
    pending = [handle.remote(f"How many loaves did Alder sell in {2020 + n}?", passages[: 1 + n % 2]) for n in range(8)]
    together = [one.result(timeout_s=120) for one in pending]
    assert [len(found) for found in together] == [1, 2] * 4
    alone = load_reranker(config).read(["How many loaves did Alder sell in 2023?"] * 2, passages)
    for one, other in zip(together[3], alone, strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=1e-3)
        assert (one.start, one.end) == (other.start, other.end)
    assert together[3][0].relevance > together[3][1].relevance
    sizes = handle.stats.remote().result(timeout_s=60)
    assert sum(size * count for size, count in sizes.items()) == 8
    assert max(sizes) >= 4
    remove_apps(["reranker-under-test"])


def test_what_cannot_be_loaded_is_explained(ray_cluster: None) -> None:
    broken = AnalyzerConfig(kind="label_scorer", model="/no/such/model", adapter=None)
    with pytest.raises(ConfigError, match="analyzer-broken"):
        run_apps({"analyzer-broken": analyzer_app(broken)})
    remove_apps(["analyzer-broken"])


def test_other_weights_than_the_archives_are_refused() -> None:
    other = {**MANIFEST, "embedding": {"sha256": "0" * 64, "dimension": 384}}
    with pytest.raises(ConfigError, match=r"made with other weights .*Index the archive again"):
        QueryEmbedderReplica(other)
