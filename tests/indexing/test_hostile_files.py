"""Files that explode: each is a failure that names the limit, those beside it are indexed, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from okralong.pipelines.indexing.documents import MOST_BAD_ROWS, BadRow, Limits, Source
from okralong.pipelines.indexing.ingest import ingest_part, read_documents
from okralong.pipelines.indexing.listing import list_sources
from okralong.pipelines.indexing.parser_process import ParsedDocument, SandboxedParser
from tests.conftest import ORCHARD
from tests.indexing import hostile, office_files
from tests.processes import alive

pytestmark = pytest.mark.slow

MEGABYTE = 1_000_000
GIB = 2**30
PATIENT = Limits(seconds=100, memory_bytes=GIB // 2, document_bytes=MEGABYTE, text_bytes=10**10, file_bytes=10**9)
"""For what takes memory: also a machine that is busy with other work has time enough to see it."""
HASTY = Limits(seconds=1.5, memory_bytes=GIB, document_bytes=50 * MEGABYTE, text_bytes=10**10, file_bytes=10**9)
MOST_GROWTH = 150 * MEGABYTE
"""Bytes by which the process that asks for documents may grow; each of the files takes several times as much."""

Make = Callable[[Path], None]


def slow_text(lines: int) -> str:
    """A text whose lines are so many and short that looking for tables in it takes some microseconds a character."""
    return "/\n" * lines


def index(folder: Path, limits: Limits) -> dict[str, str]:
    """Index ``folder`` as the job does, between two good documents; the failures by doc_id."""
    for name in ("a-first.txt", "z-last.txt"):
        (folder / name).write_text(ORCHARD, encoding="utf-8")
    before = sorted(folder.iterdir())
    archive = folder.parent / "archive"
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark of memory begins anew
    started = high_water()
    with SandboxedParser(limits) as parser:
        pids = set()
        outcomes = []
        for part, source in enumerate(list_sources([str(folder)]).sources):
            outcomes += ingest_part(str(archive), f"part-{part}", [source], parser)
            pids.add(parser.pid)
    assert high_water() - started < MOST_GROWTH
    assert not any(alive(pid) for pid in pids if pid is not None)
    assert sorted(folder.iterdir()) == before
    good = [outcome for outcome in outcomes if not outcome.message]
    assert [outcome.doc_id for outcome in good] == ["a-first", "z-last"]
    assert sorted(path.name for path in (archive / "documents").iterdir()) == [
        f"{outcome.part}.parquet" for outcome in good
    ]
    assert [document.text for o in good for document in read_documents(str(archive), o.part)] == [ORCHARD, ORCHARD]
    return {outcome.doc_id: outcome.message for outcome in outcomes if outcome.message}


def one_cell(size: int) -> Iterator[str]:
    """A row of one cell with a text of ``size`` characters."""
    block = "word " * (MEGABYTE // 5)
    yield '<row r="1"><c r="A1" t="inlineStr"><is><t>'
    for _ in range(size // MEGABYTE):
        yield block
    yield "</t></is></c></row>"


def last_cells(rows: int) -> Iterator[str]:
    """Rows with a cell in the last of all columns each."""
    return (f'<row r="{n}"><c r="XFD{n}" t="str"><v>x</v></c></row>' for n in range(1, rows + 1))


def high_water() -> int:
    """Most bytes that this process has had in memory."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def test_what_takes_memory(tmp_path: Path) -> None:
    made: dict[str, Make] = {
        "blanks.docx": lambda file: hostile.word_bomb(file, b" ", 2 * GIB),
        "elements.docx": lambda file: hostile.word_bomb(file, b"<w:p/>", GIB // 8),
        "page.pdf": lambda file: hostile.pdf_bomb(file, GIB),
        "line.txt": lambda file: hostile.one_line(file, 50 * MEGABYTE),
        "claim.parquet": lambda file: hostile.parquet_that_claims(file, 2**31 - 1),
        "sheet.xlsx": lambda file: office_files.sheet_of(file, one_cell(GIB)),
    }
    folder = tmp_path / "sources"
    folder.mkdir()
    for name, make in made.items():
        make(folder / name)
    assert max((folder / name).stat().st_size for name in made if name != "line.txt") < 10 * MEGABYTE
    failures = index(folder, PATIENT)
    assert list(failures) == ["blanks", "claim", "elements", "line", "page", "sheet"]
    for name in ("blanks", "elements", "page", "sheet"):
        assert "limits.document_gib = 0.5" in failures[name]
    assert "line.txt holds 50.0 MB of text, more than limits.document_megabytes = 1." in failures["line"]
    assert "claim.parquet breaks off after row 0" in failures["claim"]
    for name, message in failures.items():
        assert f"{name}." in message
        assert "\n" not in message


def test_what_takes_time(tmp_path: Path) -> None:
    made: dict[str, Make] = {
        "deep.html": lambda file: hostile.deep_html(file, 300_000),
        "lines.txt": lambda file: hostile.text(file, slow_text(2_000_000)),
        "objects.pdf": lambda file: hostile.pdf_of_objects(file, 500_000),
        "wide.xlsx": lambda file: office_files.sheet_of(file, last_cells(300_000)),
    }
    folder = tmp_path / "sources"
    folder.mkdir()
    for name, make in made.items():
        make(folder / name)
    failures = index(folder, HASTY)
    assert list(failures) == ["deep", "lines", "objects", "wide"]
    for name, message in failures.items():
        assert f"{name}." in message
        assert "limits.document_s = 1.5" in message


def test_a_trap_in_a_table_is_read_as_fast_as_any_other(tmp_path: Path) -> None:
    cell = "1,234 " + " " * 200_000 + "|\t" * 1_000 + "$" * 50_000 + "(" * 50_000 + "1,234.5.6" * 20_000
    rows = f"| {cell} |\n" * 3
    (tmp_path / "table.md").write_text(f"# {' ' * 200_000}x\n\n{rows}", encoding="utf-8")
    (tmp_path / "table.html").write_text(f"<table><tr><td>{cell}<td>{cell}</table>", encoding="utf-8")
    with SandboxedParser(HASTY) as parser:
        for source in list_sources([str(tmp_path)]).sources:
            (found,) = parser.parse(source)
            assert isinstance(found, ParsedDocument), found


def test_rows_around_a_hostile_one_are_read(tmp_path: Path) -> None:
    rows = [
        {"doc_id": "good-1", "text": "The first."},
        {"doc_id": "long", "text": "x" * 2 * MEGABYTE},
        {"doc_id": "i" * 5_000, "text": "An id that would stand in every chunk."},
        {"doc_id": "tagged", "text": "A card as long as a book.", "metadata": {"k": "v" * 2 * MEGABYTE}},
        {"doc_id": "good-2", "text": "The last.", "title": "T" * 5_000},
    ]
    lines = [json.dumps(row) for row in rows]
    lines.insert(1, '{"doc_id": "many", "text": [' + "{}," * 15 * MEGABYTE + "{}]}")
    lines.insert(1, "[" * 100_000)
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    with SandboxedParser(PATIENT) as parser:
        found = list(parser.parse(Source(str(file), "rows", file.stat().st_size)))
    good = [each.document for each in found if isinstance(each, ParsedDocument)]
    assert [(document.doc_id, len(document.title)) for document in good] == [("good-1", 0), ("good-2", 1_000)]
    reasons = ["row 2, is not JSON", "row 3, has 45.0 MB, which needed more memory", "row 4, holds 2.0 MB of text"]
    reasons += ["row 5: doc_id has 5000 characters", "row 6: metadata has more than 1000000 characters"]
    bad = [each.message for each in found if isinstance(each, BadRow)]
    for message, reason in zip(bad, reasons, strict=True):
        assert reason in message
        assert str(file) in message


def test_rows_that_take_too_long_are_named_until_they_are_too_many(tmp_path: Path) -> None:
    slow = slow_text(1_000_000)
    texts = ["good", slow, "good", slow, slow, "never read"]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"doc_id": f"row-{n}", "text": t}) for n, t in enumerate(texts)))
    with SandboxedParser(HASTY) as parser:
        found = list(parser.parse(Source(str(file), "rows", file.stat().st_size)))
    assert [each.document.doc_id if isinstance(each, ParsedDocument) else each.doc_id for each in found] == [
        "row-0",
        "row-1",
        "row-2",
        "row-3",
        "row-4",
    ]
    bad = [each.message for each in found if isinstance(each, BadRow)]
    assert [f"row {number}, " in message for number, message in zip((2, 4, 5), bad, strict=True)] == [True] * 3
    assert ["the rest of the file was not read" in message for message in bad] == [False, False, True]


