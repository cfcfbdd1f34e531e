"""An analyzer for one's own questions by the README's commands: types alone are enough."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.training.rows.tables import ANALYZER_ROWS
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.core.storage import Folder
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

MILLS = 24


def write_own(folder: Path) -> None:
    """A paper on each mill with a question of either of two types; of some the evidence is marked, too."""
    (folder / "documents").mkdir(parents=True)
    lines = []
    for number in range(MILLS):
        text = f"Mill {number} stands by the river. Its miller is Ada Reed the {number}th. It grinds corn. " * 12
        (folder / "documents" / f"mill{number}.txt").write_text(text, encoding="utf-8")
        scope = [f"mill{number}"]
        fact = {"question": f"Who is the miller of Mill {number}?", "doc_ids": scope, "type": "extractive"}
        if number % 2:
            fact["evidence"] = [f"Its miller is Ada Reed the {number}th."]
        wide = {"question": f"Summarize what is told of Mill {number}.", "doc_ids": scope, "type": "abstractive"}
        lines += [fact, wide]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_from_ones_own_questions_to_ones_own_analyzer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_own(tmp_path / "mine")
    options = ["--config", "training/own.yaml", "--out", tmp_path / "rows", "--work", tmp_path / "work"]
    code, said = call(monkeypatch, capsys, "train-data", tmp_path / "mine", *options)
    assert code == 0, said
    sides = {}
    for side in ("train", "validation", "test"):
        sides[side] = ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), side)
    assert sum(map(len, sides.values())) == 2 * MILLS
    documents = [{document for row in rows for document in row.documents} for rows in sides.values()]
    assert sum(map(len, documents)) == MILLS, "no document stands on two sides"
    known = [row for rows in sides.values() for row in rows if row.evidence is not None]
    assert len(known) == MILLS // 2
    assert all(row.type == "extractive" and row.passages for row in known)

    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "my-analyzer", "--here"]
    code, said = call(monkeypatch, capsys, "train", "training/own_heads.yaml", *options)
    assert code == 0, said
    mine = load_analyzer(AnalyzerConfig(adapter=str(tmp_path / "my-analyzer")))
    asked = [AnalysisInput(row.question, row.passages, row.scores) for row in sides["test"]]
    assert [each.type for each in mine.analyze(asked)] == [row.type for row in sides["test"]]
