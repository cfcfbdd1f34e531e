"""Questions files: what is read, and what each kind of bad row is told."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.pipelines.core.types import InputError
from okralong.pipelines.run.prepare import read_questions


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
        ("q.txt", "What?", "no jsonl, csv or parquet"),
        ("q.jsonl", "", "holds no rows"),
        ("q.csv", "id,text\n1,What?\n", "no column named question"),
        ("q.parquet", "PAR?", "not a readable Parquet"),
    ],
)
def test_a_file_that_cannot_be_asked_is_refused(tmp_path: Path, name: str, content: str | None, says: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=says):
        read_questions(file)


def test_rows_that_a_parser_gives_up_on_are_bad_rows(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    lines = ["[" * 100_000, '{"question": ' + "9" * 100_000 + "}", '{"question": "Why?"}']
    file.write_text("\n".join(lines), encoding="utf-8")
    questions, bad = read_questions(file)
    assert [question.question for question in questions] == ["Why?"]
    assert [row.query_id for row in bad] == ["row-1", "row-2"]
    assert all("is not JSON" in row.message and "Mend that line" in row.message for row in bad)
