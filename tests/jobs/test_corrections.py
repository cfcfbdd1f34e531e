"""Corrections over nights: a filled Excel file marks cells, and a changed page opens them again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest
import yaml
from rich.console import Console

from okralong.jobs.night import NightJob
from okralong.jobs.nightly import run_nightly
from okralong.jobs.nightly_files import Places
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_OK, EXIT_USAGE
from okralong.pipelines.reporting.export import export_run, flat_answers
from okralong.pipelines.run.corrections import Entry, append_entries, corrections_of, read_entries
from okralong.pipelines.run.nightly import CURRENT, NIGHTS, Night, nights
from okralong.pipelines.run.questions import read_questions
from tests.jobs.conftest import call
from tests.jobs.test_matrix_run import folder, write
from tests.reporting.test_filled import fill

pytestmark = pytest.mark.slow

__all__ = ["folder"]  # a fixture


def test_a_correction_marks_its_cell_until_its_page_changes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def okralong(*arguments: object) -> tuple[int, str]:
        return call(monkeypatch, capsys, *arguments)

    config, place = folder / "nightly.yaml", folder / "nightly"
    current, gold = Folder.of(place / "current"), place / "current" / "corrections" / "gold.jsonl"
    run_nightly(config)
    export_run(current, str(folder / "answers.xlsx"))
    cells = {("revenue@alder", "corrected"): 467_461_000, ("revenue@alder", "note"): "restated"}
    cells |= {("listed@lantern", "corrected"): True, ("revenue@lantern", "corrected"): "unanswerable"}
    file = fill(folder / "answers.xlsx", cells, turned=True)
    code, printed = okralong("corrections", place, file, "--by", "Ada")
    assert (code, "recorded: 3 corrections" in printed) == (EXIT_OK, True), printed
    rows = {row["query_id"]: row for row in flat_answers(current).to_pylist()}
    one = rows["revenue@alder"]
    assert (one["answer"], one["value"]) == ("$ 467,460", "467460000"), "an answer is never overwritten"
    assert (one["corrected"], one["note"], one["correction"]) == ("467461000", "restated", "corrected")
    assert {each.query_id: each.answers for each in read_questions(str(gold))[0]} == {
        "revenue@alder": ("467461000",),
        "listed@lantern": ("yes",),
        "revenue@lantern": ("unanswerable",),
    }
    code, printed = okralong("show", place / "current", "revenue@alder")
    assert "corrected to 467461000 by Ada" in printed

    # Lantern's report changes. Alder's cells stay marked; the others are to be looked at again.
    export_run(current, str(folder / "stale.xlsx"))
    write(folder, state="listed", buyer="Moss")
    run_nightly(config)
    night = nights(Folder.of(place))[-1]
    assert night.notes["reopened"] == ["listed@lantern", "revenue@lantern"]
    page = (place / "nights" / night.name / "differences.html").read_text()
    assert "corrections reopened, to be looked at again: listed@lantern (the passage changed)" in page
    found = pq.read_table(place / "nights" / night.name / "differences.parquet").to_pylist()
    assert {row["query_id"]: (row["change"], row["cause"]) for row in found if row["after_correction"]} == {
        "listed@lantern": ("changed", "document"),
        "revenue@lantern": ("moved", "document"),
        "revenue@alder": ("corrected", "correction"),
    }
    told = {row["query_id"]: row["after_correction"] or "" for row in found}
    assert told["listed@lantern"].endswith("(reopened: the passage changed)")
    assert corrections_of(current)["revenue@alder"].state == "corrected"
    assert [each.query_id for each in read_questions(str(gold))[0]] == ["revenue@alder"]
    code, printed = okralong("corrections", place)
    assert (code, "3 corrections, 2 reopened" in printed) == (EXIT_OK, True)
    fill(folder / "stale.xlsx", {("sale@lantern", "corrected"): '{"buyer": "Elm"}'})
    code, printed = okralong("corrections", place, folder / "stale.xlsx")
    assert code == EXIT_USAGE
    assert "answers that have changed since are conflicts" in printed
    assert "row 7 (sale@lantern): the answer has changed since the export" in printed
    assert okralong("corrections", place, "--cell", "listed@lantern", "--value", "yes")[0] == EXIT_OK
    assert corrections_of(current)["listed@lantern"].state == "corrected"

    # A column goes. Its correction stays in the history, and a file with its row is told so.
    assert okralong("corrections", place, "--cell", "sale@alder", "--value", '{"buyer": "Elm"}')[0] == EXIT_OK
    export_run(current, str(folder / "gone.xlsx"))
    columns = yaml.safe_load((folder / "columns.yaml").read_text())
    (folder / "columns.yaml").write_text(yaml.safe_dump({"columns": columns["columns"][:2]}))
    run_nightly(config)
    assert nights(Folder.of(place))[-1].notes["reopened"] == [], "reopened once"
    assert "sale@alder" in corrections_of(current)
    fill(folder / "gone.xlsx", {("sale@lantern", "corrected"): '{"buyer": "Elm"}'})
    code, printed = okralong("corrections", place, folder / "gone.xlsx")
    assert (code, "this question is no longer asked" in printed) == (EXIT_USAGE, True)
    export_run(current, str(folder / "marked.xlsx"))
    cell = openpyxl.load_workbook(folder / "marked.xlsx")["matrix"]["C2"]
    assert (cell.value, cell.fill.fgColor.rgb, "by Ada" in cell.comment.text) == (467_460_000, "FFBDE3C3", True)

    code, printed = okralong("archive", "purge", folder / "archive", "alder", "--run", place / "current", "--yes")
    assert code == EXIT_OK, printed
    kept = b"".join(path.read_bytes() for path in sorted((place / "current" / "corrections").glob("[!.]*")))
    assert b"467461000" not in kept
    assert [each.event for each in read_entries(current) if each.query_id == "revenue@alder"] == ["purged"]


def test_a_correction_made_after_a_nights_comparison_is_named_by_the_next_night(tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text(
        "{folder: nightly, archive: archive, sources: [reports], questions: questions.jsonl}", encoding="utf-8"
    )
    folder, at = Folder.of(tmp_path / "nightly"), datetime(2026, 11, 24, tzinfo=UTC)
    last = Night("2026-11-24", phase="done", notes={"corrections": 1})
    last.write(folder.at(NIGHTS, last.name))
    before = Entry("q1", "corrected", at, "ida", corrected="1")
    after = Entry("q2", "corrected", at, "ida", corrected="2")
    reopened = replace(before, event="reopened", night=last.name, reason="the page changed")
    append_entries(folder.at(CURRENT), [before, after, reopened])
    job = NightJob(Places.read(str(tmp_path / "nightly.yaml")), folder, Night("2026-11-25"), Console())
    assert job._known(read_entries(folder.at(CURRENT))) == [before, reopened]
