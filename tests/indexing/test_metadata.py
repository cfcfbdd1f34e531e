"""Columns of documents: from their rows and files, from a file of metadata, typed, and changed without reading."""

from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.metadata import DocumentFacts, metadata_table, typed
from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.job import IndexResult, LocalStreams, run_index
from okralong.pipelines.indexing.sidecar import read_sidecar
from tests.archives.nights import encoder
from tests.conftest import LANTERN, ORCHARD


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", None, " 22 ", ""], pa.int64()),
        (["1.5", "2", "-1e3"], pa.float64()),
        (["true", "False"], pa.bool_()),
        (["2024-01-31", "2024-02-01T10:00:00"], pa.date32()),
        (["0012", "3"], pa.string()),
        (["2024-13-01"], pa.string()),
        ([".", "1"], pa.string()),
        ([None, ""], pa.string()),
    ],
)
def test_a_column_has_the_type_that_all_its_values_have(values: list[str | None], kind: pa.DataType) -> None:
    column = typed(values)
    assert column.type == kind
    assert len(column) == len(values)


def test_what_is_given_wins_and_spellings_meet() -> None:
    table = metadata_table(
        [
            DocumentFacts(
                "b", "p", "Own", "b.pdf", "b", "2020-01-01", {"Year": "2020", "pages": "3"}, {"title": "New"}
            ),
            DocumentFacts("a", "p", "", "a.pdf", "a", "2021-01-01", {"year": "2021", "date": "2019-05-05"}),
            DocumentFacts("c", "p", "", "c.pdf", "c", "", {"year": "1999"}, {"Year ": "2022", " ": "x"}),
        ]
    )
    assert table.column_names == ["doc_id", "title", "source_uri", "source_name", "date", "pages", "Year"]
    assert table["doc_id"].to_pylist() == ["a", "b", "c"]
    assert table["title"].to_pylist() == ["", "New", ""]
    assert table["date"].to_pylist() == [date(2019, 5, 5), date(2020, 1, 1), None]
    assert table["Year"].to_pylist() == [2021, 2020, 2022]


