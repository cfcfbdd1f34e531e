"""The language of a question: given in its row, or detected, and a column of the answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.types import Answer
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.questions import question_row, read_questions
from okralong.pipelines.run.rows import answer_row
from tests.languages.test_archives import TEXTS

WORDS = IndexConfig(granularities=[150, 512], embedding=EmbeddingConfig(of="none"))

ROWS = [
    {"query_id": "few", "question": "Umsatz 2022", "doc_ids": "de"},
    {"query_id": "told", "question": "Umsatz 2022", "language": "fr-CA"},
    {"query_id": "english", "question": "How high was revenue?"},
    {"query_id": "wrong", "question": "Umsatz", "language": "Deutsch!"},
]


def test_a_row_may_give_its_language() -> None:
    asked, bad = read_questions(ROWS)
    assert [each.language for each in asked] == ["", "fr", ""]
    assert question_row(asked[1])["language"] == "fr"
    assert "language" not in question_row(asked[0])
    assert [each.query_id for each in bad] == ["wrong"]
    assert "no code of ISO 639" in bad[0].message
    (carried, *_), _ = read_questions([ROWS[3]], carry=["language"])
    assert (carried.language, carried.carried) == ("", {"language": "Deutsch!"})


@pytest.mark.slow
def test_a_run_detects_what_is_not_given(tmp_path: Path) -> None:
    raw = [RawDocument(name, TEXTS[f"{name}.txt"], name) for name in ("de", "en")]
    archive = index_here(str(tmp_path / "archive"), raw, WORDS)
    config = load_config(RunConfig, "answer.yaml", {"strategy": "okralong"})
    prepared = prepare(archive.location, ROWS, config)
    languages = {each.question.query_id: each.question.language for each in prepared.questions}
    assert languages == {"few": "de", "told": "fr", "english": "en"}
    row = answer_row(prepared.questions[0].question, ("de",), Answer("unanswerable", ""), "okralong", {})
    assert row["language"] == "de"
    assert set(row) <= set(ANSWERS.names)
