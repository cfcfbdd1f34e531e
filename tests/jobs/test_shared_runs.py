"""Two answer runs that share replies, on real Ray: the second is billed for nothing that the first has asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, call, endpoint
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow


def test_a_second_run_pays_for_what_is_new_and_knows_its_price_alone(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    questions = sample_folder / "questions.jsonl"
    lines = questions.read_text().splitlines()
    (tmp_path / "half.jsonl").write_text("\n".join(lines[:9]))
    given = {"policy": PAPER, **endpoint(reader)}
    answer(sample_archive, tmp_path / "half.jsonl", tmp_path / "first", **given)
    first_bill, first_calls = reader.bill_usd, len(reader.received)
    shared = answer(sample_archive, questions, tmp_path / "second", replies_from=[str(tmp_path / "first")], **given)
    assert shared.statuses == {"answered": 18}
    second_bill = reader.bill_usd - first_bill
    answer(sample_archive, questions, tmp_path / "fresh", **given)
    fresh_bill = reader.bill_usd - first_bill - second_bill
    totals = json.loads((tmp_path / "second" / "manifest.json").read_text())["totals"]
    assert totals["shared_replies"] == first_calls
    assert totals["settled_usd"] == pytest.approx(second_bill, abs=1e-9)
    assert totals["alone_usd"] == pytest.approx(fresh_bill, abs=1e-9)
    rows = table(Folder.of(tmp_path / "second"), "answers")
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(second_bill, abs=1e-9)
    fresh = {row["query_id"]: row for row in table(Folder.of(tmp_path / "fresh"), "answers")}
    for row in rows:
        same = fresh[row["query_id"]]
        assert (row["answer"], row["prompt_tokens"], row["calls"]) == (
            same["answer"],
            same["prompt_tokens"],
            same["calls"],
        )


def test_the_summary_says_both_and_a_retry_asks_anew(
    sample_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (sample_folder / "questions.jsonl").read_text().splitlines()[0]
    (tmp_path / "q.jsonl").write_text(line)
    with FakeOpenAI(rules=[(lambda _: True, "Answer: unanswerable")], models=["gpt-4o-2024-08-06"]) as server:
        given = {"strategy": "std_rag", **endpoint(server)}
        server.snapshot = "of-monday"
        answer(sample_archive, tmp_path / "q.jsonl", tmp_path / "first", **given)
        server.snapshot = "of-tuesday"
        sharing = {"replies_from": [str(tmp_path / "first")], **given}
        second = answer(sample_archive, tmp_path / "q.jsonl", tmp_path / "second", **sharing)
        assert second.statuses == {"unanswerable": 1}
        run = Folder.of(tmp_path / "second")
        assert [row["replied_by"] for row in table(run, "answers")] == ["of-monday"], "the model of the reply taken"
        assert len(server.received) == 1
        _, said = call(monkeypatch, capsys, "show", tmp_path / "second")
        assert f"billed $0.0000; without 1 reply from other runs it would have been ${server.bill_usd:.4f}" in said
        again = answer(sample_archive, tmp_path / "q.jsonl", tmp_path / "second", retry=["unanswerable"], **sharing)
        assert again.exit_code == 0
        assert len(server.received) == 2, "the reply that failed the question is not taken again"
        assert [row["replied_by"] for row in table(run, "answers")] == ["of-tuesday"]


def test_a_run_that_is_none_is_refused_before_anything_is_spent(
    sample_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI
) -> None:
    with pytest.raises(ConfigError, match="has no journal"):
        okralong.answer(
            sample_archive,
            sample_folder / "questions.jsonl",
            tmp_path / "run",
            replies_from=[str(tmp_path / "nowhere")],
            **endpoint(reader),
        )
    assert reader.received == []
