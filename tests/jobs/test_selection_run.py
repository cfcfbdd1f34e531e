"""An answer run whose policy selects evidence by self-information: scorer, journal, and what show says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import okralong
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tiny_llama import write_tiny_llama
from tests.jobs.conftest import call, endpoint

pytestmark = pytest.mark.slow


@pytest.mark.soak  # test_methods_run.py has a scorer on Serve, test_sara_run.py a selection in the journal
def test_a_run_selects_by_a_local_model(
    sample_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policy = yaml.safe_load(shipped_config("policy/paper.yaml"))
    policy["selection"] |= {"method": "csi", "pool": 6}
    policy["factoid"] |= {"count": 3, "tokens": 700}
    (tmp_path / "csi.yaml").write_text(yaml.safe_dump(policy))
    told = {
        **endpoint(reader),
        "policy": str(tmp_path / "csi.yaml"),
        "scorer.model": str(write_tiny_llama(tmp_path / "llama", 1024)),
    }
    few = tmp_path / "few.jsonl"
    few.write_text("".join((sample_folder / "questions.jsonl").read_text().splitlines(keepends=True)[:3]))
    result = okralong.answer(sample_archive, few, tmp_path / "run", **told)
    assert result.statuses == {"answered": 3}
    journal = table(Folder.of(tmp_path / "run"), "journal")
    choices = [json.loads(row["body"]) for row in journal if row["kind"] == "selection"]
    assert len(choices) >= 3
    for choice in choices:
        assert choice["chosen"][0] == choice["wanted"]["pool"][0]
        assert 2 <= len(set(choice["chosen"])) == len(choice["chosen"]) <= 8
    first = next(row for row in journal if row["kind"] == "selection")
    code, said = call(monkeypatch, capsys, "show", tmp_path / "run", first["query_id"], "--all")
    assert code == 0
    assert "selected one by one from the best" in said
    assert json.loads(first["body"])["chosen"][1] in said
