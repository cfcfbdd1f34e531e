"""``okralong repair``: go on with a run whose files the disk has damaged."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_FAILURES, ArchiveError, InputError
from okralong.pipelines.llm.journal import repair as repair_tables
from okralong.pipelines.run.rows import BEGUN, ORDER


def repair(run: Annotated[str, typer.Argument(help="The run folder.")]) -> None:
    """Put the damaged files of a run aside and say what is lost, so that the run can continue.

    Exits with 1 if something was lost.
    """
    folder, console = Folder.of(run), Console()
    if not folder.exists("journal"):
        raise InputError(
            f"{run} is not a run folder (it has no journal). Give the folder named by okralong answer --run."
        )
    lost = repair_tables(folder)
    for name in (ORDER, MANIFEST):
        if _is_damaged(folder, name):
            folder.filesystem.move(folder.at(name).path, folder.at(f"{name}.damaged").path)
            lost.append(f"{folder.at(name).path}, which the next start writes again")
    for each in lost:
        say_line(console, f"lost: {each}", style="yellow")
    if _is_damaged(folder, BEGUN):
        say_line(
            console,
            f"{folder.at(BEGUN).path} is damaged, and only a copy of it can replace it. Without one, begin a new run "
            f"folder with --replies-from {run}: equal requests are not paid for again.",
            style="red",
        )
        raise typer.Exit(EXIT_FAILURES)
    if not lost:
        say_line(console, f"{run}: nothing is damaged.")
        return
    say_line(
        console,
        "The damaged files are kept under their names with .damaged appended. Run the same command again: it repeats "
        "what is lost, and pays for lost replies a second time. A call of which only the intent is left is unknown in "
        "the ledger, with its full reserve; one that is lost as a whole is missing there.",
    )
    raise typer.Exit(EXIT_FAILURES)


def _is_damaged(folder: Folder, name: str) -> bool:
    try:
        return folder.exists(name) and folder.read_json(name) is None
    except ArchiveError:
        return True
