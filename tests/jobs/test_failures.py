"""``okralong failures``: what is listed of a run and of an archive, and with which exit code."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import openpyxl
import pyarrow as pa
import pytest
from rich.console import Console

from okralong.jobs.failures import failure_rows
from okralong.jobs.terminal import say_first
from okralong.pipelines.core.schemas import ANSWERS, FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from tests.archives.nights import made_up, night
from tests.jobs.conftest import call


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a bad row, a question that failed, and one that failed and was answered later."""
    folder = Folder.of(tmp_path / "run")
    folder.write_bytes("run.json", b"{}")
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ends = [{"query_id": "once", "status": "failed"}, {"query_id": "twice", "status": "answered"}]
    rows = [
        {"id": "row-3", "stage": "questions", "error_type": "QuestionError", "message": "q.csv, row 3 is empty."},
        {"id": "once", "stage": "answer", "error_type": "ReplyError", "message": "No answer line."},
        {"id": "twice", "stage": "answer", "error_type": "ReplyError", "message": "No answer line."},
    ]
    answers = pa.Table.from_pylist([{"citations": [], "doc_ids": []} | row for row in ends], schema=ANSWERS)
    folder.at("answers").write_table("part-000000001.parquet", answers)
    table = pa.Table.from_pylist([row | {"at": at} for row in rows], schema=FAILURES)
    folder.at("failures").write_table("part-000000001.parquet", table)
    return tmp_path / "run"


def test_what_failed_and_still_stands_is_listed(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = call(monkeypatch, capsys, "failures", run)
    assert code == 1
    told = "once (answer) No answer line. row-3 (questions) q.csv, row 3 is empty."
    assert said == f"{told} {run}: 2 failures"
    code, said = call(monkeypatch, capsys, "failures", run, "--json")
    assert code == 1
    lines = [json.loads(line + "}") for line in said.split("}")[:-1]]
    assert call(monkeypatch, capsys, "failures", run, "--to", run / "f.xlsx") == (
        1,
        f"{run}: 2 failures, in {run}/f.xlsx",
    )
    book = openpyxl.load_workbook(run / "f.xlsx")
    assert [row[0] for row in book["failures"].values] == ["id", "once", "row-3"]
    assert [(line["id"], line["at"]) for line in lines] == [
        ("once", "2026-01-01T00:00:00+00:00"),
        ("row-3", "2026-01-01T00:00:00+00:00"),
    ]


def test_an_archive_has_failures_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    night(tmp_path / "archive", {"a": made_up("a")})
    code, said = call(monkeypatch, capsys, "failures", tmp_path / "archive")
    assert (code, said) == (0, f"{tmp_path / 'archive'}: no failures")
    with pytest.raises(InputError, match=r"neither a run .* nor an archive"):
        failure_rows(str(tmp_path / "nothing"))


def test_the_first_ten_reasons_are_printed() -> None:
    printed = io.StringIO()
    console = Console(file=printed, width=200)
    say_first(console, [f"q.csv, row {number} is [bold]empty." for number in range(12)], "row", "cannot be asked")
    lines = printed.getvalue().splitlines()
    assert lines[0] == "12 rows cannot be asked:"
    assert lines[10] == "- q.csv, row 9 is [bold]empty."
    assert lines[11].startswith("- ... and 2 more")
    say_first(console, [], "row", "cannot be asked")
    assert len(printed.getvalue().splitlines()) == 12
