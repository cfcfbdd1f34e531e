"""A typed table over documents, asked of an endpoint: what it is sent and may refuse, what a resume and a night pay."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs.nightly import run_nightly
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED, EXIT_FAILURES, EXIT_OK
from okralong.pipelines.run.nightly import nights
from okralong.pipelines.run.rows import table
from tests.conftest import index_plain
from tests.fakes.openai_server import FakeOpenAI, Messages
from tests.jobs.conftest import PAPER, call, endpoint

pytestmark = pytest.mark.slow

REPORT = """{name} annual report

Consolidated statements of income (in thousands of U.S. dollars)

| | 2023 | 2022 |
| Revenue | $ {revenue} | $ 431,002 |

The company is {state}. Its customer {buyer} bought most of it.
"""
REPORTS = {
    "alder": {"name": "Alder", "revenue": "467,460", "state": "listed", "buyer": "Birch"},
    "lantern": {"name": "Lantern", "revenue": "(12,010)", "state": "private", "buyer": "Venn"},
}
COLUMNS = """
columns:
  - {name: revenue, question: "What was the revenue of the year?", answer_type: money}
  - {name: listed, question: "Is the company listed?", answer_type: boolean}
  - {name: sale, question: "Who bought?", answer_type: sale.json}
"""
SALE = {"type": "object", "properties": {"buyer": {"type": "string"}}, "required": ["buyer"]}
CELLS = [f"{column}@{doc_id}" for doc_id in REPORTS for column in ("listed", "revenue", "sale")]


def typed(messages: Messages) -> str:
    """The value that is asked for, with the words where it stands; of a private company's revenue only when the prompt
    says what is wrong with the first reply."""
    shown = next(message["content"] for message in messages if "Question: " in message["content"])
    passages, _, asked = shown.rpartition("\n\nQuestion: ")
    if "one amount of money" in asked:
        found = re.search(r"Revenue ?\| ?(\$ [\d,()]+)", passages)
        assert found is not None
        if "private" in passages and "cannot be used" not in messages[-1]["content"]:
            return json.dumps({"evidence": [], "value": "less than hoped", "period": ""})
        return said(found[0], found[1], period="2023")
    if '"yes" or "no"' in asked:
        found = re.search(r"The company is (\w+)", passages)
        assert found is not None
        return said(found[0], "yes" if found[1] == "listed" else "no")
    assert "JSON schema" in asked
    found = re.search(r"customer (\w+) bought", passages)
    assert found is not None
    return said(found[0], {"buyer": found[1]})


def said(quote: str, value: Any, **more: str) -> str:
    return json.dumps({"evidence": [{"passage": 1, "quote": quote}], "value": value, **more})


def write(folder: Path, **changed: str) -> None:
    """The reports, with some words of Lantern's changed."""
    (folder / "reports").mkdir(exist_ok=True)
    for name, words in REPORTS.items():
        text = REPORT.format(**(words | changed if name == "lantern" else words))
        (folder / "reports" / f"{name}.txt").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, reader: FakeOpenAI, own_process: None) -> Path:
    """Two reports, three columns with a schema beside them, and the configs; the endpoint answers typed prompts."""
    write(tmp_path)
    (tmp_path / "columns.yaml").write_text(COLUMNS, encoding="utf-8")
    (tmp_path / "sale.json").write_text(json.dumps(SALE), encoding="utf-8")
    answer: dict[str, Any] = {"policy": PAPER, "confidence": "none"}
    for dotted, value in endpoint(reader).items():
        below, _, key = dotted.partition(".")
        answer.setdefault(below, {})[key] = value
    index = {"embedding": {"of": "none"}, "shards": 1}
    config = {"folder": "nightly", "archive": "archive", "sources": ["reports"], "questions": "columns.yaml"}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(config | {"index": index, "answer": answer}))
    (tmp_path / "answer.yaml").write_text(yaml.safe_dump(answer))
    reader.rules = [(lambda messages: True, typed)]
    return tmp_path


def forms(reader: FakeOpenAI, status: int = 200) -> list[str]:
    """The form of the reply that each request with this outcome asked for."""
    sent = [one.body.get("response_format", {}) for one in reader.received if one.status == status]
    return [each.get("type", "") for each in sent]


