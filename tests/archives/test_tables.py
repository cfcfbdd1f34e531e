"""The tables of documents in an archive: stored, read, kept by versions, and gone with their document."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.confined_process import BrokenFrame
from okralong.pipelines.core.schemas import TABLES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.indexing import table_frames
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.indexing.maintenance import purge, vacuum
from okralong.pipelines.indexing.parser_child import Parsed
from okralong.pipelines.indexing.parser_process import document_of_frame
from okralong.pipelines.indexing.table_frames import packed_tables, unpacked_tables
from tests.archives.nights import CONFIG, encoder, made_up

TEXT = "Quills (in thousands)\n2023 2022\nNet sales $ 34,229 $ 35,355\nZebrafish:\nWeight 31 —"
SALES, WEIGHT = TEXT.index("Net sales"), TEXT.index("Weight")


def cell(column: int, said: str, after: int) -> TableCell:
    start = TEXT.index(said, after)
    return TableCell(column, said, start, start + len(said))


TABLE = Table(
    0,
    len(TEXT),
    (("Year", "2023"), ("Year", "2022")),
    (
        TableRow("Net sales", SALES, SALES + 27, (cell(0, "34,229", SALES), cell(1, "35,355", SALES))),
        TableRow("Weight", WEIGHT, len(TEXT), (cell(0, "31", WEIGHT), cell(1, "—", WEIGHT)), ("Zebrafish:",)),
    ),
    page="7",
    title="Quills",
    unit="(in thousands)",
    stub="",
)


def indexed(place: Path, **tables: tuple[Table, ...] | None) -> Archive:
    raw = [RawDocument(name, f"{TEXT}\n\n{made_up(name)}", f"{name}.txt", tables=held) for name, held in tables.items()]
    return index_here(str(place), raw, CONFIG, encoder())


def test_the_archive_returns_the_tables_that_the_parser_read(tmp_path: Path) -> None:
    archive = indexed(tmp_path, a=(TABLE, TABLE), b=(), c=(TABLE,))
    assert [archive.document(name).tables for name in "abc"] == [(TABLE, TABLE), (), (TABLE,)]
    [file] = (tmp_path / "tables").iterdir()
    written = pq.read_table(file)
    assert written.schema.equals(TABLES)
    assert written.num_rows == 6
    row = written.slice(1, 1).to_pylist()[0]
    assert (row["doc_id"], row["table"], row["row"], row["page"]) == ("a", 0, 1, "7")
    assert (row["label"], row["sections"], row["unit"]) == ("Weight", ["Zebrafish:"], "(in thousands)")
    assert [TEXT[each["start_char"] : each["end_char"]] for each in row["cells"]] == ["31", "—"]


def test_a_part_of_an_earlier_archive_has_no_tables(tmp_path: Path) -> None:
    indexed(tmp_path, a=(TABLE,))
    shutil.rmtree(tmp_path / "tables")
    assert Archive.open(str(tmp_path)).document("a").tables is None


def test_a_large_part_returns_the_tables_of_one_document(tmp_path: Path) -> None:
    many = tuple(TABLE for _ in range(1500))
    archive = indexed(tmp_path, a=many, b=(TABLE,), c=many)
    [file] = (tmp_path / "tables").iterdir()
    assert pq.ParquetFile(file).num_row_groups > 1
    assert [len(archive.document(name).tables or ()) for name in "abc"] == [1500, 1, 1500]


def test_vacuum_and_purge_know_the_tables(tmp_path: Path) -> None:
    indexed(tmp_path, a=(TABLE,), secret=(TABLE,))
    indexed(tmp_path, a=(TABLE, TABLE), secret=(TABLE,))
    folder = Folder.of(tmp_path)
    (tmp_path / "tables" / "0123456789abcdef-00.parquet").write_bytes(b"left by a killed job")
    assert len(list((tmp_path / "tables").iterdir())) == 3
    vacuum(folder, 1)
    [file] = (tmp_path / "tables").iterdir()
    assert set(pq.read_table(file)["doc_id"].to_pylist()) == {"a", "secret"}
    purge(folder, "secret")
    held = [pq.read_table(file)["doc_id"].to_pylist() for file in (tmp_path / "tables").iterdir()]
    assert held == [["a"] * 4]
    assert Archive.open(str(tmp_path)).document("a").tables == (TABLE, TABLE)


def test_a_parsing_process_sends_its_tables() -> None:
    head, body = Parsed.of(RawDocument("a", TEXT, "a.txt", tables=(TABLE,))).frame()
    assert document_of_frame(json.loads(json.dumps(head)), body, "a.txt").tables == (TABLE,)


def test_too_many_tables_are_kept_as_text_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_frames, "MOST_TABLES_BYTES", 400)
    raw = RawDocument("a", TEXT, "a.txt", metadata={"not_read": "1 comment"}, tables=(TABLE, TABLE))
    head, body = Parsed.of(raw).frame()
    document = document_of_frame(head, body, "a.txt")
    assert document.tables == ()
    assert document.metadata["not_read"] == "1 comment; 2 tables that are kept as text only"


def packed() -> list[Any]:
    held = json.loads(packed_tables([TABLE]) or b"")
    assert unpacked_tables(json.dumps(held).encode(), len(TEXT)) == (TABLE,)
    return list(held)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((0, 0), -1),
        ((0, 1), len(TEXT) + 1),
        ((0, 1), True),
        ((0, 2), 5),
        ((0, 2, 0), [5]),
        ((0, 2), [["2023"]]),
        ((0, 3), None),
        ((0, 4), "\ud800"),
        ((0, 7, 0, 0), 5),
        ((0, 7, 0, 1), 10**30),
        ((0, 7, 0, 3), [None]),
        ((0, 7, 0, 4, 0, 0), 2),
        ((0, 7, 0, 4, 0, 0), "0"),
        ((0, 7, 0, 4, 0, 1), 34229),
        ((0, 7, 0, 4, 0, 2), 1.5),
        ((0, 7, 0), []),
        ((0,), {}),
    ],
)
def test_tables_that_do_not_fit_are_refused(path: tuple[int, ...], value: object) -> None:
    held = packed()
    place = held
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    frame = Parsed.of(RawDocument("a", TEXT, "a.txt", tables=()))
    head, _ = frame.frame()
    tables = json.dumps(held).encode()
    body = frame.text + tables
    with pytest.raises(BrokenFrame):
        document_of_frame({**head, "tables_bytes": len(tables)}, body, "a.txt")


def test_deeply_nested_tables_are_refused() -> None:
    frame = Parsed.of(RawDocument("a", TEXT, "a.txt", tables=()))
    head, _ = frame.frame()
    tables = b"[" * 200_000
    with pytest.raises(BrokenFrame):
        document_of_frame({**head, "tables_bytes": len(tables)}, frame.text + tables, "a.txt")


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
spans = st.tuples(st.integers(0, 50), st.integers(50, 99))


@st.composite
def any_table(draw: st.DrawFn) -> Table:
    heads = draw(st.lists(st.lists(words, max_size=3).map(tuple), min_size=1, max_size=4).map(tuple))
    cells = st.builds(
        lambda column, text, span: TableCell(column, text, *span), st.integers(0, len(heads) - 1), words, spans
    )
    rows = st.builds(
        lambda label, span, held, above: TableRow(label, *span, tuple(held), tuple(above)),
        words,
        spans,
        st.lists(cells, max_size=3),
        st.lists(words, max_size=2),
    )
    start, end = draw(spans)
    return Table(start, end, heads, tuple(draw(st.lists(rows, max_size=3))), *(draw(words) for _ in range(4)))


@given(st.lists(any_table(), max_size=3))
def test_any_tables_pass_through_a_frame(tables: list[Table]) -> None:
    assert unpacked_tables(packed_tables(tables) or b"", 99) == tuple(tables)


def test_the_tables_of_a_document_are_printed_and_written(tmp_path: Path) -> None:
    indexed(tmp_path / "archive", a=(TABLE, replace(TABLE, page="8", unit="")))
    place = str(tmp_path / "archive")
    shown = CliRunner().invoke(app, ["archive", "tables", place, "a", "--page", "7"])
    assert shown.exit_code == 0
    assert shown.output.splitlines() == [
        "[Quills | in thousands | page 7]",
        "Year|2023|2022",
        "Net sales|34,229|35,355",
        "# Zebrafish:",
        "Weight|31|—",
        "",
        "a: 1 table",
    ]
    to = tmp_path / "cells.parquet"
    told = CliRunner().invoke(app, ["archive", "tables", place, "a", "--to", str(to)])
    assert told.output.split(": ")[-1] == "8 cells of 2 tables\n"
    first, *_, last = pq.read_table(to).to_pylist()
    assert (first["page"], first["label"], first["head"], first["text"]) == ("7", "Net sales", "Year 2023", "34,229")
    assert (first["number"], first["scale"]) == (34_229_000, "thousand")
    assert (last["page"], last["section"], last["text"], last["number"]) == ("8", "Zebrafish:", "—", None)
