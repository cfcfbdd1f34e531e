"""An answer run with the calculator on: the generator is asked for formulas, and the answers table holds results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.pipelines.answering.prompts import FORMULA
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import always, endpoint, quoting
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


@pytest.mark.soak  # tests/answering/test_calculate.py
def test_formulas_are_asked_for_and_worked_out(sample_archive: Path, sample_folder: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join((sample_folder / "questions.jsonl").read_text().splitlines(keepends=True)[:2]))
    rules: list[Any] = [
        (lambda messages: FORMULA in messages[0]["content"], "Answer: =(12.5 - 10) / 10 * 100 %\nEvidence: [1]"),
        (always, quoting),
    ]
    told: dict[str, Any] = {"strategy": "std_rag", "llm.calculator": True, "llm.demonstrations": True}
    with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as server:
        answer(sample_archive, few, tmp_path / "run", **told, **endpoint(server))
    rows = table(Folder.of(tmp_path / "run"), "answers")
    assert [(row["answer"], row["cited"]) for row in rows] == [("25%", True)] * 2