def test_a_typed_table_is_asked_repaired_and_resumed(
    folder: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, config = folder / "archive", folder / "answer.yaml"
    index_plain(archive, folder / "reports", shards=1)
    asked = ("--questions", folder / "columns.yaml", "--config", config)
    code, _ = call(monkeypatch, capsys, "estimate", archive, *asked)
    assert (code, reader.received) == (EXIT_OK, [])
    code, printed = call(monkeypatch, capsys, "matrix", archive, *asked, "--run", folder / "run")
    assert code == EXIT_OK, printed
    assert forms(reader) == ["json_schema"] * 7, "six cells, and one that was asked for once more"
    prompts = [one.messages[-1]["content"] for one in reader.received]
    assert sum("The value must be a string with one amount of money" in prompt for prompt in prompts) == 2
    assert sum("less than hoped" in one.messages[-2]["content"] for one in reader.received) == 1

    run = Folder.of(folder / "run")
    rows = {row["query_id"]: row for row in table(run, "answers")}
    assert sorted(rows) == sorted(CELLS)
    assert {row["status"] for row in rows.values()} == {"answered"}
    one = rows["revenue@alder"]
    assert (one["value"], one["scale"], one["currency"], one["period"]) == ("467460000", "thousand", "USD", "2023")
    assert rows["revenue@lantern"]["value"] == "-12010000"
    assert rows["listed@lantern"]["value"] == "no"
    assert json.loads(rows["sale@lantern"]["value"]) == {"buyer": "Venn"}
    assert all(row["citations"] for row in rows.values())
    calls = {(row["query_id"], row["path"]) for row in table(run, "ledger")}
    assert len(calls) == 7
    assert ("revenue@lantern", "generate/repair") in calls
    assert sum(row["cost_usd"] for row in table(run, "ledger")) == pytest.approx(reader.bill_usd, abs=1e-9)

    code, _ = call(monkeypatch, capsys, "matrix", archive, *asked, "--run", folder / "run")
    assert (code, len(reader.received)) == (EXIT_OK, 7), "what was paid is not paid again"
    code, printed = call(monkeypatch, capsys, "show", folder / "run", "revenue@lantern")
    assert code == EXIT_OK
    for line in ("type: money", "value: -12010000", "scale: thousand", "currency: USD", "period: 2023"):
        assert line in printed


def test_an_endpoint_without_schemas_gives_the_same_table(
    folder: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader.takes_schemas = False
    reader.rules.insert(0, (lambda messages: "lantern" in messages[1]["content"], "I would rather not say."))
    archive, config = folder / "archive", folder / "answer.yaml"
    index_plain(archive, folder / "reports", shards=1)
    asked = ("--questions", folder / "columns.yaml", "--config", config, "--run", folder / "run")
    code, printed = call(monkeypatch, capsys, "matrix", archive, *asked)
    assert set(forms(reader)) == {""}
    assert set(forms(reader, 400)) == {"json_schema"}
    rows = {row["query_id"]: row for row in table(Folder.of(folder / "run"), "answers")}
    assert rows["revenue@alder"]["value"] == "467460000"
    bad = rows["revenue@lantern"]
    assert (bad["status"], bad["answer"], bad["value"]) == ("invalid_output", "", None)
    assert bad["error"].count("I would rather not say.") == 2, "both replies, as they came"
    assert code == EXIT_FAILURES, printed
    asked_before = len(reader.received)
    reader.rules.pop(0)
    call(monkeypatch, capsys, "matrix", archive, *asked)
    assert len(reader.received) == asked_before, "what does not fit is an end, until a retry asks anew"
    code, _ = call(monkeypatch, capsys, "matrix", archive, *asked, "--retry", "invalid_output", "--retry", "failed")
    assert code == EXIT_OK
    rows = {row["query_id"]: row for row in table(Folder.of(folder / "run"), "answers")}
    assert rows["revenue@lantern"]["value"] == "-12010000"


def test_a_night_asks_only_the_cells_of_the_changed_document(
    ray_cluster: None, folder: Path, reader: FakeOpenAI
) -> None:
    config = folder / "nightly.yaml"
    assert run_nightly(config) == EXIT_CHANGED
    current = Folder.of(folder / "nightly" / "current")
    first = {row["query_id"]: row["value"] for row in table(current, "answers")}
    assert sorted(first) == sorted(CELLS)
    assert json.loads(first["sale@lantern"]) == {"buyer": "Venn"}, "by the schema that lies beside the columns"
    asked = len(reader.received)
    write(folder, revenue="(13,000)")
    assert run_nightly(config) == EXIT_CHANGED
    (_, night) = nights(Folder.of(folder / "nightly"))
    assert dict(night.why) == {"on changed documents": 3}
    second = {row["query_id"]: row["value"] for row in table(current, "answers")}
    assert second == first | {"revenue@lantern": "-13000000"}
    assert len(reader.received) - asked <= 4, "three cells, and one once more"
    assert all("(13,000)" in one.messages[1]["content"] for one in reader.received[asked:])

    schema = SALE | {"properties": {"buyer": {"type": "string"}, "price": {"type": "string"}}}
    (folder / "sale.json").write_text(json.dumps(schema), encoding="utf-8")
    run_nightly(config)
    assert dict(nights(Folder.of(folder / "nightly"))[-1].why) != {}, "another schema is another question"
    assert "price" in reader.received[-1].messages[1]["content"]
