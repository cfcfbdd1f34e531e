"""``okralong failures``: questions that a run could not answer, files that an archive could not read."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.schemas import FAILURES, READ_IN_PART
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_FAILURES, ArchiveError, InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.run.rows import BEGUN, table


def failures(
    place: Annotated[str, typer.Argument(help="A run folder, or an archive (ARCHIVE@3 for one version).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")] = False,
    to: Annotated[
        str | None, typer.Option(help="Write the list to this file instead: xlsx, csv, jsonl, parquet or duckdb.")
    ] = None,
) -> None:
    """List what a run could not answer or an archive could not read, and why.

    Exits with 1 if anything failed; documents that were read in part are warnings and listed as well.
    """
    console, rows = Console(), failure_rows(place)
    warnings = sum(row["error_type"] == READ_IN_PART for row in rows)
    failed = len(rows) - warnings
    if to is not None:
        from okralong.pipelines.reporting.export import format_of, without_zones, write_tables

        table_of = without_zones(pa.Table.from_pylist(rows, schema=FAILURES).replace_schema_metadata())
        write_tables({"failures": table_of}, to, format_of(to))
    for row in rows if to is None else ():
        if as_json:
            say_line(console, json.dumps(row, ensure_ascii=False, default=lambda value: value.isoformat()))
        else:
            kind = "read in part" if row["error_type"] == READ_IN_PART else row["stage"]
            say_line(console, f"{row['id']}  ({kind})  {row['message']}")
    if not as_json:
        where = "" if to is None else f", in {to}"
        partly = f", {warnings:,} read in part" if warnings else ""
        say_line(console, f"{place}: {counted(failed, 'failure') if failed else 'no failures'}{partly}{where}")
    if failed:
        raise typer.Exit(EXIT_FAILURES)


def failure_rows(place: str) -> list[dict[str, Any]]:
    """Return the failures of a run or of an archive version, sorted by ``at`` and ``id``; warnings come last.

    Failures of questions that were answered later are left out.

    Raises:
        InputError: ``place`` is neither a run nor an archive.
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
                f"{place} is neither a run (it has no {BEGUN}) nor an archive ({error}) Give a folder written "
                "by okralong answer --run or okralong index."
            ) from error
        rows = archive.failure_rows()
    return sorted(
        ({name: row[name] for name in FAILURES.names} for row in rows),
        key=lambda row: (row["error_type"] == READ_IN_PART, row["at"], row["id"]),
    )
