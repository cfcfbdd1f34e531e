"""A run's report from its tables: its figures, the files beside it, and what it says when something is missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from okralong.jobs import report
from okralong.jobs.cli import app
from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.reporting.charts import latency
from okralong.pipelines.reporting.page import SCRIPTS, Report, page_script, render
from okralong.pipelines.reporting.pictures import report_pictures
from okralong.pipelines.reporting.rows import figures
from okralong.pipelines.reporting.run import ALL, run_report, run_rows
from okralong.pipelines.run.questions import read_questions
from okralong.pipelines.run.rows import purge_run
from tests.reporting.conftest import QUESTIONS


@pytest.fixture(scope="module")
def made_report(made: Path) -> Report:
    golds = {question.query_id: question for question in read_questions(made / "questions.jsonl")[0]}
    return run_report(Folder.of(made / "run"), golds, details=100)


def test_figures_agree_with_how_the_run_was_made(made_report: Report) -> None:
    assert len(made_report.rows) == QUESTIONS
    points = made_report.panels[0].points
    assert list(points) == [ALL, "extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"]
    right = sum(n % 7 != 6 and n % 3 != 2 for n in range(QUESTIONS))
    assert points[ALL]["em"].value == pytest.approx(right / QUESTIONS)
    assert points[ALL]["evidence_recall"].value == 1.0
    low, high = points[ALL]["f1"].low, points[ALL]["f1"].high
    assert low is not None
    assert high is not None
    assert low < points[ALL]["f1"].value < high
    assert made_report.panels[0].frontier("f1", "weighted_tokens") == []  # parts of a run do not compete
    [matrix] = made_report.confusions
    assert (matrix["right"], matrix["n"]) == (QUESTIONS - 12, QUESTIONS)
    assert made_report.mix["bars"][0]["n"] == QUESTIONS
    assert made_report.latency["parts"] == ["analyze", "retrieve", "generate"]
    assert made_report.notes == []


def test_what_the_budget_did_not_reach_is_in_no_mean() -> None:
    asked = dict.fromkeys(ANSWERS.names) | {"question": "Who?", "seconds": [("total", 4.0), ("retrieve", 1.0)]}
    right = {"query_id": "a", "status": "answered", "answer": "Ida", "doc_ids": ["x", "y"], "weighted_tokens": 100}
    none = {"query_id": "b", "status": "unanswerable", "doc_ids": ["y"], "weighted_tokens": 50}
    late = {"query_id": "c", "status": "over_budget", "doc_ids": ["z"], "seconds": []}
    golds = {
        "a": Question("a", "Who?", answers=("Ida",)),
        "b": Question("b", "Who?", answers=("unanswerable",)),
        "c": Question("c", "Who?", answers=("Ida",)),
    }
    rows = run_rows([asked | right, asked | none, asked | late], [], golds)
    assert [row.measures.get("f1") for row in rows] == [1.0, 1.0, None]
    assert figures(rows, ["weighted_tokens"])["weighted_tokens"].value == 75
    assert latency({ALL: rows})["bars"][0]["parts"] == [1.0]
    assert rows[0].cluster == rows[1].cluster != rows[2].cluster, "one is about a document of the other"


def test_details_are_bounded_and_hold_the_way_of_a_question(made_report: Report) -> None:
    assert len(made_report.details) == 100
    detail = json.loads(made_report.details[3])
    assert detail["golds"] == ["1,544 thousand crowns"]
    assert [step[1] for step in detail["steps"]] == ["retrieval", "request", "reply"]
    assert [piece for piece in detail["sources"][0][4] if piece[1] == 3] == [["1,544", 3]]
    assert detail["plan"]["workflow"] == "split"


def test_files_lie_beside_the_page(made: Path, made_report: Report, tmp_path: Path) -> None:
    golds = ["--questions", str(made / "questions.jsonl")]
    command = ["report", str(made / "run"), "--out", str(tmp_path / "page.html"), "--details", "5", *golds]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "page.html" in result.output.replace("\n", "")
    tables, pictures = tmp_path / "page" / "tables", tmp_path / "page" / "pictures"
    names = {"types", "workflows", "latency", "calls", "questions", "confusion"}
    assert {path.name for path in tables.iterdir()} == {f"{n}.{s}" for n in names for s in ("parquet", "csv", "md")}
    drawn = {"cost_accuracy", "latency", "workflows", "confusion"}
    assert {path.name for path in pictures.iterdir()} == {f"{name}.{s}" for name in drawn for s in ("png", "svg")}
    assert (pictures / "confusion.png").read_bytes().startswith(b"\x89PNG")
    questions = pq.read_table(tables / "questions.parquet")
    assert questions.num_rows == QUESTIONS
    assert set(questions["replied_by"].to_pylist()) == {row.replied_by for row in made_report.rows}
    assert all(row.replied_by.startswith("small-2026") for row in made_report.rows)


def test_the_same_run_gives_the_same_bytes(made_report: Report) -> None:
    assert render(made_report) == render(made_report)
    assert report_pictures(made_report) == report_pictures(made_report)


def test_a_run_without_golds_or_archive_says_so(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    begun = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(begun | {"archive": str(tmp_path / "gone")}))
    (tmp_path / "run" / "manifest.json").unlink()
    found = run_report(Folder.of(tmp_path / "run"), {}, details=10)
    assert len(found.notes) == 3
    assert "archive is missing" in found.notes[0]
    assert "incomplete" in found.notes[1]
    assert "No gold answers" in found.notes[2]
    other = {"x1": Question("x1", "Another file's?", answers=("yes",))}
    assert run_report(Folder.of(tmp_path / "run"), other, details=0).notes == found.notes
    assert "f1" not in found.panels[0].points[ALL]
    [source] = json.loads(found.details[0])["sources"]
    assert source[4] == []


def test_an_empty_run_is_a_page_too(made: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(made / "run" / "run.json", tmp_path / "run")
    assert b"<!DOCTYPE html>" in render(run_report(Folder.of(tmp_path / "run"), {}, details=10))


def test_what_is_no_run_and_what_is_no_page_are_refused(tmp_path: Path, made: Path) -> None:
    with pytest.raises(InputError, match=r"neither a run .*run\.json.* nor a sweep"):
        report.write_report(str(tmp_path))
    with pytest.raises(InputError, match=r"ends in \.html"):
        report.write_report(str(made / "run"), out=str(tmp_path / "report"))


def test_the_page_lets_nothing_in(made_report: Report) -> None:
    page = render(made_report).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert page.count("</script>") == 4 + len(made_report.details) // 64 + 1
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_the_script_makes_no_markup_from_text() -> None:
    script = page_script()
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "fetch(", "srcdoc")
    assert [sink for sink in sinks if sink in script] == []
    folder = Path(report.__file__).resolve().parent.parent / "pipelines" / "reporting" / "page"
    files = sorted(path.name for path in folder.iterdir())
    assert files == sorted([*SCRIPTS, "page.html", "page.css"])
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.iterdir()) <= 400
    assert script.startswith('"use strict";\n')


def test_a_purge_takes_the_report_that_quotes_the_document(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "run", tmp_path / "run")
    report.write_report(str(tmp_path / "run"))
    assert (tmp_path / "run" / "report" / "tables" / "questions.csv").is_file()
    assert purge_run(Folder.of(tmp_path / "run"), "works-1")
    left = [path.name for path in (tmp_path / "run").rglob("*") if path.is_file() and "report" in str(path)]
    assert [name for name in left if name.startswith(("report", "questions"))] == []
    again = run_report(Folder.of(tmp_path / "run"), {}, details=1_000)
    assert not any("Lantern" in detail for detail in again.details if "works-1" in detail)
