"""Parts of ``documents`` without Ray: how they are cut, and who keeps an id that several parts have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import docx
import pytest

from okralong.pipelines.indexing import ingest
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.ingest import drop_duplicates, ingest_part, part_name, plan_parts, read_documents
from okralong.pipelines.indexing.readers.listing import list_sources
from okralong.pipelines.indexing.readers.raw import Source
from okralong.pipelines.indexing.reading.reader import Reader
from okralong.pipelines.storage import Folder


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
def reader() -> Iterator[Reader]:
    with Reader(IndexConfig().reading_limits()) as running:
        yield running


def test_the_first_part_keeps_an_id_and_the_other_loses_it(tmp_path: Path, reader: Reader) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.txt").write_text("The text of a.", encoding="utf-8")
    rows = [{"doc_id": "a", "text": "Another a."}, {"doc_id": "b", "text": "The text of b."}]
    (sources / "m.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (sources / "z.jsonl").write_text(json.dumps(rows[0]), encoding="utf-8")
    archive = str(tmp_path / "archive")
    listed = list_sources([str(sources)]).sources
    outcomes = [row for part, source in enumerate(listed) for row in ingest_part(archive, part, [source], reader)]
    settled = drop_duplicates(archive, list(reversed(outcomes)))
    assert [(row.part, row.doc_id, bool(row.message)) for row in settled] == [
        (0, "a", False),
        (1, "b", False),
        (1, "a", True),
        (2, "a", True),
    ]
    assert "a.txt is kept" in settled[2].message
    assert "m.jsonl, row 1 is left out" in settled[2].message
    assert [document.doc_id for document in read_documents(archive, 1)] == ["b"]
    assert Folder.of(archive).at("documents").names() == [part_name(0), part_name(1)]


def test_a_text_that_is_no_text_fails_alone(tmp_path: Path, reader: Reader) -> None:
    page = docx.Document()
    page.add_paragraph("good")
    page.save(str(tmp_path / "good.docx"))
    (tmp_path / "half.html").write_text("<p>&#xD800;&#0;</p>", encoding="utf-8")
    outcomes = ingest_part(str(tmp_path / "archive"), 0, list_sources([str(tmp_path)]).sources, reader)
    assert [row.doc_id for row in outcomes] == ["good", "half"]
    assert outcomes[0].message == ""


def test_a_document_survives_its_part(tmp_path: Path, reader: Reader) -> None:
    row = {"doc_id": "a", "text": "Year  2022  2023\nPears  4,310  4,020\n", "title": "T", "metadata": {"k": "v"}}
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row), encoding="utf-8")
    archive = str(tmp_path / "archive")
    (outcome,) = ingest_part(archive, 0, [Source(str(file), "rows")], reader)
    (document,) = read_documents(archive, 0)
    assert (document.text, document.title, document.metadata) == (row["text"], "T", {"k": "v"})
    assert document.n_tokens == outcome.n_tokens > 0
    assert len(document.sha256) == 64


def test_what_unpacks_to_more_than_a_part_becomes_several(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "_MOST_PART_CHARS", 25)
    rows = [{"doc_id": name, "text": f"Ten chars{name}"} for name in "cabd"]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, [*rows, rows[0]])), encoding="utf-8")
    archive = str(tmp_path / "archive")
    outcomes = ingest_part(archive, 1, [Source(str(file), "rows")], reader, stride=10)
    assert [(outcome.part, outcome.doc_id) for outcome in outcomes] == [
        (1, "c"),
        (1, "a"),
        (11, "b"),
        (11, "d"),
        (11, "c"),
    ]
    assert "Two documents are called 'c'" in outcomes[-1].message
    assert Folder.of(archive).at("documents").names() == [part_name(1), part_name(11)]
    assert [document.doc_id for document in read_documents(archive, 1)] == ["a", "c"]


def test_rows_that_repeat_an_id_are_not_all_told(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MOST_BAD_ROWS", 2)
    file = tmp_path / "rows.jsonl"
    file.write_text('{"doc_id": "a", "text": "b"}\n' * 6, encoding="utf-8")
    outcomes = ingest_part(str(tmp_path / "archive"), 0, [Source(str(file), "rows")], reader)
    assert [bool(outcome.message) for outcome in outcomes] == [False, True, True, True]
    assert "has 5 rows with a doc_id that another document already has" in outcomes[-1].message
