"""Questions files: what is read, and what each kind of bad row is told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.pipelines.core.types import InputError, Question
from okralong.pipelines.run.questions import question_row, read_questions


def test_the_three_formats_read_alike(tmp_path: Path) -> None:
    rows = [
        {"query_id": "a", "question": "How much?", "doc_ids": ["x", "y*"], "answers": ["1"], "type": "extractive"},
        {"query_id": "b", "question": "Why?", "doc_ids": [], "answers": [], "type": ""},
    ]
    jsonl, csv, parquet = tmp_path / "q.jsonl", tmp_path / "q.csv", tmp_path / "q.parquet"
    jsonl.write_text("\n".join(json.dumps(row) for row in rows))
    csv.write_text("query_id,question,doc_ids,answers,type\na,How much?,x;y*,1,extractive\nb,Why?,,,\n")
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    read = [read_questions(path)[0] for path in (jsonl, csv, parquet)]
    assert read[0] == read[1] == read[2]
    assert read[0][0].doc_ids == ("x", "y*")
    assert read[0][1].doc_ids == ()


def test_bad_rows_are_told_apart_and_the_rest_is_asked(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(
        '{"query_id": "a", "question": "Fine?"}\n'
        '{"query_id": "b", "question": "  "}\n'
        '{"query_id": "a", "question": "Again?"}\n'
        "not json\n"
        "[1]\n"
        '{"question": "No id?"}\n'
        '{"query_id": "half", "question": "what \\ud83d is?"}\n'
    )
    questions, bad = read_questions(file)
    assert [question.query_id for question in questions] == ["a", "q000006"]
    assert [item.query_id for item in bad] == ["b", "row-3", "row-4", "row-5", "half"]
    assert "row 2 has an empty question" in bad[0].message
    assert "'a' is used twice" in bad[1].message
    assert all(str(file) in item.message for item in bad)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.jsonl", None, "does not exist"),
        ("q.txt", "What?", "not a jsonl, csv, tsv, xlsx, parquet or yaml file"),
        ("q.jsonl", "", "holds no rows"),
        ("q.csv", "id,text\n1,What?\n", "no column named question"),
        ("q.parquet", "PAR?", "not a readable Parquet"),
        ("q.xlsx", "PK?", "not an .xlsx file"),
        ("q.csv", "id,question\n1,What?\n", r"column id is not known \(did you mean query_id\?\)"),
        ("q.csv", "question;documents\nWhat?;a\n", r"column documents is not known \(did you mean doc_ids"),
        ("q.csv", "question,doc_id\nWhat?,a\n", r"did you mean doc_ids.*carry: \[doc_id\].*Nothing was spent"),
        ("q.jsonl", '{"question": "What?"}\n{"question": "Why?", "docids": ["a"]}', "did you mean doc_ids"),
        ("q.csv", "id;text\n1;What?\n", "columns are id, text. Is it text"),
        ("q.csv", ",question\n0,What?\n", "column 1 has no name"),
        ("q.csv", "question,Question\na,b\n", "two columns named question"),
    ],
)
def test_a_file_that_cannot_be_asked_is_refused(tmp_path: Path, name: str, content: str | None, says: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=says):
        read_questions(file)


ROWS = [["Query_ID ", "question", "doc_ids", "cost centre"], ["a", "Wie viel €?", "x;y*", 7], ["b", "Why?", "", None]]


def written(path: Path) -> Path:
    """The same rows in a file of the kind that its name says."""
    lines = [["" if cell is None else str(cell) for cell in row] for row in ROWS]
    marks = {"semicolon.csv": ";", "excel.csv": ";", "pipe.csv": "|", "old.csv": ";", "unicode.csv": "\t"}
    mark = marks.get(path.name, "\t" if path.suffix == ".tsv" else ",")
    text = "\r\n".join(mark.join(f'"{cell}"' if mark in cell else cell for cell in row) for row in lines) + "\r\n"
    encoding = {"excel.csv": "utf-8-sig", "old.csv": "cp1252", "unicode.csv": "utf-16"}.get(path.name, "utf-8")
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.active["A1"] = "notes"
        sheet = book.create_sheet("Questions")
        for row in (ROWS[0], ROWS[1], [None] * 4, ROWS[2]):
            sheet.append(row)
        book.save(path)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([dict(zip(lines[0], row, strict=True)) for row in lines[1:]]), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(ROWS[0], row, strict=True))) for row in ROWS[1:]))
    else:
        said = "sep=;\r\n" if path.name == "excel.csv" else ""
        path.write_bytes((said + text + mark * 3 + "\r\n").encode(encoding))
    return path


EXPECTED = [
    Question("a", "Wie viel €?", ("x", "y*"), carried={"cost centre": "7"}),
    Question("b", "Why?", carried={"cost centre": ""}),
]
CSV = ("plain.csv", "semicolon.csv", "excel.csv", "pipe.csv", "old.csv", "unicode.csv")


@pytest.mark.parametrize("name", [*CSV, "q.tsv", "q.xlsx", "q.parquet", "q.jsonl"])
def test_files_of_every_kind_say_the_same(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / name)
    assert read_questions(file, ["cost centre"]) == (EXPECTED, [])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert read_questions("-", ["cost centre"]) == (EXPECTED, [])


def test_questions_are_given_by_a_program() -> None:
    rows = [dict(zip(ROWS[0], row, strict=True)) for row in ROWS[1:]]
    frame = pd.DataFrame(rows)
    assert frame["cost centre"].dtype == "float64", "as pandas reads whole numbers with a gap"
    for given in (rows, frame, pa.Table.from_pylist(rows), iter(rows), EXPECTED):
        assert read_questions(given, ["cost centre"]) == (EXPECTED, [])
    asked, bad = read_questions(["Who?", {"question": "Why?", "doc_ids": ["a", "b"]}, {"question": ""}, 7])
    assert [(each.query_id, each.question) for each in asked] == [("q000001", "Who?"), ("q000002", "Why?")]
    assert asked[1].doc_ids == ("a", "b")
    assert [each.query_id for each in bad] == ["row-3", "row-4"]
    assert "the questions given, row 3 has an empty question" in bad[0].message
    with pytest.raises(InputError, match="give a list of questions"):
        read_questions("What was the revenue?")
    with pytest.raises(InputError, match="cannot be read from a int"):
        read_questions(7)  # type: ignore[arg-type]


def sheet_of(path: Path, *lines: list[object]) -> Path:
    """The lines in a workbook, or in a CSV file if the path says so."""
    if path.suffix == ".csv":
        path.write_text("\n".join(";".join("" if cell is None else str(cell) for cell in line) for line in lines))
        return path
    book = openpyxl.Workbook()
    for line in lines:
        book.active.append(line)
    book.save(path)
    return path


@pytest.mark.parametrize("name", ["q.xlsx", "q.csv"])
def test_titles_above_the_header_are_skipped_and_said(tmp_path: Path, name: str) -> None:
    titles: list[list[object]] = [["Questions, 2024"], ["as of", "May, draft"], [" "], ["question"], []]
    header: list[object] = [" Question", "Query_ID", "doc_ids"]
    file = sheet_of(tmp_path / name, *titles, header, ["Why?", "a", "x"], ["\xa0", None], ["question", "b"])
    said: list[str] = []
    questions, bad = read_questions(file, say=said.append)
    assert ([(each.query_id, each.question) for each in questions], bad) == ([("a", "Why?"), ("b", "question")], [])
    assert said == [f"{file}: line 6 is the header; the lines above it were skipped"]
    deep = sheet_of(tmp_path / name, *[["title"]] * 10, header, ["Why?", "a", "x"])
    with pytest.raises(InputError, match="has no column named question; its columns are title"):
        read_questions(deep)
    said.clear()
    assert read_questions(sheet_of(tmp_path / name, [], header, ["Why?", "a", "x"]), say=said.append)[0]
    assert said == []


@pytest.mark.parametrize("name", ["q.xlsx", "q.csv"])
def test_blank_rows_and_columns_are_no_content(tmp_path: Path, name: str) -> None:
    blank: list[object] = [" ", "\xa0", "\u2003", None]
    lines: list[list[object]] = [blank, ["question", " ", "query_id"], blank, ["Why?", "\xa0", "a"], blank]
    questions, bad = read_questions(sheet_of(tmp_path / name, *lines))
    assert ([(each.query_id, each.question) for each in questions], bad) == ([("a", "Why?")], [])
    with pytest.raises(InputError, match="column 2 has no name in the header"):
        read_questions(sheet_of(tmp_path / name, *lines, ["Who?", "x", "b"]))


def test_a_column_to_carry_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is listed in carry but missing \(did you mean cost centre\?\)"):
        read_questions(written(tmp_path / "q.csv"), ["cost_centre"])
    with pytest.raises(InputError, match=r"column team is listed in carry but missing; column file is not known"):
        read_questions([{"question": "Why?", "file": "a.pdf"}], ["team"])
    others, bad = read_questions(written(tmp_path / "q.xlsx"), strict=False)
    assert [each.carried for each in others] == [{}, {}]
    assert not bad


def test_a_question_comes_back_from_the_row_that_is_written_of_it() -> None:
    asked = Question("a", "Who?", ("x",), ("Ida",), ("x:0:3",), "extractive", {"team": "north"})
    assert read_questions([question_row(asked)], ["team"]) == ([asked], [])


def test_rows_that_a_parser_gives_up_on_are_bad_rows(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    lines = ["[" * 100_000, '{"question": ' + "9" * 100_000 + "}", '{"question": "Why?"}']
    file.write_text("\n".join(lines), encoding="utf-8")
    questions, bad = read_questions(file)
    assert [question.question for question in questions] == ["Why?"]
    assert [row.query_id for row in bad] == ["row-1", "row-2"]
    assert all("is not JSON" in row.message and "Correct that line" in row.message for row in bad)
