"""Commands over a finished run: failures, report, export, diff. Of a sweep the report, of an archive the failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from okralong.jobs.plugins import report_maker_for
from okralong.jobs.run_folder import BEGUN, table
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.schemas import FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED, EXIT_FAILURES, ArchiveError, ConfigError, InputError

if TYPE_CHECKING:
    from okralong.pipelines.reporting.diff import RunDiff
    from okralong.pipelines.reporting.page import Report

PAGE = "report.html"
SHOWN = 20
"""Questions of a difference that are printed."""
ANSWER_CHARS = 100
"""Characters of an answer that are printed of a difference."""


def failures(
    place: Annotated[str, typer.Argument(help="A run folder, or an archive (ARCHIVE@3: a version of it).")],
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object on each line, for programs.")] = False,
    to: Annotated[
        str | None, typer.Option(help="Write them to this file instead: xlsx, csv, jsonl, parquet or duckdb.")
    ] = None,
) -> None:
    """List what a run could not answer or an archive could not read, and why; exit code 1 when there is any."""
    console, rows = Console(), failure_rows(place)
    if to is not None:
        from okralong.pipelines.reporting.export import format_of, without_zones, write_tables

        table_of = without_zones(pa.Table.from_pylist(rows, schema=FAILURES).replace_schema_metadata())
        write_tables({"failures": table_of}, to, format_of(to))
    for row in rows if to is None else ():
        if as_json:
            say_line(console, json.dumps(row, ensure_ascii=False, default=lambda value: value.isoformat()))
        else:
            say_line(console, f"{row['id']}  ({row['stage']})  {row['message']}")
    if not as_json:
        where = "" if to is None else f", in {to}"
        say_line(console, f"{place}: {len(rows) or 'no'} failures{where}")
    if rows:
        raise typer.Exit(EXIT_FAILURES)


def failure_rows(place: str) -> list[dict[str, Any]]:
    """The rows of the ``failures`` table of a run, or of a version of an archive, in order of ``at`` and ``id``.

    Of a run those that still stand: a question that was asked again and answered has none. Raises InputError for a
    place that is neither.
    """
    run = Folder.of(place)
    if run.exists(BEGUN):
        ends = {row["query_id"]: row["status"] for row in table(run, "answers", ["query_id", "status"])}
        rows = [row for row in table(run, "failures") if ends.get(row["id"], "failed") == "failed"]
    else:
        from okralong.pipelines.archive.archive import Archive

        try:
            archive = Archive.open(place)
        except ArchiveError as error:
            raise InputError(
                f"{place} is neither a run (it has no {BEGUN}) nor an archive ({error}) Give the folder that okralong "
                "answer --run or okralong index wrote."
            ) from error
        rows = archive.folder.at("failures").read_table(archive.manifest["files"]["failures"]).to_pylist()
    return sorted(
        ({name: row[name] for name in FAILURES.names} for row in rows), key=lambda row: (row["at"], row["id"])
    )


def report(
    run_or_sweep: Annotated[str, typer.Argument(metavar="RUN_OR_SWEEP", help="The folder of a run or of a sweep.")],
    out: Annotated[str | None, typer.Option(help="The page, a path or URI; else report.html in that folder.")] = None,
    questions: Annotated[
        str | None, typer.Option(help="A run's questions file, for its gold answers, evidence and types.")
    ] = None,
    details: Annotated[
        int, typer.Option(min=0, help="Questions that can be opened; of the others the table has a line.")
    ] = 10_000,
    pictures: Annotated[
        float, typer.Option(min=0, metavar="MEGABYTES", help="Most that pictures of cited PDF pages may take; 0: none.")
    ] = 15.0,
    links: Annotated[
        bool, typer.Option(help="Sources as links that open the file, which tells readers where it lies.")
    ] = True,
) -> None:
    """Write one self-contained page with figures, pictures and every question's way to its sources."""
    console = Console()

    def note(line: str) -> None:
        say_line(console, line, style="yellow")

    written = write_report(
        run_or_sweep, out=out, questions=questions, details=details, megabytes=pictures, links=links, note=note
    )
    say_line(console, f"written: {written[0]}")
    say_line(console, f"and {len(written) - 1} tables and pictures in the folder of that name")


