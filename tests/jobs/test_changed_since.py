"""A night after the first: one report changed, and only the questions that rest on it are asked again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OK
from okralong.pipelines.run.rows import table
from tests.conftest import index_plain
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


def test_only_questions_on_changed_documents_are_asked(sample_folder: Path, tmp_path: Path, reader: FakeOpenAI) -> None:
    sources = tmp_path / "reports"
    shutil.copytree(sample_folder / "reports", sources)
    archive, questions = tmp_path / "archive", tmp_path / "questions.jsonl"
    first = index_plain(archive, sources)
    changed, other = sorted(sources.iterdir())[:2]
    rows = [
        {"query_id": "changed", "question": "What is the revenue?", "doc_ids": [changed.stem]},
        {"query_id": "other", "question": "What is the revenue?", "doc_ids": [other.stem]},
        {"query_id": "whole", "question": "Which company is the largest?"},
    ]
    questions.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    given = {"policy": PAPER, **endpoint(reader)}
    run = tmp_path / "run"
    nothing = okralong.answer(archive, questions, run, changed_since=first.version, **given)
    assert (nothing.exit_code, nothing.statuses, run.exists()) == (EXIT_OK, {}, False)
    changed.write_text(changed.read_text(encoding="utf-8") + "\nA tail was added.\n", encoding="utf-8")
    second = index_plain(archive, sources)
    assert (second.version, second.changes["changed"], second.work["files_read"]) == (2, 1, 1)
    answer(archive, questions, run, changed_since=first.version, **given)
    assert sorted(row["query_id"] for row in table(Folder.of(run), "answers")) == ["changed", "whole"]
    manifest = Folder.of(run).read_manifest() or {}
    assert (manifest["archive"]["version"], manifest["questions"]) == (2, 2)
