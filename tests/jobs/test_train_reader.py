"""The reader's whole road on a set of one's own: rows, training, and a report that asks a served model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from okralong.lab.training.reader_marks import mark, well_formed
from okralong.lab.training.rows.tables import READER_ROWS, ReadingRow
from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompts import parse_answer, parse_split, parse_step
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OVER_BUDGET
from okralong.pipelines.methods.instructrag import SYNTHESIS_INSTRUCTIONS as SYNTHESIS
from okralong.pipelines.methods.instructrag import rationale_prompt
from okralong.pipelines.run.rows import table
from tests.evaluation.evidence.town import write_town
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.fakes.tiny_llama import write_tiny_llama
from tests.jobs.conftest import always, call

pytestmark = pytest.mark.slow

ROWS = """
policy: {data}/policy.yaml
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
sets:
  - {{name: town, part: all}}
sample: {{reports: 2, questions: 40, words: 1500}}
context_tokens: [200, 300]
most_prompt_tokens: 900
held_back: 0.5
unanswerable: 0.2
expressions: 0.7
most_answer_words: 40
per_type: 6
per_role: 5
"""
TRAINING = """
kind: reader
model: {model}
lora: {{targets: [q_proj, down_proj], rank: 4, first_block: 1}}
learning_rate: 0.01
epochs: 1
batch_size: 4
accumulation: 1
rows: 12
validation_rows: 4
"""
REPORT = """
readers:
  base model: {base_url: embedded, model: embedded, reader: none, demonstrations: true}
