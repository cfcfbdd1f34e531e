"""The command line: what a wrong call is told, and what the looking commands print. Nothing here starts Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from okralong.pipelines.core.config import shipped_config
from tests.jobs.conftest import call


@pytest.mark.parametrize("code", ["import okralong; okralong.index", "from okralong.__main__ import main; main()"])
def test_python_without_docstrings_is_refused_in_words(code: str) -> None:
    ended = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode != 0
    last = " ".join(ended.stderr.split())
    assert "Python runs with -OO" in last
    assert "this is a bug" not in last


def test_sample_writes_reports_and_questions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, said = call(
        monkeypatch, capsys, "sample", tmp_path, "--reports", 2, "--questions", 6, "--words", 1500, "--seed", 3
    )
    assert code == 0
    assert "2 reports" in said
    assert len(list((tmp_path / "reports").glob("*.txt"))) == 2
    rows = [json.loads(line) for line in (tmp_path / "questions.jsonl").read_text().splitlines()]
    assert len(rows) == 6


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["index", "{tmp}/archive", "--from", "{tmp}/missing"], 2, "missing"),
        (["answer", "{tmp}/archive", "--questions", "{tmp}/q.jsonl", "--run", "{tmp}/run"], 2, "Run okralong index"),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--config", "{tmp}/none.yaml"], 2, "does not exist"),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--strategy", "guess"], 2, "no strategy 'guess'"),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--budget-usd", "-1"], 2, "--budget-usd -1.0: "),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--tag", "research"], 2, "takes NAME=VALUE"),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--window", "1"], 2, "llm.window"),
        (["answer", "{tmp}", "--questions", "q", "--run", "r", "--model", "m", "--base-url", "no"], 2, "llm.base_url"),
        (["matrix", "{tmp}/archive", "--questions", "{tmp}/c.yaml", "--run", "{tmp}/run"], 2, "Run okralong index"),
        (["show", "{tmp}/no-run"], 2, "is not a run folder"),
    ],
)
def test_wrong_calls_are_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    got, said = call(monkeypatch, capsys, *(argument.format(tmp=tmp_path) for argument in arguments))
    assert got == code, said
    assert says in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("strategy: okralong", "strategi: okralong"),
        ("concurrency: 64", "concurrency: 0"),
        ("timeout_s: 600.0", "timeout_s: 10 minutes"),
        ("# api_key_env: OPENAI_API_KEY", "api_key_env: sk-proj-abc123"),
        ("kind: heads", "kind: oracle"),
    ],
)
def test_a_config_with_a_mistake_is_refused_by_its_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, change: str, says: str
) -> None:
    text = shipped_config("answer.yaml")
    assert change in text
    config = tmp_path / "answer.yaml"
    config.write_text(text.replace(change, says, 1))
    code, said = call(monkeypatch, capsys, "answer", tmp_path, "--questions", "q", "--run", "r", "--config", config)
    assert code == 2
    assert says.split(":")[0] in said
    assert "sk-proj-abc123" not in said


def test_doctor_finds_what_is_there_and_what_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "answer.yaml"
    text = shipped_config("answer.yaml").replace("# base_url: embedded", "base_url: http://127.0.0.1:9/v1 #")
    config.write_text(text.replace("model: embedded ", "model: gpt-4o ", 1))
    code, said = call(monkeypatch, capsys, "doctor", tmp_path / "no-archive", "--config", config)
    assert code == 2
    assert "ok packages" in said
    assert "checksum ok" in said
    assert "FAIL endpoint" in said
    assert "cannot be reached" in said
    assert "FAIL archive" in said
    assert "Run okralong index" in said
    config.write_text(text.replace("strategy: okralong ", "strategy: okra_lang ", 1))
    code, said = call(monkeypatch, capsys, "doctor", "--config", config)
    assert code == 2
    assert "FAIL config" in said
    assert "There is no strategy" in said
