"""Runs over an archive of BM25 alone: no query embedder is loaded, and every question is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.actors.retrieval import needed_models
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


def retrievals(run: Path) -> list[dict[str, Any]]:
    return [json.loads(row["body"]) for row in table(Folder.of(run), "journal") if row["kind"] == "retrieval"]


def test_it_answers_without_a_query_embedder(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI, own_process: None
) -> None:
    questions = sample_folder / "questions.jsonl"
    rules = endpoint(reader)
    prepared = prepare(str(plain_archive), str(questions), load_config(RunConfig, "answer.yaml", rules))
    assert set(needed_models(prepared)) == {"analyzer", "reranker"}
    found = okralong.estimate(plain_archive, questions, **rules)
    assert set(found.strategies) == {"okralong", "long_context"}
    assert "embedding.of: none" in found.left_out["std_rag"]
    assert answer(plain_archive, questions, tmp_path / "run", **rules).statuses == {"answered": 18}
    assert all(body["exact"] and not body["semantic"] for body in retrievals(tmp_path / "run"))
    # Where the documents do not fit the window, the best chunks by BM25 are read.
    small = rules | {"strategy": "long_context", "llm.window": 3_000}
    assert answer(plain_archive, questions, tmp_path / "long", **small).statuses == {"answered": 18}
    assert all(body["exact"] and not body["semantic"] for body in retrievals(tmp_path / "long"))


def test_a_strategy_that_needs_vectors_is_refused(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match=r"std_rag.*--embed smallest.*Nothing was spent"):
        answer(plain_archive, sample_folder / "questions.jsonl", tmp_path, strategy="std_rag", **endpoint(reader))
    assert reader.received == []
