"""Documents are indexed apart, size by size, so that latencies can include indexing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.datasets.encoder import over_limit
from okralong.lab.datasets.pooling import pool
from okralong.lab.datasets.wiki import read_hotpotqa
from okralong.lab.sweeps.index_times import index_rates, seconds_of
from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model
from tests.evaluation.evidence.town import rows


def test_each_size_is_timed_once_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "town.json"
    file.write_text(json.dumps(rows()), encoding="utf-8")
    data = read_hotpotqa(file, "all")
    pooled = pool(data.items, data.texts, 900, 7, name="town")
    kept = tmp_path / "sets" / "index_times.json"
    rates = index_rates(kept, pooled, [64, 150], EMBEDDED, count=1)
    assert set(rates) == {64, 150}
    assert min(rates.values()) > 0
    assert index_rates(kept, pooled, [64], EMBEDDED, count=1) == rates, "measured before"
    assert set(index_rates(kept, pooled, [64], EMBEDDED, count=6)) == {64}, "other documents"
    assert seconds_of(rates, [64, 150], 1000) == pytest.approx(1000 * (rates[64] + rates[150]))
    assert seconds_of(rates, [], 1000) == 0


def test_a_model_without_the_newer_tokenizer_file_counts_alike(tmp_path: Path) -> None:
    """As facebook/contriever-msmarco is published: with a vocabulary only."""
    packaged = Path(resolve_embedding_model(EMBEDDED).path)
    for name in ("vocab.txt", "tokenizer_config.json", "config.json"):
        (tmp_path / name).write_bytes((packaged / name).read_bytes())
    texts = ["short", "a longer text of several words " * 20]
    assert over_limit(str(tmp_path), texts, 64) == over_limit(str(packaged), texts, 64) == [False, True]
