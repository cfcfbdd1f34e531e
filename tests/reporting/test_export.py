"""A run as Excel, pandas and DuckDB open it: one row a question, and no text that acts."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from okralong.pipelines.core.schemas import ANSWERS, FLAT_ANSWERS, FLAT_CITATIONS, LEDGER
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.reporting.export import (
    Exported,
    export_run,
    flat_answers,
    flat_citations,
)
from okralong.pipelines.reporting.matrix import Matrix, words_of
from okralong.pipelines.reporting.workbook import LINE_POINTS, MOST_CHARACTERS, MOST_LINES, WIDEST, excel
from okralong.pipelines.run.rows import in_question_order, write_order
from okralong.pipelines.statements.amounts import UNKNOWN
from tests.archives.written import write_version

TEXT = "Sales of lamps were 1,544 crowns.\n\x0cThe chair is Ida Moss, who came in 1998."
CHAIR = TEXT.index("The chair")
FORMULA = '=HYPERLINK("https://example.org/"&A1)'
LONG = "x" * 40_000
FINISHED = datetime(2026, 11, 25, 1, 30, 5, tzinfo=UTC)


def answer(query_id: str, text: str, spans: list[tuple[int, int]], **more: Any) -> dict[str, Any]:
    citations = [{"doc_id": "report", "start_char": start, "end_char": end} for start, end in spans]
    row = {"query_id": query_id, "question": f"What of {query_id}?", "status": "answered", "answer": text}
    costs = {"calls": 1, "prompt_tokens": 900, "completion_tokens": 12, "cost_usd": 0.0025, "finished_at": FINISHED}
    return row | costs | {"citations": citations, "cited": bool(spans), "seconds": [("total", 2.5)]} | more


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    place = tmp_path_factory.mktemp("export")
    sections = [{"kind": "page", "name": str(n), "start_char": at} for n, at in ((1, 0), (2, CHAIR))]
    about = {"doc_id": "report", "text": TEXT, "n_tokens": 9, "tables": [], "sections": sections, "sha256": "abc"}
    document = about | {"source_uri": "/reports/the report.pdf", "title": "Report"}
    archive = write_version(place / "archive", [document], [150], {"model": "m"}, fingerprint="made")
    folder = Folder.of(place / "run")
    rows = [
        answer(
            "a",
            "1,544 crowns",
            [(0, 33), (CHAIR, len(TEXT))],
            replied_by="small-2026",
            carried=[("team", "lamps"), ("answer", "theirs")],
        ),
        answer("b", FORMULA, [], carried=[("team", "-2+3")], replied_by=FORMULA),
        answer("c", "bad \x0b character \x1b[31m", [(CHAIR, len(TEXT))]),
        answer("d", LONG, []),
        answer("e", "-5.2 %", [], status="failed", error="no reply", seconds=None, finished_at=None),
    ]
    folder.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    call = {"call_id": "1", "attempt": 1, "query_id": "a", "cost_usd": 0.0025, "started_at": FINISHED}
    folder.at("ledger").write_table("part-000000001.parquet", pa.Table.from_pylist([call], schema=LEDGER))
    begun = {"archive": f"{archive}@1", "archive_fingerprint": "made", "config": {"llm": {"model": "small"}}}
    folder.write_bytes("run.json", json.dumps(begun).encode())
    return folder


def test_a_row_has_answer_page_words_and_where_they_come_from(run: Folder) -> None:
    table = flat_answers(run)
    assert table.column_names == [*FLAT_ANSWERS.names, "carried_answer", "team"]
    first, *_, last = table.to_pylist()
    assert (first["section"], first["page"], first["quote"]) == ("page 1", 1, "Sales of lamps were 1,544 crowns.")
    assert first["link"] == "file:///reports/the%20report.pdf#page=1"
    assert first["more_citations"] == "report, page 2: The chair is Ida Moss, who came in 1998."
    assert (first["citations"], first["archive_version"], first["model"]) == (2, 1, "small")
    assert (first["team"], first["carried_answer"]) == ("lamps", "theirs")
    assert (first["replied_by"], last["replied_by"]) == ("small-2026", None)
    assert first["finished_at"] == datetime(2026, 11, 25, 1, 30, 5)
    assert (last["status"], last["error"], last["seconds"], last["page"]) == ("failed", "no reply", None, None)
    citations = flat_citations(run)
    assert citations.column_names == FLAT_CITATIONS.names
    assert citations.select(["query_id", "number", "page"]).to_pydict() == {
        "query_id": ["a", "a", "c"],
        "number": [1, 2, 1],
        "page": [1, 2, 2],
    }


def test_excel_opens_it_with_numbers_dates_and_links_and_without_formulas(run: Folder, tmp_path: Path) -> None:
    written, _ = export_run(run, str(tmp_path / "answers.xlsx"))
    assert written == [str(tmp_path / "answers.xlsx")]
    book = openpyxl.load_workbook(tmp_path / "answers.xlsx")
    assert book.sheetnames == ["answers", "citations", "Read me", "okralong"]
    sheet = book["answers"]
    head = [cell.value for cell in sheet[1]]
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("B2", sheet.dimensions)

    def cell(row: int, name: str) -> Any:
        return sheet.cell(row, head.index(name) + 1)

    link = cell(2, "link").hyperlink
    print(link.target, link.location)
    assert link.target == "file:///reports/the%20report.pdf#page=1"
    assert (cell(2, "cost_usd").value, cell(2, "page").value) == (0.0025, 1)
    assert (cell(2, "finished_at").is_date, cell(2, "finished_at").value) == (True, datetime(2026, 11, 25, 1, 30, 5))
    assert (cell(3, "answer").value, cell(3, "answer").data_type, cell(3, "answer").quotePrefix) == (FORMULA, "s", True)
    assert cell(4, "answer").value == "bad   character  [31m"
    assert len(cell(5, "answer").value) <= MOST_CHARACTERS
    assert cell(5, "answer").value.endswith("more characters]")
    assert all(each.data_type != "f" for line in sheet for each in line)
    wide = excel({"answers": pa.table({"\uff1dA1": ["\u200b\uff1dA1", "\ufeff=A1", "plain"]})})
    column = openpyxl.load_workbook(io.BytesIO(wide))["answers"]["A"]
    assert [each.quotePrefix for each in column] == [True, True, True, False]
    frame = pd.read_excel(tmp_path / "answers.xlsx")
    assert list(frame["query_id"]) == list("abcde")
    assert str(frame["finished_at"].dtype).startswith("datetime64")


@pytest.fixture(scope="module")
def typed_run(run: Folder, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Typed answers to questions whose order in the file is not that of their ids."""
    folder = Folder.of(tmp_path_factory.mktemp("typed"))
    rows = [
        answer("a-share", "12.5 %", [], answer_type="percent", value="12.5", number=12.5, unit="%", confidence=0.42),
        answer("b-day", "3 May 2024", [], answer_type="date", value="2024-05-03", confidence=0.7),
        answer("c-sales", "1,544 crowns", [(0, 33)], answer_type="money", value="1544000", number=1544000.0)
        | {"currency": "SEK", "period": "FY2023", "confidence": 0.85, "prompt_tokens": 12_345},
        answer("d-list", "x; y", [], answer_type="list of text", value='[{"value": "x"}]', confidence=0.9),
        answer("e-bad", "", [], status="invalid_output", answer_type="money", error="The raw reply: " + "so " * 400),
    ]
    folder.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    folder.write_bytes("run.json", run.read_bytes("run.json"))
    write_order(folder, ["c-sales", "e-bad", "b-day", "a-share", "d-list"])
    return folder