base: base model
rows: 2
timed: 1
split: 1
step: 1
expressions: 1
limits: {generate: 24, split: 24, step: 24, full_text: 24, analyze: 24}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set, its rules, and the default policy with few candidates for the cross-encoder: thirty take it minutes."""
    data = write_town(tmp_path_factory.mktemp("reader") / "data")
    (data / "rules.yaml").write_text(
        "seed: 1\nrules:\n  - {sources: [town], shares: {train: 0.5, test: 0.5}, why: invented}\n", encoding="utf-8"
    )
    policy = yaml.safe_load(shipped_config("policy/default.yaml"))
    policy["rerank"]["candidates"] = 4
    (data / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
    return data


def test_rows_then_a_training_then_a_report(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--catalog", data / "catalog.yaml", "--rules", data / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", data, "--out", data / "split", *options)
    assert code == 0, said
    (tmp_path / "rows.yaml").write_text(ROWS.format(data=data), encoding="utf-8")
    rows = tmp_path / "rows"
    arguments = ["train-data", data, "--for", "reader", "--config", tmp_path / "rows.yaml", "--out", rows]
    code, said = call(monkeypatch, capsys, *arguments, "--work", data / "work")
    assert code == 0, said
    train, test = (READER_ROWS.read(Folder.of(rows), side) for side in ("train", "test"))
    assert {row.role for row in (*train, *test)} == {"generate", "split", "step"}
    check_rows(train)
    check_rows(test)
    assert not {row.query_id for row in train} & {row.query_id for row in test}
    assert all(row.source == "town all" for row in test)
    held = [row for row in train if row.role == "generate" and not row.answerable]
    assert 0 < len(held) <= 0.2 * sum(row.role == "generate" for row in train)
    assert any("Answer: =" in row.reply for row in train if row.type == "arithmetic")
    assert f"## train: {len(train):,} rows" in (rows / "card.md").read_text(encoding="utf-8")

    model = write_tiny_llama(tmp_path / "tiny", window=4096)
    (tmp_path / "training.yaml").write_text(TRAINING.format(model=model), encoding="utf-8")
    out = tmp_path / "reader"
    code, said = call(monkeypatch, capsys, "train", tmp_path / "training.yaml", "--rows", rows, "--out", out, "--here")
    assert code == 0, said
    assert (out / "adapter_model.safetensors").is_file()
    assert "12 train rows" in said

    (tmp_path / "report.yaml").write_text(REPORT, encoding="utf-8")
    results = tmp_path / "results"
    code, said = call(
        monkeypatch, capsys, "train", tmp_path / "report.yaml", "--report", "--rows", rows, "--out", results
    )
    assert code == 0, said
    found = json.loads((results / "reader.json").read_text(encoding="utf-8"))
    assert set(found["figures"]) == {"best sentence", "base model"}
    assert found["formed"]["base model"]["generate"][1] == 2
    assert found["speed"]["base model"]["seconds"] > 0
    assert found["terms"]["base model"] == {"demonstrations": True, "calculator": False, "grammar": False}
    page = (results / "reader.md").read_text(encoding="utf-8")
    assert all(row.question not in page for row in test)  # the sets' texts stay where they are


INSTRUCT = ROWS.replace("expressions: 0.7", "expressions: 0\nrationales: true").replace("per_type: 6", "per_type: 3")
ANSWER = """
prices: prices.yaml
budget_usd: {cap}
llm: {{base_url: "{url}", model: gpt-4o-2024-08-06, tokenizer: o200k_base, window: 128000}}
"""


def explains(messages: Messages) -> str:
    """An explanation on two lines, with the answer that was told."""
    assert messages[0]["content"] == SYNTHESIS
    told = messages[1]["content"].rsplit("Answer: ", 1)[1]
    return f"Passage 1 names it,\nso it is {told}. Passage 2 does not help."


def test_rationales_are_paid_once_and_a_reader_learns_them(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody")
    if not (data / "split").exists():
        options = ["--catalog", data / "catalog.yaml", "--rules", data / "rules.yaml"]
        assert call(monkeypatch, capsys, "split", data, "--out", data / "split", *options)[0] == 0
    (tmp_path / "rows.yaml").write_text(INSTRUCT.format(data=data), encoding="utf-8")
    rows, answer = tmp_path / "rows", tmp_path / "answer.yaml"
    arguments = ["train-data", data, "--for", "reader", "--config", tmp_path / "rows.yaml", "--out", rows]
    arguments += ["--work", data / "work"]
    code, said = call(monkeypatch, capsys, *arguments)
    assert (code, "has rationales, which a generator" in " ".join(said.replace("│", " ").split())) == (2, True)
    arguments += ["--label-with", "llm", "--llm", answer]
    with FakeOpenAI([(always, explains)], models=["gpt-4o-2024-08-06"]) as server:
        answer.write_text(ANSWER.format(cap=0.02, url=server.base_url), encoding="utf-8")
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == EXIT_OVER_BUDGET, said
        assert "rows are left out: budget_usd is used up" in said
        assert 0 < server.bill_usd <= 0.02
        some = len(server.received)
        answer.write_text(ANSWER.format(cap=1.0, url=server.base_url), encoding="utf-8")
        code, said = call(monkeypatch, capsys, *arguments)
        assert code == 0, said
        every = len(server.received)
        assert every > some > 0
        made = [row for side in ("train", "validation", "test") for row in READER_ROWS.read(Folder.of(rows), side)]
        assert len(made) == every, "a rationale for each row, and none was asked for twice"
        ledger = table(Folder.of(rows / "rationales"), "ledger")
        assert {(row["role"], row["status"]) for row in ledger} == {("rationale", "ok")}
        assert sum(row["cost_usd"] for row in ledger) == pytest.approx(server.bill_usd)
        assert call(monkeypatch, capsys, *arguments)[0] == 0
        assert len(server.received) == every
    assert "an explanation that gpt-4o-2024-08-06 wrote" in (rows / "card.md").read_text(encoding="utf-8")
    for row in made:
        assert row.role == "rationale"
        told = row.answers[0] if row.answerable else "unanswerable, since none of the passages holds it"
        assert row.reply.startswith(f"Passage 1 names it, so it is {told}. Passage 2 does not help.\n")
        assert [*row.messages] == rationale_prompt(row.question, (), row.passages), "what the method asks by itself"
        assert parse_answer(row.reply).unanswerable is not row.answerable
    assert {row.answerable for row in made} == {True, False}

    model = write_tiny_llama(tmp_path / "tiny", window=4096)
    (tmp_path / "training.yaml").write_text(TRAINING.format(model=model), encoding="utf-8")
    out = tmp_path / "reader"
    code, said = call(monkeypatch, capsys, "train", tmp_path / "training.yaml", "--rows", rows, "--out", out, "--here")
    assert code == 0, said
    assert (out / "adapter_model.safetensors").is_file()
    assert json.loads((out / "reader.json").read_text(encoding="utf-8"))["calculator"] is False


def check_rows(rows: list[ReadingRow]) -> None:
    """Each reply is of the form asked for, and our own parsers read from it what it was made of."""
    for row in rows:
        assert well_formed(row.role, row.reply), row.reply
        if row.role == "generate":
            marks = mark(row, row.reply)
            assert marks.said_unanswerable is not row.answerable
            assert marks.f1 == 1.0 or marks.numeric or row.type == "abstractive", row.reply
            claims = parse_answer(row.reply).evidence
            assert len(find_citations(claims, row.passages)) == len(claims)
            assert marks.right == marks.cited == len(claims)
        elif row.role == "step":
            parsed = parse_step(row.reply)
            assert bool(parsed.answer) is row.answerable is not bool(parsed.query)
        else:
            assert parse_split(row.reply, row.question, 4) == row.reply.splitlines()
