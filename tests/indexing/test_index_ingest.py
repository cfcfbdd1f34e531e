"""Parts of ``documents`` without Ray: how they are cut, and what becomes of an id that several files have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docx
import pytest

from okralong.pipelines.archive.versions import KnownSource, resolve_duplicates
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing import ingest
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.ingest import (
    entries_of,
    finished_outcomes,
    finished_parts,
    ingest_part,
    known_source,
    plan_parts,
    read_documents,
    write_outcomes,
)
from okralong.pipelines.indexing.listing import list_sources, with_hashes
from okralong.pipelines.indexing.parser_process import SandboxedParser

pytestmark = pytest.mark.slow


def test_parts_keep_the_order_and_close_when_full() -> None:
    sources = [Source(f"{number:03d}.txt", f"{number:03d}", 100_000) for number in range(7)]
    parts = plan_parts(sources)
    assert [len(part) for part in parts] == [2, 2, 2, 1]
    assert [source for part in parts for source in part] == sources
    assert plan_parts([]) == []
    assert [len(part) for part in plan_parts([Source("a", "a", 1)] * 130)] == [64, 64, 2]
    large = plan_parts([Source("a", "a", 200_000)] * 4_000)
    assert max(len(part) for part in large) == 40


@pytest.fixture(scope="module")
def parser() -> Iterator[SandboxedParser]:
    with SandboxedParser(IndexConfig().reading_limits()) as running:
        yield running


def test_two_files_with_one_id_go_into_two_pieces(tmp_path: Path, parser: SandboxedParser) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.txt").write_text("The text of a.", encoding="utf-8")
    rows = [{"doc_id": "a", "text": "Another a."}, {"doc_id": "b", "text": "The text of b."}]
    (sources / "m.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (sources / "z.jsonl").write_text(json.dumps(rows[0]), encoding="utf-8")
    archive = str(tmp_path / "archive")
    outcomes = ingest_part(archive, "p", list_sources([str(sources)]).sources, parser)
    assert [(row.part, row.doc_id, row.message) for row in outcomes] == [
        ("p-00", "a", ""),
        ("p-01", "a", ""),
        ("p-00", "b", ""),
        ("p-02", "a", ""),
    ]
    assert [document.text for document in read_documents(archive, "p-00")] == ["The text of a.", "The text of b."]
    assert [document.text for document in read_documents(archive, "p-01")] == ["Another a."]
    resolved = resolve_duplicates(entries_of(outcomes))
    assert [(entry.doc_id, entry.part, entry.shadowed) for entry in resolved] == [
        ("a", "p-00", False),
        ("a", "p-01", True),
        ("a", "p-02", True),
        ("b", "p-00", False),
    ]


def test_a_purged_document_is_not_written_again(tmp_path: Path, parser: SandboxedParser) -> None:
    rows = [{"doc_id": "a", "text": "The zebrafish of Quillon."}, {"doc_id": "b", "text": "The text of b."}]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    archive = str(tmp_path / "archive")
    first, second = ingest_part(archive, "p", [Source(str(file), "rows")], parser, frozenset({"a"}))
    assert (first.doc_id, first.part, second.part) == ("a", "", "p-00")
    assert "rows.jsonl, row 1 holds the document 'a', which was purged" in first.message
    assert [document.doc_id for document in read_documents(archive, "p-00")] == ["b"]


def test_outcomes_say_which_sources_a_killed_job_had_read(tmp_path: Path, parser: SandboxedParser) -> None:
    (tmp_path / "a.txt").write_text("The text of a.", encoding="utf-8")
    (tmp_path / "b.txt").write_text("The text of b.", encoding="utf-8")
    (tmp_path / "empty.txt").write_bytes(b"")
    sources = with_hashes(list_sources([str(tmp_path)]).sources)
    archive = Folder.of(tmp_path / "archive")
    write_outcomes(archive, "p", ingest_part(archive.path, "p", sources, parser), "limits")
    (tmp_path / "b.txt").write_text("Another text of b.", encoding="utf-8")
    wanted = {source.uri: source for source in with_hashes(list_sources([str(tmp_path)]).sources)}
    found = finished_outcomes(archive, finished_parts(archive), wanted)
    assert sorted(Path(uri).name for uri in found) == ["a.txt", "empty.txt"]
    outcomes, limits = found[str(tmp_path / "empty.txt")]
    assert ("is empty" in outcomes[0].message, limits) == (True, "limits")
    assert known_source(wanted[str(tmp_path / "empty.txt")], outcomes).failed[0][0] == "empty"
    assert finished_outcomes(archive, finished_parts(archive), {}) == {}


def test_a_file_of_the_known_size_and_time_is_not_opened(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("The text of a.", encoding="utf-8")
    (source,) = list_sources([str(file)]).sources
    known = {source.uri: KnownSource(source.uri, "a", "believed", source.size, source.mtime_ns)}
    later = source.mtime_ns + 3_000_000_000
    assert with_hashes([source], known, later)[0].sha256 == "believed"
    assert len(with_hashes([source], known, later - 2_000_000_000)[0].sha256) == 64  # within a tick of its clock
    assert len(with_hashes([replace(source, size=3)], known, later)[0].sha256) == 64


def test_a_text_that_is_no_text_fails_alone(tmp_path: Path, parser: SandboxedParser) -> None:
    page = docx.Document()
    page.add_paragraph("good")
    page.save(str(tmp_path / "good.docx"))
    (tmp_path / "half.html").write_text("<p>&#xD800;&#0;</p>", encoding="utf-8")
    outcomes = ingest_part(str(tmp_path / "archive"), "p", list_sources([str(tmp_path)]).sources, parser)
    assert [row.doc_id for row in outcomes] == ["good", "half"]
    assert outcomes[0].message == ""


def test_a_document_survives_its_part(tmp_path: Path, parser: SandboxedParser) -> None:
    row = {"doc_id": "a", "text": "Year  2022  2023\nPears  4,310  4,020\n", "title": "T", "metadata": {"k": "v"}}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    archive = str(tmp_path / "archive")
    (outcome,) = ingest_part(archive, "p", [Source(str(file), "rows")], parser)
    (document,) = read_documents(archive, "p-00")
    assert (document.text, document.title, document.metadata) == (row["text"], "T", {"k": "v"})
    assert document.n_tokens == outcome.n_tokens > 0
    assert len(document.sha256) == 64


def test_what_unpacks_to_more_than_a_part_becomes_several(
    tmp_path: Path, parser: SandboxedParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_MOST_PART_CHARS", 25)
    rows = [{"doc_id": name, "text": f"Ten chars{name}"} for name in "cabd"]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, rows[0]])), encoding="utf-8")
    archive = str(tmp_path / "archive")
    outcomes = ingest_part(archive, "p", [Source(str(file), "rows")], parser)
    assert [(outcome.part, outcome.doc_id) for outcome in outcomes] == [
        ("p-00", "c"),
        ("p-00", "a"),
        ("p-01", "b"),
        ("p-01", "d"),
        ("", "c"),
    ]
    assert "Two documents are called 'c'" in outcomes[-1].message
    assert Folder.of(archive).at("documents").names() == ["p-00.parquet", "p-01.parquet"]
    assert [document.doc_id for document in read_documents(archive, "p-00")] == ["a", "c"]


def test_rows_that_repeat_an_id_are_not_all_told(
    tmp_path: Path, parser: SandboxedParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_BAD_ROWS", 2)
    file = tmp_path / "rows.jsonl"
    file.write_text('{"doc_id": "a", "text": "b"}\n' * 6, encoding="utf-8")
    outcomes = ingest_part(str(tmp_path / "archive"), "p", [Source(str(file), "rows")], parser)
    assert [bool(outcome.message) for outcome in outcomes] == [False, True, True, True]
    assert "has 5 rows with a doc_id that another document already has" in outcomes[-1].message
