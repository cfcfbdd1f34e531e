"""Exported Excel files that a person filled in: what is recorded, what conflicts, and what is refused."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import ANSWERS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.export import export_run, flat_answers
from okralong.pipelines.reporting.filled import read_filled
from okralong.pipelines.run.corrections import Correction, Entry, corrections_of, read_entries, reopened_by, rests_on
from okralong.pipelines.run.rows import write_order
from tests.archives.written import write_version

TEXT = "Sales of lamps were 1,544 crowns.\n\x0cThe chair is Ida Moss, who came in 1998."
CHAIR = TEXT.index("The chair")
TYPES = {"sales": "money", "share": "percent", "day": "date", "chair": "", "up": 'choices ["rose", "fell"]'}


def write_archive(place: Path, text: str, *, pages: bool = True) -> Archive:
    starts = ((1, 0), (2, text.index("The chair"))) if pages else ()
    sections = [{"kind": "page", "name": str(number), "start_char": at} for number, at in starts]
    document: dict[str, Any] = {"doc_id": "report", "text": text, "n_tokens": 9, "tables": [], "sections": sections}
    document["sha256"] = text[:40]
    return Archive.open(f"{write_version(place, [document], [150], {'model': 'm'}, fingerprint='made')}@1")


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    archive = write_archive(tmp_path / "archive", TEXT)
    folder = Folder.of(tmp_path / "run")
    rows: list[dict[str, Any]] = []
    for query_id, answer_type in TYPES.items():
        start, end = (CHAIR, len(TEXT)) if query_id == "chair" else (0, 33)
        row = {"query_id": query_id, "question": f"What of {query_id}?", "status": "answered", "answer": "1,544 crowns"}
        row |= {"citations": [{"doc_id": "report", "start_char": start, "end_char": end}], "doc_ids": ["report"]}
        rows.append(row | {"answer_type": answer_type, "cited": True})
    folder.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    begun = {"archive": str(archive.location), "archive_fingerprint": "made", "run_id": "one", "config": {}}
    folder.write_bytes("run.json", json.dumps(begun).encode())
    write_order(folder, TYPES)
    export_run(folder, str(tmp_path / "answers.xlsx"))
    return folder


def fill(
    file: Path, cells: dict[tuple[str, str], Any], formats: dict[str, str] | None = None, *, turned: bool = False
) -> Path:
    """Write ``cells`` by query_id and column into the sheet answers, as a person does; ``turned`` turns its rows."""
    book = openpyxl.load_workbook(file)
    sheet = book["answers"]
    head = [cell.value for cell in sheet[1]]
    for line in sheet.iter_rows(min_row=2):
        query_id = str(line[0].value)
        for (wanted, name), value in cells.items():
            if query_id == wanted:
                line[head.index(name)].value = value
                line[head.index(name)].number_format = (formats or {}).get(wanted, "General")
    if turned:
        rows = [[(cell.value, cell.number_format) for cell in line] for line in sheet.iter_rows(min_row=2)]
        for line, held in zip(sheet.iter_rows(min_row=2), reversed(rows), strict=True):
            for cell, (value, number_format) in zip(line, held, strict=True):
                cell.value, cell.number_format = value, number_format
    book.save(file)
    return file


def okralong(*arguments: object) -> tuple[int, str]:
    """Exit code and output of ``okralong corrections``, or 2 and the message of the error."""
    ended = CliRunner().invoke(app, ["corrections", *map(str, arguments)])
    if isinstance(ended.exception, InputError):
        return 2, " ".join(str(ended.exception).split())
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, " ".join(ended.output.split())


def test_cells_are_read_as_a_person_sees_them(run: Folder, tmp_path: Path) -> None:
    given = {"sales": 1234.5, "share": 0.125, "day": openpyxl.utils.datetime.from_excel(45415), "chair": "=Ida"}
    given |= {"up": "fell"}
    formats = {"sales": "[$€-407] #,##0.00;[Red]-[$€-407] #,##0.00", "share": "0.0%", "day": "dd/mm/yyyy"}
    file = fill(tmp_path / "answers.xlsx", {(name, "corrected"): value for name, value in given.items()}, formats)
    book = openpyxl.load_workbook(file)
    head = [cell.value for cell in book["answers"][1]]
    cell = book["answers"].cell(5, head.index("corrected") + 1)
    cell.value, cell.data_type = "=Ida", "s"  # text, as exports have it
    book.save(file)
    code, printed = okralong(run.path, file, "--by", "Ada")
    assert (code, "recorded: 5 corrections, withdrawn: 0" in printed) == (0, True), printed
    assert {name: each.entry.corrected for name, each in corrections_of(run).items()} == {
        "sales": "€ 1234.5",
        "share": "12.5 %",
        "day": "2024-05-03",
        "chair": "=Ida",
        "up": "fell",
    }
    assert "read as 1,234.5 EUR" in printed
    assert okralong(run.path, file)[1].startswith("recorded: 0 corrections"), "the same file once more"
    export_run(run, str(tmp_path / "again.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "again.xlsx")
    assert all(each.data_type != "f" for sheet in book for line in sheet for each in line)
    assert {cell.value: cell.fill.fgColor.rgb for cell in book["answers"][1]}["corrected"] == "FFD5EFD9"
    assert book["corrections"].max_row == 6
    assert okralong(run.path, tmp_path / "again.xlsx")[1].startswith("recorded: 0 corrections")


def test_a_row_that_is_wrong_is_named_and_nothing_is_recorded(run: Folder, tmp_path: Path) -> None:
    file = tmp_path / "answers.xlsx"
    wrong: dict[tuple[str, str], Any] = {
        ("sales", "corrected"): "=A1*2",
        ("share", "corrected"): "a lot",
        ("day", "note"): "which?",
        ("chair", "query_id"): "nobody",
        ("chair", "corrected"): "Ida",
        ("up", "corrected"): "rose",
    }
    code, printed = okralong(run.path, fill(file, wrong))
    assert code == 2
    for words in (
        "sheet answers, row 2 (sales): corrected is a formula (=A1*2): write the value itself",
        "row 3 (share): a lot does not fit the answer_type percent: one percentage was asked for",
        "row 4 (day): it has a note but no value in corrected",
        "row 5 (nobody): this query_id was not in the export",
        "Nothing was recorded: 4 rows cannot be.",
    ):
        assert words in printed
    assert read_entries(run) == []
    fill(file, {("sales", "corrected"): None, ("share", "corrected"): None, ("day", "note"): None})
    code, printed = okralong(run.path, fill(file, {("nobody", "query_id"): None}))
    assert (code, "row 5: it is filled in but has no query_id" in printed) == (2, True), printed
    fill(file, {("None", "corrected"): None})
    code, printed = okralong(run.path, file)
    assert (code, "skipped 1 row of the export that the file lacks: chair" in printed) == (0, True)
    assert list(corrections_of(run)) == ["up"]

    book = openpyxl.load_workbook(file)
    del book["okralong"]
    book.save(tmp_path / "bare.xlsx")
    (tmp_path / "text.xlsx").write_text("no workbook")
    with ZipFile(file) as whole, ZipFile(tmp_path / "broken.xlsx", "w") as broken:
        for name in whole.namelist():
            content = whole.read(name)
            broken.writestr(name, content[: len(content) // 2] if name.endswith("sheet1.xml") else content)
    refused = {
        "bare": "lacks the sheet answers or the hidden",
        "text": "is not an .xlsx file",
        "none": "There is no file",
    }
    refused["broken"] = "cannot be read"
    for name, words in refused.items():
        with pytest.raises(InputError, match=words):
            read_filled(tmp_path / f"{name}.xlsx")
    begun = json.loads(run.read_bytes("run.json"))
    run.write_bytes("run.json", json.dumps(begun | {"run_id": "another"}).encode())
    code, printed = okralong(run.path, file)
    assert (code, re.search(r"was exported from \S+/run, which is another run. Give that folder", printed) is None) == (
        2,
        False,
    )


def test_a_file_of_many_merged_ranges_is_read_at_once(run: Folder, tmp_path: Path) -> None:
    file = fill(
        tmp_path / "answers.xlsx", {("chair", "corrected"): "Ida", ("sales", "corrected"): " ", ("up", "note"): "\xa0"}
    )
    with ZipFile(file) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    many = b"<mergeCells>" + b'<mergeCell ref="A1:XFD1048576"/>' * 2_000 + b"</mergeCells>"
    with ZipFile(file, "w") as merged:
        for name, content in parts.items():
            merged.writestr(name, content.replace(b"</sheetData>", b"</sheetData>" + many))
    began = time.process_time()
    assert [(cell.query_id, cell.corrected) for cell in read_filled(file).cells if cell.corrected] == [("chair", "Ida")]
    assert time.process_time() - began < 5, "it is read in a process of its own"
    code, printed = okralong(run.path, file)
    assert (code, "recorded: 1 correction" in printed) == (0, True), printed


def test_conflicts_are_named_and_one_side_may_be_taken(run: Folder, tmp_path: Path) -> None:
    first, second = tmp_path / "answers.xlsx", tmp_path / "second.xlsx"
    second.write_bytes(first.read_bytes())
    fill(first, {("sales", "corrected"): "1 SEK", ("chair", "corrected"): "Ida"})
    fill(second, {("sales", "corrected"): "2 SEK", ("chair", "corrected"): "Ida"})
    code, printed = okralong(run.path, first, second)
    assert (code, "second.xlsx, sheet answers, row 2 (sales): 2 SEK differs from" in printed) == (2, True)
    assert okralong(run.path, first, "--by", "Ada")[0] == 0
    code, printed = okralong(run.path, second)
    assert code == 2
    assert "corrected it to 1 SEK after this file was exported" in printed
    assert "add --take-mine" in printed
    assert okralong(run.path, second, "--by", "Bo", "--take-mine")[0] == 0
    assert [(each.by, each.previous, each.corrected) for each in read_entries(run)] == [
        ("Ada", "1,544 crowns", "1 SEK"),
        ("Ada", "1,544 crowns", "Ida"),
        ("Bo", "1 SEK", "2 SEK"),
    ]
    export_run(run, str(first))
    assert okralong(run.path, fill(first, {("sales", "corrected"): None, ("sales", "note"): None}))[0] == 0
    assert list(corrections_of(run)) == ["chair"], "an emptied cell withdraws its correction"
    for arguments, words in (
        (("--cell", "sales"), "--cell and --value belong together"),
        (("--note", "why"), "--note belongs to --cell"),
        (("--cell", "nobody", "--value", "1"), "has no answer 'nobody'"),
        (("--cell", "up", "--value", "sank"), "one of rose, fell was asked for"),
        (("--withdraw", "sales"), "has no correction; corrected are: chair"),
    ):
        code, printed = okralong(run.path, *arguments)
        assert (code, words in printed) == (2, True), printed
    rows = run.at("answers").read_table("part-000000001.parquet")
    run.at("answers").write_table("part-000000001.parquet", rows.filter(pc.not_equal(rows["query_id"], "chair")))
    assert okralong(run.path, "--withdraw", "chair")[0] == 0, "although it is no longer asked"
    run.at("answers").write_table("part-000000001.parquet", rows)
    assert run.at("corrections").read_bytes("gold.jsonl") == b""
    assert flat_answers(run)["correction"].null_count == len(TYPES)


def test_only_a_changed_page_opens_a_correction_again(run: Folder, tmp_path: Path) -> None:
    for name, value in (("sales", "1,500 crowns"), ("chair", "Ida Moss")):
        assert okralong(run.path, "--cell", name, "--value", value)[0] == 0
    known = corrections_of(run)
    source = known["chair"].entry.sources[0]
    assert (source.section, source.document_sha256) == ("page 2", TEXT[:40])
    assert len(source.passage_sha256 or "") == 64

    def reopened(text: str, questions: dict[str, tuple[str, str]] | None = None, there: bool = True) -> dict[str, str]:
        folder = tmp_path / f"later-{len(list(tmp_path.iterdir()))}"
        documents = {"report": text[:40]} if there else {}
        found = reopened_by(known, write_archive(folder, text), documents, questions or {}, "2026-11-28")
        return {each.query_id: each.reason for each in found}

    assert reopened(TEXT) == {}
    assert reopened(TEXT.replace("1,544", "1,545")) == {"sales": "the page changed"}
    assert reopened(f"A new cover.\n\x0c{TEXT}".replace("1,544", "1,545")) == {"sales": "the page changed"}
    assert reopened(TEXT, there=False) == dict.fromkeys(("sales", "chair"), "the document is gone")
    assert reopened(TEXT, {"chair": ("Who chairs?", "")}) == {"chair": "the question changed"}


def test_without_pages_the_words_around_a_citation_count(tmp_path: Path) -> None:
    text = f"{'Before. ' * 400}{TEXT}{' After.' * 400}"
    start = text.index("Sales")
    row = {"citations": [{"doc_id": "report", "start_char": start, "end_char": start + 33}], "doc_ids": ["report"]}
    sources = rests_on(write_archive(tmp_path / "plain", text, pages=False), row)
    entry = Entry("q", "corrected", datetime.now(UTC), "Ada", question="Q?", sources=sources)

    def reason(later: str) -> str:
        archive = write_archive(tmp_path / f"plain-{len(list(tmp_path.iterdir()))}", later, pages=False)
        found = reopened_by({"q": Correction(entry)}, archive, {"report": "another"}, {}, "2026-11-28")
        return found[0].reason if found else ""

    assert reason(f"A new beginning. {text} A new end.") == ""
    assert reason(text.replace("1,544", "1,545")) == "the passage changed"