def write_report(
    location: str,
    *,
    out: str | None = None,
    questions: str | None = None,
    details: int = 10_000,
    megabytes: float | None = None,
    links: bool = True,
    note: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Write the report of the run or sweep at ``location``; the paths written, the page's first.

    ``megabytes`` bounds the pictures of cited PDF pages (None: the default), ``links`` lets a reader open the sources.
    Without matplotlib there are no pictures beside the page, which draws its charts by itself; ``note`` is told so.
    Raises InputError for a folder that is neither, or a name that is no page's, before anything is read.
    """
    from okralong.pipelines.reporting import page

    folder = Folder.of(location)
    place, name = (folder, PAGE) if out is None else _place(out)
    made = _report(location, folder, questions, details, megabytes, links)
    for line in made.drawn.notes:
        note(line)
    try:
        from okralong.pipelines.reporting.pictures import report_pictures

        pictures = report_pictures(made)
    except ConfigError as error:
        note(f"no pictures beside the page: {error}")
        pictures = {}
    return page.write_report(place, name, made, pictures)


def _place(out: str) -> tuple[Folder, str]:
    head, slash, name = out.rpartition("/")
    if PurePosixPath(name).suffix not in (".html", ".htm") or not PurePosixPath(name).stem:
        raise InputError(f"--out names the page, so it ends in .html, and {out} does not.")
    return Folder.of(head + slash if slash else "."), name


def _report(
    location: str, folder: Folder, questions: str | None, details: int, megabytes: float | None, links: bool
) -> Report:
    from okralong.pipelines.reporting.page_pictures import DEFAULT_MEGABYTES
    from okralong.pipelines.reporting.run import run_report
    from okralong.pipelines.run.questions import read_questions

    if folder.exists(BEGUN):
        asked = [] if questions is None else read_questions(questions, strict=False)[0]
        golds = {question.query_id: question for question in asked}
        bound = DEFAULT_MEGABYTES if megabytes is None else megabytes
        return run_report(folder, golds, details, megabytes=bound, links=links)

    maker = report_maker_for(folder)
    if maker is None:
        raise InputError(
            f"{location} is neither a run (it has no {BEGUN}) nor a sweep (it has no scores). Give the folder that "
            "okralong answer --run or okralong evaluate wrote."
        )
    if questions is not None:
        raise InputError("--questions is for a run: a sweep knows the gold answers of its sets. Leave it out.")
    return maker.make_report(folder, details)


def export(
    run: Annotated[str, typer.Argument(help="A run folder, or the current folder of okralong nightly.")],
    to: Annotated[str, typer.Option(help="The file, a path or URI: .xlsx, .csv, .jsonl, .parquet or .duckdb.")],
    format_: Annotated[
        str | None, typer.Option("--format", help="xlsx, csv, jsonl, parquet or duckdb; without it, by the ending.")
    ] = None,
) -> None:
    """Write a run's answers as one flat table, with page, words and file of what they cite; of a matrix, before it, a
    row a document."""
    from okralong.pipelines.reporting.export import export_run

    console = Console()
    written, exported = export_run(Folder.of(run), to, format_)
    if exported.missing:
        say_line(console, exported.missing, style="yellow")
    if (matrix := exported.matrix) is not None:
        counts = f"{len(matrix.documents):,} documents x {len(matrix.columns):,} columns, {len(matrix.cells):,} cells"
        say_line(console, f"a table of {counts}")
    say_line(console, f"{exported.answers.num_rows:,} answers with {exported.citations.num_rows:,} citations")
    for path in written:
        say_line(console, f"written: {path}")


def diff(
    before: Annotated[str, typer.Argument(metavar="RUN_A", help="A run folder, or a nightly's current.")],
    after: Annotated[str, typer.Argument(metavar="RUN_B", help="A later one, of the same questions.")],
    to: Annotated[
        list[str] | None,
        typer.Option(help="Write the differences: .xlsx, .csv, .jsonl, .parquet, .duckdb or a page .html; repeatable."),
    ] = None,
) -> None:
    """Say which questions are answered otherwise, newly, no more, or from other evidence."""
    console = Console()
    found, written = diff_folders(before, after, to or ())
    print_diff(console, found)
    for path in written:
        say_line(console, f"written: {path}")
    if found.matters:
        raise typer.Exit(EXIT_CHANGED)


def diff_folders(before: str, after: str, to: list[str] | tuple[str, ...] = ()) -> tuple[RunDiff, list[str]]:
    """Compare two runs and write the differences to each file of ``to``; the paths written.

    Raises InputError for a folder that is no run and a format that is not known, before anything is written.
    """
    from okralong.pipelines.reporting.diff import diff_page, diff_runs
    from okralong.pipelines.reporting.export import Exported, format_of, write_tables

    kinds = {each: None if _is_page(each) else format_of(each) for each in to}
    runs = [Folder.of(each) for each in (before, after)]
    first, second = map(Exported.of, runs)
    found = diff_runs(first, second)
    missing = [
        f"{folder.path}: {each.missing}" for folder, each in zip(runs, (first, second), strict=True) if each.missing
    ]
    written: list[str] = []
    for path, kind in kinds.items():
        if kind is not None:
            written += write_tables({"differences": found.table}, path, kind)
            continue
        names = ["/".join(PurePosixPath(folder.path).parts[-2:]) for folder in runs]
        head, slash, name = path.rpartition("/")
        folder = Folder.of(head + slash if slash else ".")
        folder.write_bytes(name, diff_page(found, f"{names[0]} to {names[1]}", missing))
        written.append(folder.at(name).path)
    return found, written


def _is_page(path: str) -> bool:
    return path.lower().endswith((".html", ".htm"))


def print_diff(console: Console, found: RunDiff) -> None:
    """The counts, and the first questions whose change matters."""
    for line in found.lines():
        say_line(console, line)
    rows = [row for row in found.table.slice(0, SHOWN).to_pylist() if row["matters"]]
    for row in rows:
        say_line(console, f"{row['change']}  {row['query_id']}  {_short(row['question'])}")
        before, after = (_said(row, when) for when in ("before", "after"))
        say_line(console, f"    {before} -> {after}" if row["before_status"] else f"    {after}")
    if (more := sum(found.table["matters"].to_pylist()) - len(rows)) > 0:
        say_line(console, f"... and {more:,} more")


def _said(row: dict[str, str | None], when: str) -> str:
    if row[f"{when}_status"] == "answered":
        words = _short(row[f"{when}_answer"] or "")
    else:
        words = f"({row[f'{when}_status']})"
        words += f" {_short(row['error'])}" if when == "after" and row["error"] else ""
    return f"{words} [{_short(row[f'{when}_source'] or '')}]" if row[f"{when}_source"] else words


def _short(words: str) -> str:
    return words if len(words) <= ANSWER_CHARS else f"{words[:ANSWER_CHARS]} ..."