@pytest.mark.parametrize("kind", ["xlsx", "csv", "jsonl", "parquet", "duckdb"])
def test_rows_are_in_the_order_of_the_questions(typed_run: Folder, tmp_path: Path, kind: str) -> None:
    asked = ["c-sales", "e-bad", "b-day", "a-share", "d-list"]
    file = str(tmp_path / f"answers.{kind}")
    export_run(typed_run, file)
    if kind == "duckdb":
        with duckdb.connect(file, read_only=True) as connection:
            assert [row[0] for row in connection.execute("SELECT query_id FROM answers").fetchall()] == asked
        return
    lines = {"xlsx": pd.read_excel, "csv": pd.read_csv, "parquet": pd.read_parquet}
    frame = pd.read_json(file, lines=True) if kind == "jsonl" else lines[kind](file)
    assert list(frame["query_id"]) == asked
    assert set(frame.columns) == set(FLAT_ANSWERS.names), "no format loses a column"
    assert frame["confidence"].iloc[0] == 0.85


def test_questions_of_earlier_starts_come_last(typed_run: Folder, tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    write_order(folder, ["b", "a"])
    write_order(folder, ["c", "a"])
    rows = [{"query_id": name} for name in ("a", "b", "c", "unknown")]
    assert [row["query_id"] for row in in_question_order(folder, rows)] == ["c", "a", "b", "unknown"]
    assert [row["query_id"] for row in in_question_order(folder.at("older"), rows)] == ["a", "b", "c", "unknown"]


def test_excel_shows_what_people_read_and_folds_the_rest(typed_run: Folder, tmp_path: Path) -> None:
    export_run(typed_run, str(tmp_path / "answers.xlsx"))
    sheet = openpyxl.load_workbook(tmp_path / "answers.xlsx")["answers"]
    head = [cell.value for cell in sheet[1]]
    folded = {letter for letter, column in sheet.column_dimensions.items() if column.hidden}
    shown = [cell.value for cell in sheet[1] if cell.column_letter not in folded]
    assert shown == [
        *("query_id", "question", "answer", "value", "period", "corrected", "note", "status", "confidence"),
        *("doc_id", "section", "quote", "error", "cost_usd"),
    ]
    assert head[: len(shown)] == shown
    assert all(sheet.column_dimensions[letter].outlineLevel == 1 for letter in folded)
    assert sheet.sheet_format.outlineLevelCol == 1, "without it Excel has no button to open the group"

    def cell(query_id: str, name: str) -> Any:
        ids = [each.value for each in sheet["A"]]
        return sheet.cell(ids.index(query_id) + 1, head.index(name) + 1)

    values = {name: (cell(name, "value").value, cell(name, "value").number_format) for name in ["a-share", "c-sales"]}
    assert values == {"a-share": (12.5, '#,##0.00########"%"'), "c-sales": (1544000, '#,##0 "SEK"')}
    assert (cell("b-day", "value").value, cell("b-day", "value").is_date) == (datetime(2024, 5, 3), True)
    assert cell("d-list", "value").value == '[{"value": "x"}]'
    assert (cell("c-sales", "confidence").value, cell("c-sales", "confidence").number_format) == (0.85, "0.00")
    assert (cell("c-sales", "cost_usd").number_format, cell("c-sales", "prompt_tokens").number_format) == (
        '"$"#,##0.0000',
        "#,##0",
    )
    assert cell("c-sales", "doc_id").hyperlink.target == "file:///reports/the%20report.pdf#page=1"
    widths = {name: sheet.column_dimensions[cell("e-bad", name).column_letter].width for name in shown}
    assert widths["question"] == len("What of c-sales?") + 2
    assert widths["error"] == WIDEST["error"]
    assert cell("e-bad", "error").alignment.wrap_text
    assert sheet.row_dimensions[3].height == LINE_POINTS * MOST_LINES, "a raw reply does not fill the screen"
    colours = {name: cell(name, "status").fill.fgColor.rgb for name in ("e-bad", "a-share")}
    assert colours == {"e-bad": "FFD9D9D9", "a-share": "00000000"}
    assert [cell(name, "confidence").fill.fgColor.rgb for name in ("a-share", "b-day", "c-sales")] == [
        *("FFF8CBAD", "FFFFF2CC", "00000000"),
    ]


def test_the_last_sheet_explains_the_others(typed_run: Folder, tmp_path: Path) -> None:
    export_run(typed_run, str(tmp_path / "answers.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "answers.xlsx")
    assert book.active.title == "answers"
    lines = [[cell.value for cell in row] for row in book["Read me"].iter_rows()]
    told = {line[0]: line[1:] for line in lines if line[0]}
    assert told["questions"][0] == "5: 4 answered, 1 invalid_output"
    assert told["with a source"][0] == "1 of 4 answers"
    assert told["notes"][0] == "the run was incomplete when it was exported"
    assert {name for name in told if told[name][-1] in ("shown", "folded")} == {
        *FLAT_ANSWERS.names,
        *FLAT_CITATIONS.names,
    }
    assert told["link"][-1] == "folded"


def test_pandas_opens_the_other_formats(run: Folder, tmp_path: Path) -> None:
    for name, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        written, _ = export_run(run, str(tmp_path / f"answers.{name}"))
        assert [Path(path).name for path in written] == [f"answers.{name}", f"answers.citations.{name}"]
        frame = read(tmp_path / f"answers.{name}")
        assert list(frame.columns) == flat_answers(run).column_names
        assert (len(frame), frame["cost_usd"].sum()) == (5, pytest.approx(0.0125))
        assert list(read(tmp_path / f"answers.citations.{name}")["page"]) == [1, 2, 2]
    pd.read_parquet(tmp_path / "answers.parquet").to_excel(tmp_path / "again.xlsx")  # no time zones
    told = pd.read_csv(tmp_path / "answers.csv")
    assert told["answer"][1] == f"'{FORMULA}"
    assert told["answer"][4] == "-5.2 %", "a number is one, and no formula"
    export_run(run, str(tmp_path / "answers.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert (lines[0]["finished_at"], lines[1]["answer"]) == ("2026-11-25 01:30:05", FORMULA)


def test_duckdb_has_the_tables_of_the_run(run: Folder, tmp_path: Path) -> None:
    export_run(run, str(tmp_path / "run.db"))
    with duckdb.connect(str(tmp_path / "run.db"), read_only=True) as connection:
        names = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
        assert names == [("answers",), ("citations",), ("failures",), ("ledger",)]
        asked = "SELECT l.started_at, a.team FROM ledger l JOIN answers a USING (query_id)"
        assert connection.execute(asked).fetchall() == [(datetime(2026, 11, 25, 1, 30, 5), "lamps")]


def test_what_cannot_be_written_is_said_before_anything_is(run: Folder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of xlsx, csv, jsonl, parquet, duckdb"):
        export_run(run, str(tmp_path / "answers.docx"))
    with pytest.raises(InputError, match="is not a run folder"):
        export_run(Folder.of(tmp_path), str(tmp_path / "answers.csv"))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def matrix_run(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Two documents by four columns and a question of no document; one cell was not asked, one failed."""
    place = tmp_path_factory.mktemp("matrix")
    sections = [{"kind": "page", "name": str(n), "start_char": at} for n, at in ((1, 0), (2, CHAIR))]
    documents = [
        {"doc_id": doc_id, "text": TEXT, "n_tokens": 9, "tables": [], "sections": sections, "sha256": doc_id}
        | {"source_uri": f"/reports/{doc_id}.pdf", "title": f"Report of {doc_id}"}
        for doc_id in ("alder", "birch")
    ]
    archive = write_version(place / "archive", documents, [150], {"model": "m"}, fingerprint="made")
    folder = Folder.of(place / "run")

    def cell(asked_id: str, doc_id: str, text: str, start: int, end: int, **more: Any) -> dict[str, Any]:
        row = answer(f"{asked_id}@{doc_id}", text, [(start, end)], asked_id=asked_id, doc_ids=[doc_id], **more)
        return row | {"question": f"What is the {asked_id}?", "citations": [row["citations"][0] | {"doc_id": doc_id}]}

    rows = [
        cell("sales", "alder", "1,544 crowns", 0, 33, confidence=0.93),
        cell("sales", "birch", "-", 0, 33, status="unanswerable", cited=False),
        cell("chair", "alder", FORMULA, CHAIR, len(TEXT), confidence=0.41),
        cell("chair", "birch", "Ida Moss", CHAIR, len(TEXT), confidence=0.6),
        cell("Title", "alder", "", 0, 33, status="failed", error="no reply"),
        answer("whole", "Both.", []),
    ]
    folder.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    begun = {"archive": f"{archive}@1", "archive_fingerprint": "made", "columns": ["sales", "Title", "chair"]}
    folder.write_bytes("run.json", json.dumps(begun).encode())
    return folder


def test_a_matrix_is_a_sheet_whose_cells_say_where_they_come_from(matrix_run: Folder, tmp_path: Path) -> None:
    export_run(matrix_run, str(tmp_path / "table.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "table.xlsx")
    assert book.sheetnames == ["matrix", "answers", "citations", "searched", "Read me", "okralong"]
    sheet = book["matrix"]
    assert [[cell.value for cell in row] for row in sheet] == [
        ["doc_id", "title", "sales", "Title_2", "chair"],
        ["alder", "Report of alder", "1,544 crowns", None, FORMULA],
        ["birch", "Report of birch", None, None, "Ida Moss"],
    ]
    assert sheet["C1"].comment.text == "What is the sales?"
    note = sheet["C2"].comment.text.splitlines()
    assert note == ["alder, page 1: Sales of lamps were 1,544 crowns.", "confidence 0.93", "sales@alder"]
    assert sheet["C2"].hyperlink.target == "file:///reports/alder.pdf#page=1"
    assert sheet["E3"].hyperlink.target == "file:///reports/birch.pdf#page=2"
    assert sheet["C3"].comment.text.startswith("unanswerable")
    assert sheet["D2"].comment.text == "failed: no reply\nTitle@alder"
    assert (sheet["D3"].comment, sheet["D3"].hyperlink, sheet["C3"].hyperlink) == (None, None, None)
    colours = {cell.coordinate: cell.fill.fgColor.rgb for row in sheet["C2:E3"] for cell in row if cell.fill.fill_type}
    assert colours == {"C3": "FFD9D9D9", "D2": "FFD9D9D9", "E2": "FFF8CBAD", "E3": "FFFFF2CC"}
    assert (sheet["E2"].data_type, sheet["E2"].quotePrefix) == ("s", True)
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("B2", "A1:E3")
    long = [cell.value for cell in book["answers"]["A"]]
    assert long == ["query_id", "Title@alder", "chair@alder", "chair@birch", "sales@alder", "sales@birch", "whole"]


def test_a_matrix_is_wide_in_the_other_formats_too(matrix_run: Folder, tmp_path: Path) -> None:
    written, _ = export_run(matrix_run, str(tmp_path / "table.csv"))
    assert [Path(path).name for path in written] == [
        "table.csv",
        *(f"table.{name}.csv" for name in ("answers", "citations", "searched")),
    ]
    frame = pd.read_csv(tmp_path / "table.csv")
    assert list(frame.columns) == ["doc_id", "title", "sales", "Title_2", "chair"]
    assert frame["chair"].to_list() == [f"'{FORMULA}", "Ida Moss"]
    assert pd.read_csv(tmp_path / "table.answers.csv")["asked_id"].notna().sum() == 5
    export_run(matrix_run, str(tmp_path / "table.duckdb"))
    with duckdb.connect(str(tmp_path / "table.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT sales FROM matrix ORDER BY doc_id").fetchall() == [("1,544 crowns",), (None,)]


def test_a_failed_check_marks_its_cells_and_has_a_row_of_its_own(matrix_run: Folder, tmp_path: Path) -> None:
    run = Folder.of(tmp_path / "run")
    begun = json.loads(matrix_run.read_bytes("run.json"))
    rule = "sales = costs + profit"
    run.write_bytes(
        "run.json", json.dumps(begun | {"columns": ["sales", "costs"], "checks": [rule, "gone > 0"]}).encode()
    )

    def cell(asked_id: str, number: float) -> dict[str, Any]:
        row = answer(f"{asked_id}@alder", f"{number:g}", [(0, 33)], asked_id=asked_id, doc_ids=["alder"])
        row["citations"] = [row["citations"][0] | {"doc_id": "alder"}]
        return row | {
            "answer_type": "money",
            "value": f"{number:g}",
            "number": number,
            "currency": "SEK",
            "confidence": 0.9,
        }

    rows = [cell("sales", 1544), cell("costs", 1000), cell("profit", 44)]
    run.at("answers").write_table("part-000000001.parquet", pa.Table.from_pylist(rows, schema=ANSWERS))
    export_run(run, str(tmp_path / "table.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "table.xlsx")
    assert book.sheetnames == ["matrix", "checks", "answers", "citations", "Read me", "okralong"]
    assert {book["matrix"].cell(2, at).fill.fgColor.rgb for at in (3, 4, 5)} == {"FFD9B3FF"}
    first = book["matrix"]["C2"].comment.text.splitlines()[0]
    assert first.startswith(f"check failed: {rule}: 1,544 SEK and 1,000 SEK + 44 SEK (1,544 and 1,044)")
    assert "costs: alder, page 1" in first
    assert [each.value for each in book["checks"][2]][:3] == ["alder", "sales; costs; profit", rule]
    page = Matrix.of(Exported.of(run).answers.to_pylist(), ["sales", "costs"])
    assert page is not None
    assert [at[:2] for at in page.checked([rule]).for_page({})["failed"]] == [[0, 0], [0, 1], [0, 2]]


def test_values_are_numbers_and_dates_under_their_units() -> None:
    def cell(doc_id: str, asked_id: str, **more: Any) -> dict[str, Any]:
        row = dict.fromkeys(("title", "confidence", "error", "link", "section", "quote"))
        row |= {"query_id": f"{asked_id}@{doc_id}", "asked_id": asked_id, "scope": doc_id, "doc_id": doc_id}
        return row | {"question": "?", "status": "answered", "answer": "as said"} | more

    rows = [
        cell("a", "revenue", number=-234495000.0, value="-234495000", currency="USD", period="FY2023"),
        cell("b", "revenue", number=1.25, value="1.25", currency="EUR"),
        cell("a", "margin", number=12.5, value="12.5", unit="%"),
        cell("b", "margin", status="unanswerable"),
        cell("a", "signed", answer_type="date", value="2024-02-29"),
        cell("b", "signed", answer_type="date", value="2024-03-01"),
        cell("a", "due", answer_type="date", value="2024-02"),
        cell("b", "due", answer_type="date", value="2024-03-01"),
        cell("a", "mixed", number=3.0, value="3", unit="plants"),
        cell("b", "mixed", answer_type="list of text", value='["x"]'),
    ]
    fields = dict.fromkeys(key for row in rows for key in row)
    matrix = Matrix.of([fields | row for row in rows], ["revenue", "margin"])
    assert matrix is not None
    by = [row | {"replied_by": f"small-{row['doc_id']}; big" if row["asked_id"] == "due" else None} for row in rows]
    named = Matrix.of([fields | row for row in by])
    assert named is not None
    assert named.table()["replied_by"].to_pylist() == ["small-a; big", "small-b; big"]
    assert matrix.table().drop_columns("title").to_pydict() == {
        "doc_id": ["a", "b"],
        "revenue": [-234495000.0, 1.25],
        "revenue_unit": ["USD", "EUR"],
        "revenue_period": ["FY2023", None],
        "margin": [12.5, None],
        "margin_unit": ["%", None],
        "due": ["2024-02", "2024-03-01"],
        "mixed": ["3 plants", "as said"],
        "signed": [date(2024, 2, 29), date(2024, 3, 1)],
    }
    book = openpyxl.load_workbook(io.BytesIO(excel({"matrix": matrix.table()}, matrix)))
    held = {cell.coordinate: (cell.value, cell.number_format) for cell in book["matrix"][2]}
    assert held["C2"] == (-234495000, '#,##0 "USD"')
    assert held["D2"] == (12.5, '#,##0.00########"%"')
    assert held["G2"] == (datetime(2024, 2, 29), "yyyy-mm-dd")


@pytest.mark.parametrize(
    ("number", "unit", "currency", "words"),
    [
        (1925.0, "", "", "1925"),
        (1925.0, "employees", "", "1,925 employees"),
        (467460000.0, "", "USD", "467,460,000 USD"),
        (12.5, "%", "", "12.5%"),
    ],
)
def test_a_cell_says_a_year_as_a_year(number: float, unit: str, currency: str, words: str) -> None:
    cell = {"status": "answered", "number": number, "unit": unit, "currency": currency, "value": str(number)}
    assert words_of(cell) == words


def test_an_amount_of_unknown_scale_is_no_number() -> None:
    """A column of numbers leaves it out: its sum would be wrong by a thousand."""
    cell = {"asked_id": "q", "question": "Revenue?", "status": "answered", "answer": "93,662", "currency": "USD"}
    cells = [
        cell | {"scope": "a", "value": "93662", "number": None, "scale": UNKNOWN},
        cell | {"scope": "b", "value": "5000", "number": 5000.0, "scale": ""},
    ]
    matrix = Matrix.of([each | {"answer_type": "money"} for each in cells])
    assert matrix is not None
    table = matrix.table()
    assert table["q"].to_pylist() == [None, 5000.0]
    assert table["q_unit"].to_pylist() == ["93,662 USD, scale unknown", "USD"]
    assert words_of(cells[0]) == "93,662 USD, scale unknown"


def test_an_answer_of_an_earlier_night_names_the_model_of_that_night(run: Folder) -> None:
    """A night that ended over budget leaves rows that were answered under the config of another one."""
    begun = json.loads(run.read_bytes("run.json"))
    rows = [answer(name, "12", [], replied_by=f"{name}-2026", seconds=None) for name in ("before", "tonight", "older")]
    rows = [dict.fromkeys(ANSWERS.names) | row for row in rows]
    night = {"archive_version": 1, "setup": "s"}
    origins = {
        "before": night | {"night": "2026-11-25", "model": "large"},
        "tonight": night | {"night": "2026-11-26", "model": "small"},
        "older": night | {"night": "2026-11-01", "model": None},  # of a release that did not keep it
    }
    made = Exported.made(begun, rows, origins).answers.to_pylist()
    assert [row["model"] for row in made] == ["large", "small", "small"]
    assert [row["replied_by"] for row in made] == ["before-2026", "tonight-2026", "older-2026"]
