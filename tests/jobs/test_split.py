from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import Split


def meeting(number: int) -> str:
    turns = [
        {"speaker": "Chair", "content": f"We meet as group {number} ."},
        {"speaker": "Clerk", "content": "Noted ."},
    ]
    specific = {"query": f"What did group {number} note?", "answer": "It met.", "relevant_text_span": [["0", "1"]]}
    general = {"query": "Summarize the meeting", "answer": "A group met."}
    return json.dumps(
        {"meeting_transcripts": turns, "general_query_list": [general], "specific_query_list": [specific]}
    )


def test_split_writes_a_manifest_and_a_card(tmp_path: Path) -> None:
    (tmp_path / "qmsum").mkdir()
    (tmp_path / "qmsum" / "train.jsonl").write_text("\n".join(meeting(n) for n in range(20)), encoding="utf-8")
    result = CliRunner().invoke(app, ["split", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "reports/questions.jsonl" in result.output.replace("\n", "")
    split = Split.load(tmp_path / "out" / "manifest.parquet")
    (source,) = (source for source in load_catalog().sources if source.name == "qmsum")
    dataset = read_dataset(source, tmp_path)
    asked = {side: split.filter(dataset, side).items for side in ("train", "validation", "tune", "test")}
    assert [len(items) for items in asked.values()] == [10, 2, 2, 12]
    assert "| qmsum/train | 10 | 2 | 2 | 12 | 14 | 40 |" in (tmp_path / "out" / "card.md").read_text(encoding="utf-8")
