"""What a file holds and its document does not: counted, warned of, and kept out of the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.jobs.index import _partial
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import READ_IN_PART
from okralong.pipelines.core.types import Question, QuestionError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import BadRow, Losses, RawDocument, Source
from okralong.pipelines.indexing.job import IndexResult, LocalStreams, run_index
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.run.prepare import Scopes
from tests.archives.nights import encoder


def index(folder: Path, archive: Path) -> IndexResult:
    config = IndexConfig(granularities=[150])
    return run_index(str(archive), [str(folder)], config, lambda at, how: LocalStreams(at, how, encoder()))


def parsed(path: Path) -> list[RawDocument | BadRow]:
    return list(read_source(Source(str(path), path.stem, path.stat().st_size), 10**9))


def test_losses_are_counted_in_words() -> None:
    losses = Losses()
    assert losses.metadata() == {}
    losses.add("comment", "comments", 0)
    losses.add("comment", "comments", 2)
    losses.add("picture", "pictures", remedy="install OCR")
    losses.add("comment", "comments", 1_000)
    assert losses.metadata() == {"not_read": "1,002 comments; 1 picture (install OCR)"}


def test_a_files_own_names_cannot_steer_a_terminal() -> None:
    losses = Losses()
    losses.add("attachment (a\x1b[2J\n.zip)", "attachments")
    losses.add_within("b\u202e.xlsx", "1 comment")
    assert losses.words() == "1 attachment (a [2J .zip); b .xlsx: 1 comment"


def test_a_document_read_in_part_is_a_warning(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    rows = [{"doc_id": "a", "text": "Lanterns.", "tags": ["x"]}, {"doc_id": "b", "text": "Orchards."}, {"doc_id": "c"}]
    (files / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = index(files, tmp_path / "archive")
    assert (result.documents, result.failures, result.read_in_part) == (2, 1, 1)
    archive = Archive.open(str(tmp_path / "archive"))
    assert len(archive.failures()) == 1
    (said,) = archive.read_in_part()
    assert said == f"{files / 'rows.jsonl'} was read in part. Not read: 1 list or binary column."
    assert archive.contents()["not_read"].to_pylist() == ["1 list or binary column", None]
    done = CliRunner().invoke(app, ["failures", str(tmp_path / "archive"), "--json"])
    assert done.exit_code == 1
    assert [json.loads(line)["error_type"] for line in done.stdout.splitlines()] == ["DocumentError", READ_IN_PART]
    (files / "rows.jsonl").write_text(json.dumps(rows[0]), encoding="utf-8")
    assert index(files, tmp_path / "archive").failures == 0
    done = CliRunner().invoke(app, ["failures", str(tmp_path / "archive")])
    assert done.exit_code == 0
    assert "a  (read in part)" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("no failures, 1 read in part")
    whole = Question("q", "What?", where="not_read is null")
    with Scopes(Archive.open(str(tmp_path / "archive"))) as scopes, pytest.raises(QuestionError, match="matches none"):
        scopes.resolve(whole)
    (files / "rows.jsonl").write_text(json.dumps(rows[1]), encoding="utf-8")
    assert index(files, tmp_path / "archive").read_in_part == 0
    with Scopes(Archive.open(str(tmp_path / "archive"))) as scopes:
        assert scopes.resolve(whole) == ("b",)


def test_a_file_of_many_partial_rows_has_one_warning(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    rows = [{"doc_id": f"d{number}", "text": f"Lantern {number}.", "tags": ["x"]} for number in range(150)]
    pq.write_table(pa.Table.from_pylist(rows), files / "rows.parquet")
    assert index(files, tmp_path / "archive").read_in_part == 150
    (said,) = Archive.open(str(tmp_path / "archive")).read_in_part()
    assert said.startswith(f"{files / 'rows.parquet'}: 150 rows were read in part. Not read of d0: 1 list")


def test_the_summary_names_the_first_documents() -> None:
    assert _partial(1, ["a.docx was read in part. Not read: 1 comment."], "archive") == (
        "1 document was read in part: a.docx: 1 comment."
    )
    many = _partial(5, [f"{name}." for name in "abcde"], "archive")
    assert many == "5 documents were read in part: a. b. c. List all with: okralong failures archive"


@pytest.mark.documented(".jsonl", "`doc_id`, `text`, `title`")
@pytest.mark.documented(".jsonl", "other columns and `metadata`")
@pytest.mark.documented(".jsonl", "list and binary columns")
@pytest.mark.documented(".jsonl", "values of more than 1,000 characters in other columns")
@pytest.mark.documented(".jsonl", "a column named `not_read`")
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows(tmp_path: Path, kind: str) -> None:
    row = {
        "doc_id": "a", "text": "Lanterns.", "title": "T", "year": 2023, "tags": ["x", "y"], "long": "x" * 1_001,
        "not_read": "mine", "metadata": {"region": "north"},
    }  # fmt: skip
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text(json.dumps(row), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist([row | {"metadata": [("region", "north")]}], schema=pa.schema(
            [("doc_id", pa.string()), ("text", pa.string()), ("title", pa.string()), ("year", pa.int64()),
             ("tags", pa.list_(pa.string())), ("long", pa.string()), ("not_read", pa.string()),
             ("metadata", pa.map_(pa.string(), pa.string()))])), path)  # fmt: skip
    (found,) = parsed(path)
    assert isinstance(found, RawDocument)
    assert (found.doc_id, found.text, found.title) == ("a", "Lanterns.", "T")
    lost = found.metadata["not_read"].split("; ")
    assert {name: value for name, value in found.metadata.items() if name != "not_read"} == {
        "year": "2023", "region": "north",
    }  # fmt: skip
    assert sorted(lost) == [
        "1 column named not_read, a reserved name", "1 column with a long value", "1 list or binary column",
    ]  # fmt: skip


@pytest.mark.documented(".txt", "text in UTF-8, UTF-16 or cp1252")
@pytest.mark.documented(".md", "text")
@pytest.mark.documented(".md", "headings (`#` to `######`)")
def test_plain_text_and_markdown_are_kept(tmp_path: Path) -> None:
    text = "# Limits\n\nThe limit is 5 €.\n\n###### Small\n\n* one\n"
    (tmp_path / "a.md").write_text(text, encoding="utf-8")
    (tmp_path / "a.txt").write_bytes(text.encode("cp1252"))
    (markdown,), (plain,) = parsed(tmp_path / "a.md"), parsed(tmp_path / "a.txt")
    assert isinstance(markdown, RawDocument)
    assert isinstance(plain, RawDocument)
    assert markdown.text.strip() == plain.text.strip() == text.strip()
    assert [section.name for section in markdown.sections] == ["Limits", "Small"]
    assert "not_read" not in markdown.metadata | plain.metadata


@pytest.mark.documented(".txt", "text in another encoding")
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
@pytest.mark.parametrize(
    ("said", "encoding"),
    [
        ("Выручка составила 5 млн рублей", "cp1251"),
        ("公司收入为五百万元。比去年增长百分之十。", "gb18030"),
        ("Spółka zapłaciła 5 mln złotych, a udziałowcy nic. " * 3, "cp1250"),
        ("Le téléphone était répété à côté. " * 3, "mac-roman"),
    ],
)
def test_text_in_another_encoding_is_counted(tmp_path: Path, name: str, said: str, encoding: str) -> None:
    (tmp_path / name).write_bytes(said.encode(encoding))
    (found,) = parsed(tmp_path / name)
    assert isinstance(found, RawDocument)
    assert found.metadata == {"not_read": "1 text in an unknown encoding (save it as UTF-8)"}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("\ufeffLimit: 5 €\r\n".encode("utf-16-le"), "Limit: 5 €\n"),
        ("\ufeffLimit: 5 €".encode("utf-16-be"), "Limit: 5 €"),
        (
            "Der Überblick: 5 €, größer, schöner".encode() + b" als f\xfcr 2022",
            "Der Überblick: 5 €, größer, schöner als für 2022",
        ),
        ("Größe 5 m², Übermaß für alle Städte".encode("cp1252"), "Größe 5 m², Übermaß für alle Städte"),
    ],
)
def test_marked_and_mixed_encodings_are_read(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    (found,) = parsed(tmp_path / "a.txt")
    assert isinstance(found, RawDocument)
    assert (found.text, found.metadata) == (text, {})
