"""``okralong train-sara`` as a Ray task: what it says on the way, what it leaves, and what it is refused for."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.sara.compressor import Compressor
from tests.fakes.tiny_llama import write_tiny_llama
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

CONFIG = """
chunk_tokens: 48
width: 64
texts: {sample: {reports: 4, questions: 8, words: 1500}}
alignment: {examples: 32, validation: 8, batch_size: 8, learning_rate: 0.01, reply_tokens: 12, evaluations: 2}
"""


def test_a_training_on_the_cluster_tells_how_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ray_cluster: None
) -> None:
    model = write_tiny_llama(tmp_path / "tiny", window=2048)
    config = tmp_path / "sara.yaml"
    config.write_text(f"model: {model}\n{CONFIG}", encoding="utf-8")
    places = ["--out", tmp_path / "out", "--work", tmp_path / "work"]
    code, said = call(monkeypatch, capsys, "train-sara", config, *places)
    assert code == 0, said
    for line in ("alignment: 32 examples, 8 held out", "step 2 of 4: loss on validation", "step 4 of 4", "written:"):
        assert line in said
    assert Compressor.load(tmp_path / "out").shape.hidden == 32
    code, said = call(monkeypatch, capsys, "train-sara", config, *places, "--report")
    assert code == 0, said
    assert "## The text of alignment, by what was learned" in said


def test_sets_without_a_data_folder_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ray_cluster: None
) -> None:
    code, said = call(monkeypatch, capsys, "train-sara", "training/sara_small.yaml", "--out", tmp_path / "out")
    assert code == 2
    assert "--data" in said
    assert not (tmp_path / "out").exists()
