"""The end of a run on the terminal: its own score, where the questions have gold answers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from okralong.jobs import show
from okralong.jobs.show import print_summary
from okralong.pipelines.core.schemas import ANSWERS, LEDGER
from okralong.pipelines.core.storage import Folder
from tests.archives.written import write_version
from tests.reporting import made_run


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    """Three questions: two answered, and one that failed."""
    rows: list[dict[str, Any]] = [
        {"query_id": "q1", "question": "Sales?", "status": "answered", "answer": "1544"},
        {"query_id": "q2", "question": "Chair?", "status": "answered", "answer": "Moss"},
        {"query_id": "q3", "question": "Good?", "status": "failed", "answer": None},
    ]
    shared: dict[str, Any] = {"citations": [], "doc_ids": [], "finished_at": datetime(2026, 1, 1, tzinfo=UTC)}
    folder = Folder.of(tmp_path / "run")
    answers = pa.Table.from_pylist([{**shared, **row} for row in rows], schema=ANSWERS)
    folder.at("answers").write_table("part-000000001.parquet", answers)
    return folder


@pytest.mark.parametrize(
    ("golds", "said"),
    [
        # 1 for the number, 2/3 for "Moss" of "Ida Moss", 0 for the failed one.
        (
            {"q1": ("1,544",), "q2": ("Ida Moss",), "q3": ("yes",)},
            "answers of 3 questions: F1 0.56, exact match 0.33\n",
        ),
        ({"q1": ("1,544",), "q2": (), "elsewhere": ("yes",)}, "answers of 1 question: F1 1.00, exact match 1.00\n"),
        ({"q2": ()}, None),
        (None, None),
    ],
)
def test_a_run_is_scored_over_the_questions_that_have_a_gold_answer(
    run: Folder, golds: Mapping[str, Sequence[str]] | None, said: str | None
) -> None:
    page = io.StringIO()
    print_summary(Console(file=page), run, "", golds)
    assert "2 answered, 1 failed; 0 cited" in page.getvalue()
    assert (said in page.getvalue()) if said else ("gold answers" not in page.getvalue())


def test_values_of_typed_questions_stand_in_columns(run: Folder) -> None:
    page = io.StringIO()
    print_summary(Console(file=page), run, "")
    assert "period" not in page.getvalue(), "a run without types has no such columns"
    shared: dict[str, Any] = {"citations": [], "doc_ids": [], "finished_at": datetime(2026, 1, 1, tzinfo=UTC)}
    typed = {"query_id": "q4", "question": "Profit?", "status": "answered", "answer": "$ (234,495)"}
    typed |= {"answer_type": "money", "value": "-234495000", "number": -234495000.0, "currency": "USD"}
    typed |= {"period": "FY2023", **shared}
    run.at("answers").write_table("part-000000002.parquet", pa.Table.from_pylist([typed], schema=ANSWERS))
    page = io.StringIO()
    print_summary(Console(file=page), run, "", {"q4": ("$(234,495) thousand",)})
    said = " ".join(page.getvalue().split())
    assert "-234,495,000" in said
    assert "FY2023" in said
    assert "answers of 1 question: F1 1.00, exact match 1.00" in said, "marked as a value"


def test_a_run_says_whose_cost_it_is_and_what_other_runs_spared_it(run: Folder) -> None:
    page = io.StringIO()
    print_summary(Console(file=page), run, "")
    assert "billed" not in page.getvalue(), "without tags and shared replies there is nothing to say"
    tokens = {"prompt_tokens": 1_000_000, "cached_tokens": 0, "completion_tokens": 100_000}
    prices = {"input_usd_per_million": 2.5, "cached_usd_per_million": 1.25, "output_usd_per_million": 10.0}
    shared = {**tokens, **prices, "query_id": "q1", "attempt": 1, "started_at": datetime(2026, 1, 1, tzinfo=UTC)}
    rows = [
        {**shared, "call_id": "a", "status": "ok", "cost_usd": 3.5, "tags": [("report", "q3"), ("team", "night")]},
        {**shared, "call_id": "b", "status": "ok", "cost_usd": 3.5, "tags": [("team", "day")]},
        {**shared, "call_id": "c", "status": "cached", "cost_usd": 0.0, "tags": [("team", "day")]},
    ]
    run.at("ledger").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=LEDGER))
    print_summary(Console(file=page), run, "")
    said = " ".join(page.getvalue().split())
    assert "billed $7.0000; without 1 reply from other runs it would have been $10.5000" in said
    assert "billed by tag: report=q3 $3.5000, team=day $3.5000, team=night $3.5000" in said
    assert "billed $7.0000 in total, of which $7.0000 for unfinished questions" in said  # the rows name no cost


def test_an_answer_is_shown_with_quote_page_and_file_of_its_source_and_its_way_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = made_run.texts()["works-0"]
    pages = [{"kind": "page", "name": str(n), "start_char": at, "ocr": n == 2} for n, at in ((1, 0), (2, 20))]
    shared = {"text": text, "n_tokens": 1, "tables": [], "sections": pages, "source_uri": "/data/two words.pdf"}
    documents = [{**shared, "doc_id": f"works-{number}"} for number in range(4)]
    archive = write_version(tmp_path / "archive", documents, [150], {}, fingerprint=made_run.FINGERPRINT)
    run = str(made_run.write_run(tmp_path / "run", archive, 7))

    def said(*arguments: Any, **options: bool) -> str:
        show.command(run, *arguments, **options)
        return " ".join(capsys.readouterr().out.split())

    short = said("q00000")
    way = "retrieve: top 20 of 150-token chunks"
    order = ["What were the sales", "1,544 thousand crowns", "[1] works-0, page 2, read from an image"]
    order += ["/data/two words.pdf", "> Sales of the Lantern works rose", "q00000 --all"]
    assert [short.index(each) for each in order] == sorted(short.index(each) for each in order)
    assert way not in short
    assert said("q00000", whole=True).index(way) > short.index("> Sales of")
    failed = said("q00006")
    assert "answer: failed - the endpoint said 500" in " ".join(failed.replace("─", " ").split())
    assert "the answer is uncited" in failed
    assert "replied by small-2026" in short
