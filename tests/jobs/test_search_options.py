"""The ``search`` part of an answer config: several processes for a shard, and GPUs that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


@pytest.fixture
def questions(sample_folder: Path, tmp_path: Path) -> Path:
    """The first four questions of the sample."""
    lines = (sample_folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()[:4]
    assert all(json.loads(line)["question"] for line in lines)
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "questions.jsonl"


@pytest.mark.soak  # tests/search/test_replicas.py
def test_two_processes_for_a_shard_answer_as_one_does(
    sample_archive: Path, questions: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    given = {"strategy": "std_rag", "analyzer.kind": "rules", **endpoint(reader)}
    runs = [tmp_path / "run-1", tmp_path / "run-2"]
    answer(sample_archive, questions, runs[0], **given)
    okralong.answer(sample_archive, questions, runs[1], **given, **{"search.replicas": 2})
    contexts = [{row["query_id"]: row["context"] for row in table(Folder.of(run), "answers")} for run in runs]
    assert len(contexts[0]) == 4
    assert contexts[0] == contexts[1]


def test_more_gpus_than_the_cluster_has_are_refused(
    sample_archive: Path, questions: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match=r"search\.gpus_per_shard.*1 process.*0 GPUs"):
        okralong.answer(
            sample_archive, questions, tmp_path / "run", **{"search.gpus_per_shard": 1.0}, **endpoint(reader)
        )
    assert not reader.received
