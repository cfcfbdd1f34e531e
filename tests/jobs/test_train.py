"""``okralong train``: as a Ray task and without Ray, from rows to an analyzer that answers use."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzers.config import AnalyzerConfig, load_analyzer
from okralong.pipelines.storage import Folder
from okralong.pipelines.training.rows import TrainingRow, write_rows
from tests.jobs.conftest import call
from tests.training.questions import invented_examples

CONFIG = """
kind: heads
hidden: 32
dropout: 0.0
learning_rate: 0.01
epochs: 8
batch_size: 6
accumulation: 1
patience: 8
"""


def rows(first: int, last: int) -> list[TrainingRow]:
    found = []
    for number, each in enumerate(invented_examples(first, last)):
        types, _, _ = (labels for _, labels in FIELDS)
        asked = each.asked
        found.append(
            TrainingRow(
                f"q{first}-{number}",
                "invented all",
                (f"firm {first + number // 6}",),
                asked.question,
                asked.passages,
                asked.scores.exact,
                asked.scores.semantic,
                types[each.labels[0]],  # type: ignore[arg-type]
                "exact",
                each.labels[2] == 0,
            )
        )
    return found


@pytest.mark.parametrize("here", [True, False])
def test_from_rows_to_an_analyzer_in_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ray_cluster: None,
    here: bool,
) -> None:
    folder = Folder.of(tmp_path / "rows")
    write_rows(folder, "train", rows(0, 5))
    write_rows(folder, "validation", rows(5, 7))
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "mine", *(["--here"] if here else [])]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options)
    assert code == 0, said
    written = {path.name for path in (tmp_path / "mine").iterdir()}
    assert {"README.md", "calibration.json", "curves.svg", "heads.json", "heads.safetensors", "history.json"} <= written
    card = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert "30 train rows, 12 validation rows" in card
    assert "question-type" in card
    analyzer = load_analyzer(AnalyzerConfig(kind="heads", adapter=str(tmp_path / "mine")))
    unseen = rows(5, 7)
    said_types = [each.type for each in analyzer.analyze([example.asked for example in invented_examples(5, 7)])]
    assert said_types == [row.type for row in unseen]


def test_rows_that_are_missing_are_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "mine", "--here"]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options)
    assert code == 2
    assert "holds no training rows. Make them with" in said
    (tmp_path / "config.yaml").write_text(CONFIG.replace("heads", "label_scorer"), encoding="utf-8")
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options)
    assert code == 2
    assert "a label_scorer learns an adapter: give lora" in said
