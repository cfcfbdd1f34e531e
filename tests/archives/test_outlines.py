"""The trees of sections in an archive: stored at indexing, printed by a command, gone with their document."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import DOCUMENTS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.indexing.maintenance import purge
from okralong.pipelines.statements.outline import outline_of
from tests.archives.nights import CONFIG, encoder
from tests.statements.test_outline import SECTIONS, TEXT


def indexed(place: Path) -> Archive:
    raw = [RawDocument(name, f"{TEXT}\n{name}", f"{name}.txt", sections=SECTIONS) for name in "ab"]
    return index_here(str(place), raw, CONFIG, encoder())


def test_an_archive_stores_the_outlines_of_its_documents(tmp_path: Path) -> None:
    outline = indexed(tmp_path).document("a").outline
    assert outline is not None
    assert [node.title for node in outline if node.level == 1] == ["PART I", "PART II"]
    assert outline_of(indexed(tmp_path).document("a")) == outline


def test_a_document_of_an_earlier_archive_gets_the_same_outline(tmp_path: Path) -> None:
    stored = indexed(tmp_path).document("a").outline
    for path in (tmp_path / "documents").iterdir():
        table = pq.read_table(path).drop_columns(["outline"])
        earlier = DOCUMENTS.metadata | {b"okralong.schema_version": b"3"}
        pq.write_table(table.replace_schema_metadata(earlier), path, compression="zstd")
    document = Archive.open(tmp_path).document("a")
    assert document.outline is None
    assert outline_of(document) == stored


def test_a_purged_document_takes_its_outline_along(tmp_path: Path) -> None:
    indexed(tmp_path)
    purge(Folder.of(tmp_path), "a")
    assert Archive.open(tmp_path).document("b").outline
    rows = [row for path in (tmp_path / "documents").iterdir() for row in pq.read_table(path).to_pylist()]
    assert [(row["doc_id"], bool(row["outline"])) for row in rows] == [("b", True)]


def test_the_command_prints_the_tree(tmp_path: Path) -> None:
    indexed(tmp_path)
    result = CliRunner().invoke(app, ["archive", "sections", str(tmp_path), "a", "--depth", "3"])
    assert result.exit_code == 0, result.output
    assert "  Item 1A. Risk Factors  p.4" in result.output
    assert "CONSOLIDATED BALANCE SHEETS  p.6  [statement]" in result.output
    assert "Dividend Policy" not in result.output
