"""The answer job end to end: real Ray, Serve, Parquet and HTTP; only the generator's words are scripted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT, EXIT_OVER_BUDGET, ConfigError, EndpointError
from okralong.pipelines.run.rows import table
from tests.conftest import NODE_KEY
from tests.fakes.openai_server import FakeOpenAI, Trouble
from tests.jobs.conftest import PAPER, always, call, endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


def test_every_question_has_one_row_and_the_manifest_says_complete(run_rows: dict[str, Any]) -> None:
    counts = Counter(row["query_id"] for row in run_rows["answers"])
    assert len(counts) == 18
    assert set(counts.values()) == {1}
    assert run_rows["exit_code"] == 0
    assert run_rows["manifest"]["totals"]["statuses"] == {"answered": 18}
    assert run_rows["failures"] == []
    signals = [dict(row["signals"]) for row in run_rows["answers"]]
    assert len({each["answerable"] for each in signals}) > 9
    assert {row["way"] for row in run_rows["answers"]} == {"generated"}
    assert {row["confidence"] for row in run_rows["answers"]} == {None}, "no model was fitted on this generator"


def test_the_ledger_is_the_bill_to_the_cent(run_rows: dict[str, Any]) -> None:
    assert run_rows["bill"] > 0
    assert sum(row["cost_usd"] for row in run_rows["ledger"]) == pytest.approx(run_rows["bill"], abs=1e-9)
    assert sum(row["cost_usd"] for row in run_rows["answers"]) == pytest.approx(run_rows["bill"], abs=1e-9)
    assert all(dict(row["tags"]) == {"team": "tests"} for row in run_rows["ledger"])
    for row in run_rows["answers"]:
        own = [call for call in run_rows["ledger"] if call["query_id"] == row["query_id"]]
        assert row["calls"] == len(own)
        assert row["prompt_tokens"] == sum(call["prompt_tokens"] for call in own)
        assert row["weighted_tokens"] == row["prompt_tokens"] + 4 * row["completion_tokens"]


def test_citations_are_the_documents_own_words(run_rows: dict[str, Any], sample_archive: Path) -> None:
    archive = Archive.open(sample_archive)
    cited = [row for row in run_rows["answers"] if row["cited"]]
    assert len(cited) >= 15
    for row in cited:
        for span in row["citations"]:
            quoted = archive.document(span["doc_id"]).text[span["start_char"] : span["end_char"]]
            said = row["answer"].removeprefix("[")  # the head of a table in its compact form
            assert said in " ".join(quoted.split())
            assert any(
                shown["doc_id"] == span["doc_id"]
                and shown["start_char"] <= span["start_char"]
                and span["end_char"] <= shown["end_char"]
                for shown in row["context"]
            )


def test_a_second_run_asks_nothing(run_rows: dict[str, Any], sample_archive: Path, sample_folder: Path) -> None:
    config = run_rows["manifest"]["config"]
    dead = {"llm.base_url": config["llm"]["base_url"], "llm.model": "gpt-4o-2024-08-06", "llm.window": 128_000}
    again = okralong.answer(
        sample_archive,
        sample_folder / "questions.jsonl",
        run_rows["folder"].path,
        **{"llm.tokenizer": "o200k_base", "policy": PAPER, "tags": {"team": "tests"}, **dead},
    )
    assert again.statuses == {"answered": 18}


def test_another_set_up_is_refused_in_the_same_folder(
    run_rows: dict[str, Any], sample_archive: Path, sample_folder: Path, reader: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match="begun with another set-up"):
        okralong.answer(
            sample_archive,
            sample_folder / "questions.jsonl",
            run_rows["folder"].path,
            strategy="std_rag",
            **endpoint(reader),
        )
    assert reader.received == []


def test_the_cap_holds_and_a_higher_one_goes_on(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    questions = sample_folder / "questions.jsonl"
    capped = answer(
        sample_archive, questions, tmp_path, strategy="std_rag", budget_usd=0.05, concurrency=4, **endpoint(reader)
    )
    assert capped.exit_code == EXIT_OVER_BUDGET
    assert "Raise budget_usd" in capped.stopped
    assert 0 < reader.bill_usd <= 0.05
    assert capped.statuses["over_budget"] + capped.statuses["answered"] == 18
    asked = len(reader.received)
    raised = answer(
        sample_archive, questions, tmp_path, strategy="std_rag", budget_usd=5.0, concurrency=4, **endpoint(reader)
    )
    assert raised.statuses == {"answered": 18}
    assert len(reader.received) == asked + capped.statuses["over_budget"], "what was answered is not asked again"


def test_bad_questions_fail_alone(sample_archive: Path, tmp_path: Path, reader: FakeOpenAI) -> None:
    greedy = "title"
    for _ in range(11):
        greedy = f"replace({greedy}, 'a', 'aaaaaaaaaa')"
    questions = tmp_path / "q.jsonl"
    questions.write_text(
        '{"query_id": "good", "question": "What was the revenue?"}\n'
        '{"query_id": "nowhere", "question": "What was it?", "doc_ids": ["no-such-report-*"]}\n'
        '{"query_id": "silent", "question": ""}\n'
        '{"query_id": "gibberish", "question": "zxqv wvut qqqq?"}\n'
        f'{{"query_id": "greedy", "question": "What was it?", "where": "{greedy} is not null"}}\n'
    )
    run = tmp_path / "run"
    result = answer(sample_archive, questions, run, **endpoint(reader))
    assert result.exit_code == 1
    assert result.statuses == {"answered": 2, "failed": 2}
    failures = {row["id"]: row["message"] for row in table(Folder.of(run), "failures")}
    assert set(failures) == {"nowhere", "silent", "greedy"}
    assert "q.jsonl, greedy: The filter " in failures["greedy"]
    assert "calls replace, which is not an allowed function" in failures["greedy"]
    assert "no-such-report-*" in failures["nowhere"]
    assert "empty question" in failures["silent"]


def test_precise_mode_and_long_context_read_the_whole_scope(
    sample_archive: Path, sample_folder: Path, tmp_path: Path
) -> None:
    """With a window of 128k the full text fits: precise mode shows it after "unanswerable", long context at once."""
    first = json.loads((sample_folder / "questions.jsonl").read_text().splitlines()[0])
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps(first))
    rules = [
        (lambda messages: len(messages[-1]["content"]) > 10_000, "Answer: whole"),
        (always, "Answer: unanswerable"),
    ]
    with FakeOpenAI(rules=rules, models=["gpt-4o-2024-08-06"]) as server:
        for strategy in ("okralong_precise", "long_context"):
            answer(sample_archive, questions, tmp_path / strategy, strategy=strategy, **endpoint(server))
    text = Archive.open(sample_archive).document(first["doc_ids"][0]).text
    for strategy in ("okralong_precise", "long_context"):
        (row,) = table(Folder.of(tmp_path / strategy), "answers")
        assert (row["status"], row["answer"]) == ("answered", "whole")
        assert [(span["start_char"], span["end_char"]) for span in row["context"]] == [(0, len(text))]
    paths = [
        row["path"] for row in table(Folder.of(tmp_path / "okralong_precise"), "journal") if row["kind"] == "reply"
    ]
    assert paths[-1] == "full_text/generate"
    assert len(paths) >= 2


def test_show_prints_the_whole_way(
    run_rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    by_workflow = {json.loads(row["plan"])["workflow"]: row for row in run_rows["answers"]}
    assert set(by_workflow) == {"linear", "extend", "split", "step"}
    for row in by_workflow.values():
        code, said = call(monkeypatch, capsys, "show", run_rows["folder"].path, row["query_id"], "--all")
        assert code == 0
        assert "analysis by heads:shipped of the question and 3 chunks" in said
        assert all(" ".join(reason.split()) in said for reason in json.loads(row["plan"])["reasons"])
        assert '<passage id="1"' in said
        assert "replied (" in said
        assert f"[1] {row['citations'][0]['doc_id']}" in said.partition("analysis by heads:shipped")[0]
    code, said = call(monkeypatch, capsys, "show", run_rows["folder"].path)
    assert "18 answered; 18 cited; analyzer: heads:shipped" in said
    assert f"${run_rows['bill']:.4f}" in said


def test_a_run_that_cannot_reach_its_generator_spends_nothing(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = sample_folder / "questions.jsonl"
    dead = {**endpoint(reader), "llm.base_url": "http://127.0.0.1:9/v1"}
    with pytest.raises(EndpointError, match="cannot be reached"):
        okralong.answer(sample_archive, questions, tmp_path / "dead", **dead)
    reader.key = "right"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key")
    with pytest.raises(EndpointError, match="refuses the key") as refused:  # a start without a call binds no folder
        okralong.answer(sample_archive, questions, tmp_path / "dead", **endpoint(reader))
    assert "sk-wrong-key" not in str(refused.value)
    with pytest.raises(ConfigError, match="no price for the model 'llama3'"):
        okralong.answer(sample_archive, questions, tmp_path / "free", **{**endpoint(reader), "llm.model": "llama3"})
    assert reader.received == []
    for run in ("dead", "free"):
        assert not any((tmp_path / run).rglob("*.parquet"))
    assert b"sk-wrong-key" not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


def test_a_key_that_is_revoked_half_way_stops_the_run_and_is_nowhere(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = reader.key = NODE_KEY
    reader.troubles = [None, None, None, *[Trouble(401, "invalid_api_key", f"Incorrect key: {key}")] * 50]
    monkeypatch.setenv("OPENAI_API_KEY", key)
    questions = sample_folder / "questions.jsonl"
    told = {**endpoint(reader), "concurrency": 2, "strategy": "std_rag", "budget_usd": 1.0}
    stopped = answer(sample_archive, questions, tmp_path, **told)
    assert stopped.exit_code == EXIT_ENDPOINT
    assert "key" in stopped.stopped
    assert stopped.statuses == {"answered": 3}
    assert Folder.of(tmp_path).read_manifest() is None
    assert key.encode() not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    reader.troubles = []
    assert answer(sample_archive, questions, tmp_path, **told).statuses == {"answered": 18}
