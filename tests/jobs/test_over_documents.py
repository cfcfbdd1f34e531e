"""Questions over many documents as a run: ten of them answered by code without a key; and with an endpoint the
estimate, the cap, the ledger and a second start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT
from okralong.pipelines.run.rows import table
from okralong.pipelines.samples.questions import Sample, generate, write_sample
from tests.conftest import index_plain
from tests.fakes.openai_server import FakeOpenAI, Messages, Trouble
from tests.jobs.conftest import always, call, endpoint, quoting
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

THREE = ["alderbrook-hearth-2023", "pebblebrook-packet-lines-2023", "stonecrop-measurement-2023"]
ALDER, PEBBLE, STONE = THREE


@pytest.fixture(scope="module")
def sample() -> Sample:
    """Six reports: three companies, two years each."""
    return generate(reports=6, questions=0, seed=7, words=2_000)


@pytest.fixture(scope="module")
def archive(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    write_sample(sample, folder)
    index_plain(folder / "archive", folder / "reports")
    return folder / "archive"


def first(sample: Sample, doc_id: str, label: str) -> int:
    """This year's figure, in thousands of dollars, as the first row with this label says it."""
    text = next(document.text for document in sample.documents if document.doc_id == doc_id)
    row = next(line for line in text.splitlines() if line.startswith(f"{label}  "))
    this_year = row[len(label) :].split()[0]
    return int(this_year.replace(",", ""))


def written(thousands: float) -> str:
    return f"{thousands * 1000:,.0f} USD"


def test_ten_questions_are_answered_by_code_without_a_key(sample: Sample, archive: Path, tmp_path: Path) -> None:
    revenue, income, assets, goodwill, equity = (
        {doc_id: first(sample, doc_id, label) for doc_id in THREE}
        for label in ("Revenue", "Net income", "Total assets", "Goodwill", "Equity")
    )
    by_assets = sorted(THREE, key=lambda doc_id: -assets[doc_id])
    stone = [first(sample, f"stonecrop-measurement-{year}", "Closing cash") for year in (2022, 2023)]
    wanted: dict[str, tuple[list[str], list[str]]] = {
        "Which company had the highest revenue in 2023?": (
            THREE,
            [f"{max(THREE, key=lambda d: revenue[d])}: {written(max(revenue.values()))}"],
        ),
        "Which company had the lowest net income in 2023?": (
            THREE,
            [f"{min(THREE, key=lambda d: income[d])}: {written(min(income.values()))}"],
        ),
        "Sort the companies by total assets.": (
            THREE,
            [f"{n}. {doc_id}: {written(assets[doc_id])}" for n, doc_id in enumerate(by_assets, 1)],
        ),
        "How many companies had revenue above 500 million dollars in 2023?": (
            THREE,
            [f"{sum(each > 500_000 for each in revenue.values())} of 3"],
        ),
        "Which companies had a net income below 80 million dollars in 2023?": (
            THREE,
            [f"{d}: {written(income[d])}" for d in THREE if income[d] < 80_000],
        ),
        "Please categorize the companies by 'Goodwill' into the following groups: high (over $30 million), low (up to "
        "$30 million).": (
            THREE,
            [
                f"high: {', '.join(d for d in THREE if goodwill[d] > 30_000) or 'none'}; "
                f"low: {', '.join(d for d in THREE if goodwill[d] <= 30_000) or 'none'}"
            ],
        ),
        "What is the combined revenue of the three companies in 2023?": (THREE, [written(sum(revenue.values()))]),
        "What are the top 2 companies by equity?": (
            THREE,
            [f"{d}: {written(equity[d])}" for d in sorted(THREE, key=lambda d: -equity[d])[:2]],
        ),
        "What is the difference in revenue between Alderbrook Hearth and Pebblebrook Packet Lines in 2023?": (
            THREE,
            [written(abs(revenue[ALDER] - revenue[PEBBLE]))],
        ),
        "How did the closing cash of Stonecrop Measurement change from 2022 to 2023?": (
            [f"stonecrop-measurement-{year}" for year in (2022, 2023)],
            ["rose" if stone[1] > stone[0] else "fell", written(stone[0]), written(stone[1])],
        ),
    }
    rows = [
        {"query_id": f"q{n}", "question": question, "doc_ids": doc_ids}
        for n, (question, (doc_ids, _)) in enumerate(wanted.items())
    ]
    questions = tmp_path / "questions.jsonl"
    questions.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = Folder.of(tmp_path / "run")
    told: dict[str, Any] = {"strategy": "over_documents", "analyzer.kind": "rules"}
    result = answer(archive, questions, run.path, **told)
    assert result.statuses == {"answered": 10}
    found = {row["question"]: row for row in table(run, "answers")}
    for question, (doc_ids, parts) in wanted.items():
        row = found[question]
        assert all(part in row["answer"] for part in parts), (question, row["answer"], parts)
        assert "no value found" not in row["answer"]
        assert {each["doc_id"] for each in row["citations"]} <= set(doc_ids)
        assert len(row["citations"]) >= 2, "each cell is cited"
    assert not any(row["path"] == "task" for row in table(run, "ledger")), "rules read the task"


def reads_a_task(messages: Messages) -> bool:
    return "Each of them will be asked" in messages[0]["content"]


def test_an_endpoint_writes_the_task_and_a_run_that_stops_goes_on(
    archive: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    own_process: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader.rules = [(reads_a_task, "Ask: What was the revenue in 2023?\nType: text\nDo: list"), (always, quoting)]
    questions = tmp_path / "questions.jsonl"
    row = {"query_id": "q1", "question": "What do they all sell?", "doc_ids": THREE}
    questions.write_text(json.dumps(row))
    told: dict[str, Any] = {**endpoint(reader), "strategy": "over_documents", "budget_usd": 50.0}
    before = okralong.estimate(archive, questions, **told).strategies["over_documents"]
    assert reader.received == []
    assert before.problems == {}

    run = Folder.of(tmp_path / "run")
    refused = answer(archive, questions, tmp_path / "poor", **told | {"budget_usd": 0.01})
    assert refused.statuses == {"over_budget": 1}
    assert reader.received == [], "documents times calls are admitted before the first is asked"

    reader.troubles = [None, None, *[Trouble(401, "invalid_api_key", "revoked")] * 20]
    assert answer(archive, questions, run.path, **told).exit_code == EXIT_ENDPOINT
    reader.troubles = []
    result = answer(archive, questions, run.path, **told)
    assert result.statuses == {"answered": 1}
    paid = [each for each in table(run, "ledger") if each["status"] == "ok"]
    assert sorted(each["path"] for each in paid) == [*(f"cells/{n}/generate" for n in (1, 2, 3)), "task"]
    assert sum(each["cost_usd"] for each in paid) == pytest.approx(reader.bill_usd, abs=1e-9)
    sent = sum(each["prompt_tokens"] for each in paid)
    assert before.total.prompt_tokens.expected == pytest.approx(sent, rel=0.25), "the task and every cell are counted"
    (answered,) = table(run, "answers")
    assert answered["answer"].count("; ") == 2
    assert {each["doc_id"] for each in answered["citations"]} == set(THREE)
    code, said = call(monkeypatch, capsys, "show", run.path, "q1", "--all")
    assert code == 0
    assert "cells/2/plan" in said
    assert "What was the revenue in 2023?" in said
