"""The end of a run on the terminal: its own score, where the questions have gold answers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from okralong.jobs.summary import print_summary
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import ANSWERS


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """Three questions: two answered, and one that failed."""
    rows: list[dict[str, Any]] = [
        {"query_id": "q1", "question": "Sales?", "status": "answered", "answer": "1544"},
        {"query_id": "q2", "question": "Chair?", "status": "answered", "answer": "Moss"},
        {"query_id": "q3", "question": "Good?", "status": "failed", "answer": None},
    ]
    shared: dict[str, Any] = {"citations": [], "doc_ids": [], "finished_at": datetime(2026, 1, 1, tzinfo=UTC)}
    folder = Folder.of(tmp_path / "run")
    answers = pa.Table.from_pylist([{**shared, **row} for row in rows], schema=ANSWERS)
    folder.at("answers").write_table("part-000000001.parquet", answers)
    return folder


@pytest.mark.parametrize(
    ("golds", "said"),
    [
        # 1 for the number, 2/3 for "Moss" of "Ida Moss", 0 for the failed one.
        (
            {"q1": ("1,544",), "q2": ("Ida Moss",), "q3": ("yes",)},
            "answers of 3 questions: F1 0.56, exact match 0.33\n",
        ),
        ({"q1": ("1,544",), "q2": (), "elsewhere": ("yes",)}, "answers of 1 questions: F1 1.00, exact match 1.00\n"),
        ({"q2": ()}, None),
        (None, None),
    ],
)
def test_a_run_is_scored_over_the_questions_that_have_a_gold_answer(
    run: Folder, golds: Mapping[str, Sequence[str]] | None, said: str | None
) -> None:
    page = io.StringIO()
    print_summary(Console(file=page), run, "", golds)
    assert "2 answered, 1 failed; 0 cited" in page.getvalue()
    assert (said in page.getvalue()) if said else ("gold answers" not in page.getvalue())