def test_a_small_file_of_more_text_than_a_disk_holds(tmp_path: Path) -> None:
    file = tmp_path / "one.parquet"
    hostile.parquet_of_one_text(file, rows=1_000, chars=MEGABYTE)
    limits = Limits(seconds=100, memory_bytes=GIB, document_bytes=MEGABYTE, text_bytes=3 * MEGABYTE, file_bytes=10**9)
    with SandboxedParser(limits) as parser:
        found = list(parser.parse(Source(str(file), "one", file.stat().st_size)))
    assert file.stat().st_size < MEGABYTE
    assert [isinstance(each, ParsedDocument) for each in found] == [True] * 3 + [False]
    bad = found[-1]
    assert isinstance(bad, BadRow)
    assert "more than limits.file_text_megabytes = 3 of text; the rows after the first 3" in bad.message


def test_millions_of_rows_that_are_no_documents(tmp_path: Path) -> None:
    file = tmp_path / "none.parquet"
    hostile.parquet_of_nothing(file, 30 * MEGABYTE)
    with SandboxedParser(HASTY) as parser:
        found = list(parser.parse(Source(str(file), "none", file.stat().st_size)))
    assert len(found) == MOST_BAD_ROWS + 1
    last = found[-1]
    assert isinstance(last, BadRow)
    assert "limits.document_s = 1.5" in last.message


def test_rows_beyond_those_that_are_reported_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("{no\n" * (MOST_BAD_ROWS + 5) + '{"doc_id": "good", "text": "read"}\n', encoding="utf-8")
    with SandboxedParser(PATIENT) as parser:
        found = list(parser.parse(Source(str(file), "rows", file.stat().st_size)))
    assert [isinstance(each, BadRow) for each in found] == [True] * MOST_BAD_ROWS + [False, True]
    last = found[-1]
    assert isinstance(last, BadRow)
    assert f"has {MOST_BAD_ROWS + 5} rows that cannot be read" in last.message


@pytest.mark.soak
def test_a_line_of_200_megabytes_within_all_limits_or_over_them(tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    hostile.one_line(folder / "line.txt", 200 * MEGABYTE)
    limits = Limits(
        seconds=600, memory_bytes=GIB, document_bytes=200 * MEGABYTE, text_bytes=10**10, file_bytes=200 * MEGABYTE
    )
    with SandboxedParser(limits) as parser:
        (found,) = parser.parse(list_sources([str(folder)]).sources[0])
    assert isinstance(found, ParsedDocument), found
    assert len(found.document.text) == 200 * MEGABYTE
    assert list(index(folder, PATIENT)) == ["line"]
