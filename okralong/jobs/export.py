"""``okralong export``: write the answers of a run to a file."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.wording import counted
from okralong.pipelines.statements.tagged import Result

RESULTS: Final[dict[Result, str]] = {"agrees": "agree", "differs": "differ", "no fact": "have no fact of their period"}


def export(
    run: Annotated[str, typer.Argument(help="A run folder, or the folder current of okralong nightly.")],
    to: Annotated[str, typer.Option(help="The file, a path or URI: .xlsx, .csv, .jsonl, .parquet or .duckdb.")],
    format_: Annotated[
        str | None,
        typer.Option("--format", help="xlsx, csv, jsonl, parquet or duckdb; by default, the ending of the file."),
    ] = None,
) -> None:
    """Write a run's answers as a flat table with page, quote and file of each citation.

    A matrix is also written as a table with one row per document.
    """
    from okralong.pipelines.reporting.export import export_run

    console = Console()
    written, exported = export_run(Folder.of(run), to, format_)
    if exported.missing:
        say_line(console, exported.missing, style="yellow")
    if (matrix := exported.matrix) is not None:
        sizes = (len(matrix.documents), "document"), (len(matrix.columns), "column"), (len(matrix.cells), "cell")
        documents, columns, cells = (counted(*each) for each in sizes)
        counts = f"{documents} x {columns}, {cells}"
        say_line(console, f"matrix: {counts}")
        for note in matrix.notes:
            say_line(console, note, style="yellow")
        if matrix.tagged:
            found = Counter(each.result for each in matrix.tagged)
            said = ", ".join(f"{found[result]:,} {words}" for result, words in RESULTS.items() if found[result])
            say_line(console, f"tagged facts: {said}")
        if matrix.failures:
            failed = counted(len(matrix.failures), "check")
            say_line(console, f"{failed} failed; the cells are marked, and the table checks lists them", style="yellow")
    say_line(
        console,
        f"{counted(exported.answers.num_rows, 'answer')} with {counted(exported.citations.num_rows, 'citation')}",
    )
    for path in written:
        say_line(console, f"written: {path}")
