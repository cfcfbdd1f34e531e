"""Measure what reading the tables of PDFs adds to reading their text and to a whole index run.

    python -m benchmarks.pdf_tables_speed FOLDER [FOLDER ...] [--out benchmarks/results/pdf_tables_speed.md]

Reads all PDFs of the folders in this process, with the processor time of tables counted apart, and then indexes the
same files with ``okralong index`` and its defaults. Exits with 1 if tables add more than 25 ms a page, or more than
15 % of the run's processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.watched import watched
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.formats import pdf, pdf_page, tables_of_pages
from okralong.pipelines.indexing.listing import list_sources
from okralong.pipelines.indexing.parsers import read_source

MOST_MS: Final = 25.0
MOST_SHARE: Final = 0.15


class Clock:
    """Processor seconds of each call of some functions."""

    def __init__(self) -> None:
        self.spent: list[float] = []

    def watch(self, module: Any, name: str) -> None:
        """Measure a function of a module from now on."""
        function: Callable[..., Any] = getattr(module, name)

        def timed(*args: Any) -> Any:
            started = time.process_time()
            try:
                return function(*args)
            finally:
                self.spent.append(time.process_time() - started)

        setattr(module, name, timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    pages, joined, geometry = Clock(), Clock(), Clock()
    geometry.watch(tables_of_pages, "page_tables")
    pages.watch(pdf_page, "_tables")
    joined.watch(pdf, "document_tables")
    sources = [source for source in list_sources(options.folders).sources if source.uri.endswith(".pdf")]
    started, found, count = time.process_time(), list[RawDocument](), 0
    for source in sources:
        for reading in read_source(source, 10**9):
            if isinstance(reading, RawDocument):
                found.append(reading)
                count += int(reading.metadata["pages"])
    whole = time.process_time() - started
    tables = sum(pages.spent) + sum(joined.spent)
    with tempfile.TemporaryDirectory() as folder:
        of = [word for each in options.folders for word in ("--from", each)]
        run = watched([sys.executable, "-m", "okralong", "index", f"{folder}/archive", *of])
    per_page, share = 1000 * tables / count, tables / run.processor_s
    slowest = sorted(pages.spent)[-count // 100 :]
    text = (
        "# Reading the tables of PDFs\n\n"
        f"`python -m benchmarks.pdf_tables_speed` over {len(found)} PDFs, {count:,} pages, "
        f"{sum(len(each.tables or ()) for each in found):,} tables with "
        f"{sum(1 for each in found for table in each.tables or () for _ in table.values()):,} cells; processor time, "
        f"{len(os.sched_getaffinity(0))} cores\n\n"
        "| part | seconds | ms a page |\n|---|---|---|\n"
        f"| text, notes, pictures | {whole - tables:.1f} | {1000 * (whole - tables) / count:.1f} |\n"
        f"| tables | {tables:.1f} | {per_page:.1f} |\n"
        f"| - words and rules | {sum(pages.spent) - sum(geometry.spent):.1f} | "
        f"{1000 * (sum(pages.spent) - sum(geometry.spent)) / count:.1f} |\n"
        f"| - tables from them | {sum(geometry.spent):.1f} | {1000 * sum(geometry.spent) / count:.1f} |\n"
        f"| `okralong index`, all | {run.processor_s:.1f} | {1000 * run.processor_s / count:.1f} |\n\n"
        f"Tables take {tables / (whole - tables):.2f} times as long as the rest of reading, and {share:.1%} of the "
        f"index run ({run.seconds:.0f} s by the clock). The slowest page took {1000 * max(pages.spent):.0f} ms, the "
        f"slowest hundredth {1000 * statistics.mean(slowest):.0f} ms in the mean. Limits: {MOST_MS:.0f} ms a page, "
        f"{MOST_SHARE:.0%} of the run.\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(int(per_page > MOST_MS or share > MOST_SHARE))


if __name__ == "__main__":
    main()
