"""Measure the cost of parsing documents in a separate process: 300 good ones, parsed there and in this process.

    python -m benchmarks.reading --out benchmarks/results/reading.md

Generates 300 reports of about 3,000 words as txt, md, html, docx and pdf, and parses all of them both ways, three times
in turn, each time with a new process, whose start counts. Processor seconds of both processes are shown too, because
other load hardly changes them. Exits with 1 if the ratio of wall-clock seconds over all rounds exceeds 1.15.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import docx

from okralong.pipelines.core.types import Document
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, Source, make_document
from okralong.pipelines.indexing.listing import list_sources
from okralong.pipelines.indexing.parser_process import ParsedDocument, SandboxedParser
from okralong.pipelines.indexing.parsers import read_source
from okralong.pipelines.samples.questions import generate, write_sample
from tests.indexing.tiny_pdf import tiny_pdf

LIMIT = 1.15
DOCUMENTS = 300
WORDS = 3_000
ROUNDS = 3
LIMITS = IndexConfig().reading_limits()

Read = Callable[[tuple[Source, ...]], list[Document]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        sources = _write(Path(folder))
        if _here(sources) != _there(sources):  # and everything is loaded and in the file cache
            raise SystemExit("The two ways of reading gave different documents.")
        rounds = [(_measure(_here, sources), _measure(_there, sources)) for _ in range(ROUNDS)]
    rows = [
        f"| {number} | {here[0]:.2f} | {there[0]:.2f} | {here[1]:.2f} | {there[1]:.2f} |\n"
        for number, (here, there) in enumerate(rounds, start=1)
    ]
    clock, processor = (sum(there[i] for _, there in rounds) / sum(here[i] for here, _ in rounds) for i in (0, 1))
    text = (
        f"# Reading in a process of its own\n\n`python -m benchmarks.reading`, {len(sources)} documents of about "
        f"{WORDS:,} words, {os.cpu_count()} cores\n\n"
        "| round | here, s | there, s | here, processor s | there, processor s |\n|---|---|---|---|---|\n"
        f"{''.join(rows)}\nBy the clock {clock:.3f} against a limit of {LIMIT}; in processor time {processor:.3f}.\n"
    )
    print(text)
    if out:
        out.write_text(text)
    sys.exit(int(clock > LIMIT))


def _here(sources: tuple[Source, ...]) -> list[Document]:
    readings = [reading for source in sources for reading in read_source(source, LIMITS.file_bytes)]
    return [make_document(reading) for reading in readings if isinstance(reading, RawDocument)]


def _there(sources: tuple[Source, ...]) -> list[Document]:
    with SandboxedParser(LIMITS) as parser:
        return [
            each.document for source in sources for each in parser.parse(source) if isinstance(each, ParsedDocument)
        ]


def _measure(read: Read, sources: tuple[Source, ...]) -> tuple[float, float]:
    """Return wall-clock seconds, and processor seconds of this process and its finished children."""
    begun, spent = time.perf_counter(), _processor_seconds()
    if len(read(sources)) != len(sources):
        raise SystemExit("A document could not be read.")
    return time.perf_counter() - begun, _processor_seconds() - spent


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _write(folder: Path) -> tuple[Source, ...]:
    write_sample(generate(reports=DOCUMENTS, questions=0, seed=5, words=WORDS), folder, ("txt", "md", "html"))
    reports = folder / "reports"
    for number, file in enumerate(sorted(reports.glob("*.txt"))):
        lines = [line for line in file.read_text(encoding="utf-8").split("\n") if line]
        if number % 5 == 0:
            page = docx.Document()
            for line in lines:
                page.add_paragraph(line)
            page.save(str(file.with_suffix(".docx")))
        elif number % 5 == 1:
            plain = [line.encode("ascii", "replace").decode().translate({40: 91, 41: 93, 92: 47}) for line in lines]
            file.with_suffix(".pdf").write_bytes(tiny_pdf(plain))
        else:
            continue
        file.unlink()
    return list_sources([str(reports)]).sources


if __name__ == "__main__":
    main()