def index(folder: Path, **config: object) -> IndexResult:
    settings = IndexConfig.model_validate({"granularities": [64], **config})
    archive = str(folder.parent / "archive")
    return run_index(archive, [str(folder)], settings, lambda at, each: LocalStreams(at, each, encoder()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "2023").mkdir(parents=True)
    (folder / "orchard.txt").write_text(ORCHARD, encoding="utf-8")
    (folder / "2023" / "lantern.md").write_text(LANTERN, encoding="utf-8")
    row = {"doc_id": "row-1", "text": "A row.", "year": 2022, "metadata": {"company": "AMD", "year": 2024}, "list": [1]}
    (folder / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    return folder


def test_metadata_alone_makes_a_version_that_reads_and_embeds_nothing(folder: Path) -> None:
    archive = folder.parent / "archive"
    assert index(folder).version == 1
    before = Archive.open(archive).metadata()
    assert before["company"].to_pylist() == [None, None, "AMD"]
    assert before["year"].to_pylist() == [None, None, 2024]
    assert "list" not in before.column_names
    assert None not in before["date"].to_pylist()

    sidecar = folder / "about.csv"  # it stands in the folder and is no document
    sidecar.write_text("file;company;year\n2023/lantern.md;Lantern;2023\ngone.pdf;X;1\n", encoding="utf-8")
    second = index(folder, metadata=str(sidecar))
    assert (second.version, second.work["files_read"], second.work["texts_embedded"]) == (2, 0, 0)
    assert second.work["shards_written"] == 0
    opened = Archive.open(archive)
    assert opened.metadata()["company"].to_pylist() == ["Lantern", None, "AMD"]
    assert opened.metadata()["year"].to_pylist() == [2023, None, 2024]
    assert "row 3 (gone.pdf)" in opened.manifest["metadata"]["note"]
    assert index(folder, metadata=str(sidecar)).up_to_date
    assert index(folder, exclude=["about.*"]).up_to_date  # what was given stays

    (folder / "orchard.txt").write_text(f"{ORCHARD} More.", encoding="utf-8")
    assert index(folder, exclude=["about.csv"]).version == 3
    assert Archive.open(archive).metadata()["company"].to_pylist() == ["Lantern", None, "AMD"]
    assert Archive.open(f"{archive}@1").metadata().equals(before)


def test_an_archive_without_covers_gets_them_without_reading_files(folder: Path) -> None:
    (folder / "10k.txt").write_text(
        "FORM 10-K\nAlder Mills, Inc.\n(Exact name of registrant as specified in its charter)"
    )
    assert index(folder).version == 1
    archive = folder.parent / "archive"
    (table,) = (archive / "metadata").glob("*.parquet")
    held = pq.read_table(table)
    place = held.schema.get_field_index("cover")
    nothing = pa.nulls(len(held), held.schema.types[place])
    pq.write_table(held.set_column(place, held.schema.field(place), nothing), table.with_name("old.parquet"))
    table.unlink()
    version = archive / "versions" / "000001.json"
    said = json.loads(version.read_text())
    version.write_text(json.dumps(said | {"fingerprint": "old", "files": said["files"] | {"metadata": "old.parquet"}}))
    assert not Archive.open(archive).names.named("What did Alder Mills sell?")
    second = index(folder)
    assert (second.version, second.work["files_read"], second.work["shards_written"]) == (2, 0, 0)
    assert list(Archive.open(archive).names.named("What did Alder Mills sell?")) == ["10k"]
    assert index(folder).up_to_date


def test_every_kind_of_file_says_the_same(tmp_path: Path) -> None:
    rows = [{"doc_id": "a", "filed": date(2024, 3, 1), "share": 0.5, "n": 7}]
    (tmp_path / "m.csv").write_text("doc_id,filed,share,n\na,2024-03-01,0.5,7\n\n", encoding="utf-8")
    (tmp_path / "m.tsv").write_text("doc_id\tfiled\tshare\tn\na\t2024-03-01\t0.5\t7\n", encoding="utf-16")
    (tmp_path / "m.jsonl").write_text(json.dumps(rows[0], default=str), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "m.parquet")
    book = openpyxl.Workbook()
    book.active.append(list(rows[0]))
    book.active.append(list(rows[0].values()))
    out = io.BytesIO()
    book.save(out)
    (tmp_path / "m.xlsx").write_bytes(out.getvalue())
    found = {path.suffix: read_sidecar(str(path)).rows for path in tmp_path.iterdir()}
    assert {suffix: rows[0].values for suffix, rows in found.items()} == {
        suffix: {"filed": "2024-03-01", "share": "0.5", "n": "7"} for suffix in found
    }
    assert {rows[0].doc_id for rows in found.values()} == {"a"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("id,company\na,b\n", "has no column doc_id and no column file (it has id, company)"),
        ("doc_id,x,X\na,b,c\n", "has the column 'X' twice"),
        ("doc_id,source_uri\na,b\n", "has a column 'source_uri', which is reserved by okralong"),
        ("doc_id,x\n,b\n", "row 2, has neither doc_id nor file"),
        ("doc_id,x\norchard,b\norchard,c\n", "row 3, gives x = 'c' for the document 'orchard', and row 2 gives 'b'"),
        ("", "is empty"),
    ],
)
def test_a_file_of_metadata_that_is_wrong_is_refused_before_a_version(folder: Path, content: str, reason: str) -> None:
    sidecar = folder.parent / "about.csv"
    sidecar.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        index(folder, metadata=str(sidecar))
    assert reason in str(refused.value)
    assert "nothing was indexed" in str(refused.value).lower()


def test_a_file_that_may_be_two_is_refused(folder: Path) -> None:
    (folder / "lantern.md").write_text(LANTERN, encoding="utf-8")
    sidecar = folder.parent / "about.csv"
    sidecar.write_text("file,x\nlantern.md,1\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"'lantern.md' may be .*lantern.md or .*lantern.md"):
        index(folder, metadata=str(sidecar))


def test_what_is_not_read_is_said_once_until_it_is_left_out(folder: Path) -> None:
    (folder / "photo.xyz").write_bytes(b"?")
    (folder / "2023" / "draft.md").write_text("draft", encoding="utf-8")
    (folder / "~$orchard.txt").write_bytes(b"owner")
    assert index(folder).failures == 1
    (message,) = Archive.open(folder.parent / "archive").failures()
    assert "photo.xyz has an unsupported format" in message
    assert "--exclude" in message
    clean = index(folder, exclude=["*.xyz", "2023/dr*"])
    assert (clean.failures, clean.documents) == (0, 3)


def test_what_a_version_holds_as_a_table_for_people(folder: Path, tmp_path: Path) -> None:
    index(folder)
    (folder / "orchard.txt").write_text("Another text.", encoding="utf-8")
    index(folder)
    opened = Archive.open(folder.parent / "archive")
    table = opened.contents(text=True)
    assert table.column_names == [
        "doc_id",
        "title",
        "date",
        "language",
        "tokens",
        "not_read",
        "company",
        "year",
        "source_uri",
        "sha256",
        "text",
    ]
    assert table["doc_id"].to_pylist() == ["2023/lantern", "orchard", "row-1"]
    assert table["text"].to_pylist()[1] == "Another text."
    assert "text" not in opened.contents().column_names
    for name in ("d.xlsx", "d.csv", "d.jsonl", "d.parquet", "d.duckdb"):
        runner = CliRunner().invoke(
            app, ["archive", "documents", f"{folder.parent}/archive@2", "--to", f"{tmp_path}/{name}"]
        )
        assert runner.exit_code == 0, runner.output
    sheet = openpyxl.load_workbook(tmp_path / "d.xlsx")["documents"]
    assert [cell.value for cell in sheet[1]][:5] == ["doc_id", "title", "date", "language", "tokens"]
    assert sheet.max_row == 4
    assert json.loads((tmp_path / "d.jsonl").read_text().splitlines()[2])["year"] == 2024
    listed = CliRunner().invoke(app, ["archive", "documents", str(folder.parent / "archive")]).output
    assert "row-1  3 tokens" in listed
    assert "version 2: 3 documents" in listed
