"""``okralong train``: as a Ray task and without Ray, from rows to an analyzer that answers use."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from okralong.lab.datasets.split import Side
from okralong.lab.training.learners import fit
from okralong.lab.training.rows.tables import ANALYZER_ROWS, TrainingRow
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.models.weights import resolve_embedding_model
from tests.jobs.conftest import call
from tests.training.questions import invented_examples

pytestmark = pytest.mark.slow

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
                asked.scores.semantic_ranks,
                TYPES[each.labels[0]],
                "exact",
                each.labels[2] == 0,
            )
        )
    return found


@pytest.mark.parametrize("here", [pytest.param(True, marks=pytest.mark.soak), False])
def test_from_rows_to_an_analyzer_in_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ray_cluster: None,
    here: bool,
) -> None:
    folder = Folder.of(tmp_path / "rows")
    ANALYZER_ROWS.write(folder, "train", rows(0, 5))
    ANALYZER_ROWS.write(folder, "validation", rows(5, 7))
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "mine", *(["--here"] if here else [])]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options)
    assert code == 0, said
    assert re.search(r"step 5 of 40: loss on validation \d\.\d{3}, about \d+ minutes left", said), said
    written = {path.name for path in (tmp_path / "mine").iterdir()}
    assert {"README.md", "calibration.json", "curves.svg", "heads.json", "heads.safetensors", "history.json"} <= written
    card = (tmp_path / "mine" / "README.md").read_text(encoding="utf-8")
    assert "30 train rows, 12 validation rows" in card
    assert "question-type" in card
    analyzer = load_analyzer(AnalyzerConfig(kind="heads", adapter=str(tmp_path / "mine")))
    unseen = rows(5, 7)
    said_types = [each.type for each in analyzer.analyze([example.asked for example in invented_examples(5, 7)])]
    assert said_types == [row.type for row in unseen]


def test_a_report_holds_analyzers_against_test_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder.of(tmp_path / "rows")
    parts: list[tuple[Side, int, int]] = [("train", 0, 4), ("validation", 4, 5), ("test", 5, 7)]
    for side, first, last in parts:
        ANALYZER_ROWS.write(folder, side, rows(first, last))
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    options = ["--rows", tmp_path / "rows", "--out"]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options, tmp_path / "mine", "--here")
    assert code == 0, said
    (tmp_path / "report.yaml").write_text(
        f"analyzers:\n  mine: {{kind: heads, adapter: {tmp_path}/mine}}\ntimed: 2\nbatches: [1, 2]\n", encoding="utf-8"
    )
    arguments = ["train", tmp_path / "report.yaml", "--report", *options, tmp_path / "out"]
    code, said = call(monkeypatch, capsys, *arguments)
    assert code == 0, said
    found = json.loads((tmp_path / "out" / "analyzers.json").read_text(encoding="utf-8"))
    assert set(found["figures"]) == {"majority class", "keyword rules", "mine"}
    kind, pattern, _ = found["figures"]["mine"]
    assert (kind["rows"], kind["accuracy"]["value"]) == (12, 1.0)
    assert pattern["accuracy"]["value"] == found["figures"]["majority class"][1]["accuracy"]["value"] == 1.0
    assert found["figures"]["majority class"][0]["accuracy"]["value"] == pytest.approx(1 / 3, abs=1e-6)
    assert found["figures"]["majority class"][2]["calibration_error"] is None
    assert set(found["times"]) == {"keyword rules", "mine"}
    assert found["times"]["mine"]["1"] > 0
    page = (tmp_path / "out" / "analyzers.md").read_text(encoding="utf-8")
    assert "| mine | question-type | 12 | 1.000 [1.000, 1.000] |" in page
    assert "### mine: containing" in page


def test_a_set_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [replace(row, source="other all", query_id=f"other-{row.query_id}") for row in rows(0, 2)]
    ANALYZER_ROWS.write(Folder.of(tmp_path / "rows"), "train", rows(0, 2) + other)
    ANALYZER_ROWS.write(Folder.of(tmp_path / "rows"), "validation", rows(5, 7))
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "files", "--export", "--leave-out"]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options, "other")
    assert code == 0, said
    assert "12 train and 12 validation rows" in said
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options, "nowhere")
    assert code == 2
    assert "No row comes from a set 'nowhere', so it cannot be left out. There are invented, other." in said


def test_what_is_exported_trains_on_a_bare_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ANALYZER_ROWS.write(Folder.of(tmp_path / "rows"), "train", rows(0, 5))
    ANALYZER_ROWS.write(Folder.of(tmp_path / "rows"), "validation", rows(5, 7))
    (tmp_path / "config.yaml").write_text(
        CONFIG.replace("epochs: 8", "epochs: 1") + "lora: {targets: [query]}\n", encoding="utf-8"
    )
    options = ["--rows", tmp_path / "rows", "--out", tmp_path / "files", "--export"]
    code, said = call(monkeypatch, capsys, "train", tmp_path / "config.yaml", *options)
    assert code == 0, said
    files = [str(tmp_path / "files" / name) for name in ("recipe.json", "train.jsonl", "validation.jsonl")]
    model = resolve_embedding_model("embedded")
    assert fit.main([*files, model.path, str(model.sha256), str(tmp_path / "mine")]) == 0
    assert "eval_loss" in capsys.readouterr().out
    assert (tmp_path / "mine" / "adapter" / "adapter_model.safetensors").is_file()


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
