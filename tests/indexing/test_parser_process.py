"""The process that reads documents: what comes back, what it may use, and that it never outlives its use."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from okralong.pipelines.core.child_process import module_environment
from okralong.pipelines.core.types import BrokenError
from okralong.pipelines.indexing import parser_process
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source, make_document
from okralong.pipelines.indexing.parser_process import ParsedDocument, SandboxedParser
from okralong.pipelines.indexing.parsers import read_source
from tests.conftest import FERRY, LANTERN, ORCHARD
from tests.indexing.hostile import deep_html
from tests.indexing.tiny_pdf import tiny_pdf
from tests.processes import alive, wait_until_gone

pytestmark = pytest.mark.slow

LIMITS = IndexConfig().reading_limits()

DRIVER = """
import sys
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.parser_process import SandboxedParser
with SandboxedParser(IndexConfig().reading_limits()) as parser:
    for path in sys.argv[1:]:
        for _ in parser.parse(Source(path, "a")):
            print(parser.pid, flush=True)
"""


@pytest.fixture(scope="module")
def running() -> Iterator[SandboxedParser]:
    with SandboxedParser(LIMITS) as parser:
        yield parser
        pid = parser.pid
    assert pid is not None
    assert not alive(pid)


def source(file: Path) -> Source:
    return Source(str(file), file.stem, file.stat().st_size)


def rows_file(folder: Path, *texts: str) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(json.dumps({"doc_id": f"row-{n}", "text": t}) for n, t in enumerate(texts)) + "\n")
    return file


def test_what_comes_back_is_what_would_be_made_here(tmp_path: Path, running: SandboxedParser) -> None:
    good = {"doc_id": "a/1", "text": "Caf\u00e9 \U0001f468\u200d\U0001f469", "title": "T", "metadata": {"year": 2023}}
    for name, data in {
        "alder.txt": ORCHARD.encode(),
        "lantern.md": LANTERN.encode(),
        "ferry.html": FERRY.encode(),
        "page.pdf": tiny_pdf(["The Petrel crossed 1,204 times."]),
        "rows.jsonl": b"\n".join([json.dumps(good).encode(), b"{no", b"", b'{"doc_id": "c", "text": "d"}']),
        "empty.txt": b"",
        "torn.pdf": b"%PDF-1.7",
    }.items():
        file = tmp_path / name
        file.write_bytes(data)
        found = list(running.parse(source(file)))
        here = list(read_source(source(file), LIMITS.file_bytes))
        assert [each.document if isinstance(each, ParsedDocument) else each for each in found] == [
            make_document(each) if isinstance(each, RawDocument) else each for each in here
        ]
    row = rows_file(tmp_path, "text")
    assert [each.origin for each in running.parse(source(row)) if isinstance(each, ParsedDocument)] == [f"{row}, row 1"]


def test_one_process_reads_file_after_file(
    tmp_path: Path, running: SandboxedParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = rows_file(tmp_path, "one", "two")
    list(running.parse(source(file)))
    first = running.pid
    list(running.parse(source(file)))
    assert running.pid == first
    monkeypatch.setattr(parser_process, "MOST_DOCUMENTS", 2)
    list(running.parse(source(file)))
    assert running.pid != first


def test_it_may_not_write_files_dump_its_memory_or_grow_without_end(tmp_path: Path, running: SandboxedParser) -> None:
    list(running.parse(source(rows_file(tmp_path, "text"))))
    lines = Path(f"/proc/{running.pid}/limits").read_text().splitlines()
    soft = {line[:26].strip(): line[26:].split()[0] for line in lines[1:]}
    assert (soft["Max file size"], soft["Max core file size"]) == ("0", "0")
    assert LIMITS.memory_bytes < int(soft["Max address space"]) < LIMITS.memory_bytes + 2**30
    assert LIMITS.seconds < int(soft["Max cpu time"]) < LIMITS.seconds + 3600


def test_a_process_that_is_gone_is_replaced_and_no_row_is_lost_or_read_twice(
    tmp_path: Path, running: SandboxedParser
) -> None:
    file = rows_file(tmp_path, *(str(number) * 300_000 for number in range(4)))
    found = []
    for each in running.parse(source(file)):
        assert isinstance(each, ParsedDocument)
        found.append(each.document.doc_id)
        if len(found) == 2:  # the third is larger than a pipe, so that the process is still at it
            assert running.pid is not None
            os.kill(running.pid, signal.SIGKILL)
    assert found == ["row-0", "row-1", "row-2", "row-3"]


def test_a_file_that_is_left_unfinished_is_not_resumed(tmp_path: Path, running: SandboxedParser) -> None:
    file = rows_file(tmp_path, "one", "two")
    reading = running.parse(source(file))
    next(reading)
    reading.close()
    assert running.pid is None
    assert len(list(running.parse(source(file)))) == 2


def test_storage_that_does_not_answer_is_given_up_by_the_clock(tmp_path: Path) -> None:
    fifo = tmp_path / "never.txt"
    os.mkfifo(fifo)
    with SandboxedParser(replace(LIMITS, seconds=0.2)) as parser:
        (bad,) = parser.parse(Source(str(fifo), "never"))
        assert parser.pid is None
    assert isinstance(bad, BadRow)
    assert "never.txt was not read within 1 s by the clock" in bad.message
    assert "limits.document_s = 0.2" in bad.message


def test_a_killed_driver_leaves_no_process(tmp_path: Path) -> None:
    good, trap = tmp_path / "good.txt", tmp_path / "trap.html"
    good.write_text(ORCHARD, encoding="utf-8")
    deep_html(trap, 1_000_000)
    command = [sys.executable, "-c", DRIVER, str(good), str(trap)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=module_environment())
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    assert alive(pid)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert wait_until_gone(pid)


def test_a_process_that_does_not_start_stops_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("okralong.pipelines.indexing.parser_process.CHILD", "okralong.no_such_module")
    with SandboxedParser(LIMITS) as parser, pytest.raises(BrokenError, match="No module named"):
        list(parser.parse(source(rows_file(tmp_path, "text"))))


@pytest.mark.soak
def test_a_process_of_which_nothing_is_asked_ends(tmp_path: Path) -> None:
    file = rows_file(tmp_path, "text")
    with SandboxedParser(LIMITS) as parser:
        list(parser.parse(source(file)))
        assert parser.pid is not None
        assert wait_until_gone(parser.pid, 60)
        assert len(list(parser.parse(source(file)))) == 1
