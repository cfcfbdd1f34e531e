"""``okralong train-data --label-with llm``: questions of one's own without any label get them from the generator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from okralong.lab.training.rows.tables import ANALYZER_ROWS
from okralong.pipelines.answering.analyzers.analysis import SYSTEM_PROMPT, format_reply
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI, Messages, too_many
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

MILLS = ("Alder", "Birch", "Cedar", "Damson", "Elm", "Fir")

ROWS = """
policy: policy/paper.yaml
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
sets:
  - {{name: mine, part: all}}
per_type: 50
"""

ANSWER = """
strategy: okralong
policy: policy/paper.yaml
prices: prices.yaml
analyzer: {{kind: rules}}
budget_usd: {cap}
llm: {{base_url: "{url}", model: gpt-4o-2024-08-06, tokenizer: o200k_base, window: 128000}}
"""


def own_set(folder: Path) -> Path:
    """Six questions on six papers, without answer, evidence or type, all on the train side."""
    (folder / "mine" / "documents").mkdir(parents=True)
    lines = []
    for mill in MILLS:
        text = f"{mill} Mill stands by the river. It grinds corn for the valley. The miller of {mill} is old. " * 20
        (folder / "mine" / "documents" / f"{mill}.txt").write_text(text, encoding="utf-8")
        lines.append({"query_id": mill, "question": f"Who works at {mill} Mill?", "doc_ids": [mill]})
    (folder / "mine" / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    (folder / "catalog.yaml").write_text(
        "sources:\n  - {name: mine, part: all, format: own, path: mine/questions.jsonl}\n", encoding="utf-8"
    )
    (folder / "rules.yaml").write_text(
        "seed: 1\nrules:\n  - {sources: [mine], shares: {train: 1.0}, why: invented}\n", encoding="utf-8"
    )
    return folder


def says(messages: Messages) -> str:
    """Labels by the question's first letters; of one question none that can be read."""
    assert messages[0]["content"].startswith(SYSTEM_PROMPT)
    asked = messages[1]["content"].rsplit("Question: ", 1)[1]
    if "Fir Mill" in asked:
        return "It is a plain question."
    return format_reply("abstractive" if "Alder" in asked else "extractive", "semantic", "yes")


def test_the_embedded_model_labels_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train-data", tmp_path, "--config", "training/own.yaml", "--out", tmp_path / "rows"]
    code, said = call(monkeypatch, capsys, *arguments, "--label-with", "llm")
    assert code == 2
    assert "The embedded model is too small to label rows. Give --llm an answer config" in said


def test_labels_are_paid_once_and_within_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    data = own_set(tmp_path / "data")
    options = ["--catalog", data / "catalog.yaml", "--rules", data / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", data, "--out", data / "split", *options)
    assert code == 0, said
    (tmp_path / "rows.yaml").write_text(ROWS.format(data=data), encoding="utf-8")
    arguments = ["train-data", data, "--config", tmp_path / "rows.yaml", "--work", tmp_path / "work"]
    arguments += ["--out", tmp_path / "rows", "--label-with", "llm", "--llm", tmp_path / "answer.yaml"]
    with FakeOpenAI([(lambda messages: True, says)], [too_many(0.01)], models=["gpt-4o-2024-08-06"]) as server:
        (tmp_path / "answer.yaml").write_text(ANSWER.format(cap=0.0001, url=server.base_url), encoding="utf-8")
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == EXIT_OVER_BUDGET, said
        assert "6 over_budget; 0 calls, $0.0000 so far" in said
        assert "6 rows are left unlabelled: budget_usd is used up" in said
        assert server.bill_usd == 0

        cap = 0.005
        (tmp_path / "answer.yaml").write_text(ANSWER.format(cap=cap, url=server.base_url), encoding="utf-8")
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == EXIT_OVER_BUDGET, said
        assert 0 < server.bill_usd <= cap
        some = len(ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "train"))
        assert 0 < some < 5

        (tmp_path / "answer.yaml").write_text(ANSWER.format(cap=1.0, url=server.base_url), encoding="utf-8")
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == 0, said
        assert "1 failed, 5 labelled; 7 calls" in said
        assert "was labelled by gpt-4o-2024-08-06" in (tmp_path / "rows" / "card.md").read_text(encoding="utf-8")
        rows = {row.query_id: row for row in ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "train")}
        assert set(rows) == {"Alder", "Birch", "Cedar", "Damson", "Elm"}
        assert (rows["Alder"].type, rows["Birch"].type) == ("abstractive", "extractive")
        assert all(row.passages and row.pattern == "semantic" and row.evidence for row in rows.values())
        ledger = table(Folder.of(tmp_path / "rows" / "labels"), "ledger")
        paid = sum(row["cost_usd"] for row in ledger if row["status"] == "ok")
        assert paid == pytest.approx(server.bill_usd, abs=1e-9)
        assert {row["role"] for row in ledger} == {"analyze"}

        asked = len(server.received)
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == 0, said
        assert len(server.received) == asked, "what was paid for is not asked again"
        assert {row.query_id for row in ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "train")} == set(rows)
    for file in (tmp_path / "rows").rglob("*"):
        assert not file.is_file() or b"sk-of-nobody" not in file.read_bytes()
