"""``okralong train-data`` over a set of one's own: rows for each side, and a card that counts them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from okralong.lab.training.learners.question_writer import in_batches
from okralong.lab.training.rows.question_writer_rows import read_passages
from okralong.lab.training.rows.tables import ANALYZER_ROWS, RANKING
from okralong.pipelines.core.storage import Folder
from tests.evaluation.evidence.town import write_town
from tests.jobs.conftest import call

pytestmark = pytest.mark.slow

CONFIG = """
policy: policy/paper.yaml
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
sets:
  - {{name: town, part: all, pool_tokens: 1000}}
questions_only:
  - {{name: town, part: all, limit: 2}}
sample: {{reports: 2, questions: 12, words: 1500}}
per_type: 5
"""


def town_to_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """The town, all of which stands on train by its own split."""
    data = write_town(tmp_path / "data")
    (data / "rules.yaml").write_text(
        "seed: 1\nrules:\n  - {sources: [town], shares: {train: 1.0}, why: invented}\n", encoding="utf-8"
    )
    options = ["--catalog", data / "catalog.yaml", "--rules", data / "rules.yaml"]
    code, said = call(monkeypatch, capsys, "split", data, "--out", data / "split", *options)
    assert code == 0, said
    return data


def test_rows_of_a_set_and_of_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = town_to_learn(tmp_path, monkeypatch, capsys)
    (tmp_path / "rows.yaml").write_text(CONFIG.format(data=data), encoding="utf-8")
    arguments = ["train-data", data, "--config", tmp_path / "rows.yaml", "--work", tmp_path / "work", "--out"]
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "rows")
    assert code == 0, said
    train = ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "train")
    town = [row for row in train if row.source == "town all"]
    assert len(town) == 6  # and not 8: a question that also comes without its document is there once
    assert {row.type for row in town} == {"multi-bridge", "multi-source"}
    invented = [row for row in train if row.source == "sample 1000"]
    assert {row.type for row in invented} == {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"}
    assert all(row.passages and row.pattern and row.evidence is not None for row in [*town, *invented])
    validation = ANALYZER_ROWS.read(Folder.of(tmp_path / "rows"), "validation")
    assert {row.source for row in validation} == {"sample 1001"}
    assert not {row.question for row in validation} & {row.question for row in train}
    card = (tmp_path / "rows" / "card.md").read_text(encoding="utf-8")
    assert f"## train: {len(train)} rows" in card
    assert "## test: 0 rows" in card

    kept = {path: path.read_bytes() for path in (tmp_path / "rows").rglob("*.parquet")}
    code, said = call(monkeypatch, capsys, *arguments, tmp_path / "again")
    assert code == 0, said
    assert [path.read_bytes() for path in sorted((tmp_path / "again").rglob("*.parquet"))] == [
        kept[path] for path in sorted(kept)
    ]


WRITTEN = """
kinds:
  town: {sets: [town], ask: {town: 2}}
  other: {sets: [another], ask: {town: 1}, most: 1}
found: 2
negatives: 3
"""
RANKED = """
sets:
  - {{name: town, part: all, pool_tokens: 1000}}
catalog: {data}/catalog.yaml
split: {data}/split/manifest.parquet
written: {data}/written.yaml
"""


def test_rows_of_questions_that_a_model_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = town_to_learn(tmp_path, monkeypatch, capsys)
    (data / "written.yaml").write_text(WRITTEN, encoding="utf-8")
    (tmp_path / "ranking.yaml").write_text(RANKED.format(data=data), encoding="utf-8")
    rows = tmp_path / "rows"
    asked = ["train-data", data, "--for", "cross_encoder", "--config", tmp_path / "ranking.yaml", "--out", rows]
    asked += ["--work", tmp_path / "work"]
    code, said = call(monkeypatch, capsys, *asked, "--export")
    assert code == 2
    assert "--export requires" in said

    code, said = call(monkeypatch, capsys, *asked, "--writer", tmp_path / "writer", "--export")
    assert code == 0, said
    assert "learners.question_writer" in said
    passages = read_passages(rows / "passages.json").passages
    assert all(ask == {"town": 2} for ask in passages.values())
    mill = next(passage for passage in passages if "Wend Mill was built by Tom Birch" in passage)
    questions = [
        {"kind": "town", "passage": mill, "answer": "Tom Birch", "question": "Who was it that built Wend Mill?"},
        {"kind": "town", "passage": mill, "answer": "", "question": "What is said of Wend Mill and its repairs?"},
        {"kind": "town", "passage": mill, "answer": "Tom Birch", "question": "who was it that built wend mill?"},
        {"kind": "town", "passage": "Nobody has this passage.", "answer": "", "question": "What is said of it all?"},
    ]
    elsewhere = next(passage for passage in passages if "Hagg Hill is 310 metres high" in passage)
    # Its passage is not among the first that are found by it.
    questions.append({"kind": "town", "passage": elsewhere, "answer": "", "question": questions[0]["question"] + "?"})
    questions += [
        {"kind": "other", "passage": elsewhere, "answer": "310", "question": f"How high is {name} Hagg Hill?"}
        for name in ("the", "this", "that")
    ]
    code, said = call(monkeypatch, capsys, *asked, "--writer", tmp_path / "writer")
    assert code == 2
    assert "holds no question writer" in said
    (tmp_path / "writer").mkdir()
    (tmp_path / "writer" / "config.json").write_text("{}")
    # All that was to be written is there: the writer is not asked.
    mark = hashlib.sha256(json.dumps(in_batches(passages)).encode()).hexdigest()[:16]
    lines = [{"batch": 0, "of": mark}, *questions, {"batch": 1, "of": mark}]
    (rows / "written.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    code, said = call(monkeypatch, capsys, *asked, "--writer", tmp_path / "writer")
    assert code == 0, said
    assert [row.source for row in RANKING.read(Folder.of(rows), "train")].count("written other") == 1
    town = [row for row in RANKING.read(Folder.of(rows), "train") if row.source == "written town"]
    found = sorted(town, key=lambda row: row.question, reverse=True)
    assert [row.question for row in found] == [questions[0]["question"], questions[1]["question"]]
    placed, open_ = found
    assert all(row.passages[0] == mill for row in found)
    assert all(1 < len(row.passages) <= 4 and row.relevance == (1.0, *[0.0] * (len(row.passages) - 1)) for row in found)
    assert mill[placed.starts[0] : placed.ends[0]] == "Tom Birch"
    assert placed.answerable == (1, *[0] * (len(placed.passages) - 1))
    assert not any("Tom Birch" in passage for passage in placed.passages[1:])
    assert set(open_.answerable) == {-100}
    assert set(open_.starts) == {-1}

    (rows / "written.jsonl").write_text(
        json.dumps(lines[0]) + "\n" + json.dumps({**questions[0], "kind": "gone"}) + "\n" + json.dumps(lines[-1]) + "\n"
    )
    code, said = call(monkeypatch, capsys, *asked, "--writer", tmp_path / "writer")
    assert code == 2
    assert "of the kind 'gone'" in said
    (data / "written.yaml").write_text("kinds: {other: {sets: [another], ask: {other: 1}}}", encoding="utf-8")
    code, said = call(monkeypatch, capsys, *asked, "--writer", tmp_path / "writer", "--export")
    assert code == 2
    assert "no passage to ask about" in said
