"""``okralong report``: one page of a run, of a nightly, or of a folder that a plug-in can report on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from okralong.jobs.plugins import report_maker_for
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.run.rows import BEGUN

if TYPE_CHECKING:
    from okralong.pipelines.reporting.page import Report

PAGE = "report.html"


def report(
    run_or_sweep: Annotated[
        str, typer.Argument(metavar="FOLDER", help="The folder of a run, of a sweep or of a nightly.")
    ],
    out: Annotated[
        str | None,
        typer.Option(help="Path or URI of the page; by default report.html in the folder, of a nightly history.html."),
    ] = None,
    questions: Annotated[
        str | None, typer.Option(help="The run's questions file, for its gold answers, evidence and types.")
    ] = None,
    details: Annotated[
        int,
        typer.Option(min=0, help="Maximum number of questions with details; the others only have a row in the table."),
    ] = 10_000,
    pictures: Annotated[
        float,
        typer.Option(min=0, metavar="MEGABYTES", help="Maximum size of the pictures of cited PDF pages; 0 for none."),
    ] = 15.0,
    links: Annotated[bool, typer.Option(help="Link to the source files, which shows readers their location.")] = True,
) -> None:
    """Write a self-contained page with figures, charts, and every question with its sources."""
    console = Console()

    def note(line: str) -> None:
        say_line(console, line, style="yellow")

    written = write_report(
        run_or_sweep, out=out, questions=questions, details=details, megabytes=pictures, links=links, note=note
    )
    say_line(console, f"written: {written[0]}")
    if more := len(written) - 1:
        say_line(console, f"and {counted(more, 'file')} of its tables and charts in the folder of the same name")


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
    """Write the report of a run or sweep, or a nightly's history, and return the paths written, the page first.

    ``megabytes`` is the maximum size of the pictures of cited PDF pages. ``links`` adds links to the source files.
    ``note`` is called with each message for the user. Without matplotlib no chart files are written; the page draws
    its charts in the browser.

    Raises:
        InputError: The folder is neither a run nor a sweep, or ``out`` is not the name of a page.
    """
    from okralong.pipelines.reporting import page
    from okralong.pipelines.run.nightly import CURRENT

    folder = Folder.of(location)
    if folder.exists(CURRENT) and not folder.exists(BEGUN):
        return [_write_history(location, folder, out, questions)]
    place, name = (folder, PAGE) if out is None else _place(out)
    made = _report(location, folder, questions, details, megabytes, links)
    for line in made.drawn.notes:
        note(line)
    try:
        from okralong.pipelines.reporting.pictures import report_pictures

        pictures = report_pictures(made)
    except ConfigError as error:
        note(f"no chart files are written: {error}")
        pictures = {}
    return page.write_report(place, name, made, pictures)


def _write_history(location: str, folder: Folder, out: str | None, questions: str | None) -> str:
    from okralong.pipelines.reporting.history import HISTORY, History, history_page

    if questions is not None:
        raise InputError("--questions is for a run; give the folder current of the nightly, or omit it.")
    place, name = (folder, HISTORY) if out is None else _place(out)
    base = "" if out is None else f"{location if '://' in location else Path(location).resolve().as_uri()}".rstrip("/")
    place.write_bytes(name, history_page(History.of(folder), f"{base}/" if base else ""))
    return place.at(name).path


def _place(out: str) -> tuple[Folder, str]:
    head, slash, name = out.rpartition("/")
    if PurePosixPath(name).suffix not in (".html", ".htm") or not PurePosixPath(name).stem:
        raise InputError(f"--out must be a file name that ends in .html, not {out}.")
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
            f"{location} is neither a run (it has no {BEGUN}), nor a sweep (it has no scores), nor a nightly. "
            "Give a folder written by okralong answer --run, okralong evaluate or okralong nightly."
        )
    if questions is not None:
        raise InputError("--questions is for a run; a sweep holds the gold answers of its sets. Omit it.")
    return maker.make_report(folder, details)
