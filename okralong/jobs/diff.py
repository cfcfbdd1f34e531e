"""``okralong diff``: compare the answers of two runs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_CHANGED
from okralong.pipelines.core.wording import shortened

if TYPE_CHECKING:
    from okralong.pipelines.reporting.diff import RunDiff

SHOWN: Final = 20
"""Maximum number of changed questions to print."""
ANSWER_CHARS: Final = 100
"""Maximum length of a printed answer."""


def diff(
    before: Annotated[str, typer.Argument(metavar="RUN_A", help="A run folder, or the folder current of a nightly.")],
    after: Annotated[str, typer.Argument(metavar="RUN_B", help="A later run of the same questions.")],
    to: Annotated[
        list[str] | None,
        typer.Option(help="Write the differences to .xlsx, .csv, .jsonl, .parquet, .duckdb or .html; may be repeated."),
    ] = None,
) -> None:
    """Compare two runs: changed, new and lost answers, and answers whose evidence moved."""
    console = Console()
    found, written = diff_folders(before, after, to or ())
    print_diff(console, found)
    for path in written:
        say_line(console, f"written: {path}")
    if found.matters:
        raise typer.Exit(EXIT_CHANGED)


def diff_folders(before: str, after: str, to: list[str] | tuple[str, ...] = ()) -> tuple[RunDiff, list[str]]:
    """Compare two runs, write the differences to ``to``, and return them with the paths.

    Raises:
        InputError: A folder is not a run, or a format is unknown. No file is written then.
    """
    from okralong.pipelines.reporting.causes import Replayed
    from okralong.pipelines.reporting.diff import diff_page, diff_runs
    from okralong.pipelines.reporting.export import Exported, format_of, write_tables

    kinds = {each: None if _is_page(each) else format_of(each) for each in to}
    runs = [Folder.of(each) for each in (before, after)]
    first, second = map(Exported.of, runs)
    found = diff_runs(first, second, (Replayed(runs[0]), Replayed(runs[1])))
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
    """Print the counts and the first significant changes."""
    from okralong.pipelines.reporting.causes import CAUSES

    for line in found.lines():
        say_line(console, line)
    rows = [row for row in found.table.slice(0, SHOWN).to_pylist() if row["matters"]]
    for row in rows:
        say_line(console, f"{row['change']}  {row['query_id']}  {_short(row['question'])}")
        before, after = (_said(row, when) for when in ("before", "after"))
        say_line(console, f"    {before} -> {after}" if row["before_status"] else f"    {after}")
        if row["cause"] != "question":
            say_line(console, f"    cause: {CAUSES[row['cause']]} ({_short(row['because'])})")
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
    return shortened(words, ANSWER_CHARS)
