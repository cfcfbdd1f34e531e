"""Run one answer or matrix command, for the command line and for a warm session that took it over."""

from __future__ import annotations

from contextlib import nullcontext

from rich.console import Console

from okralong.actors.host import WarmHost
from okralong.jobs.answer import Starting, answer_questions
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.options import RunCommand
from okralong.jobs.show import print_summary
from okralong.jobs.terminal import ray_lines, say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.matrix import MatrixRows


def run_command(
    command: RunCommand,
    console: Console,
    interrupt: Interrupt | None = None,
    warm: WarmHost | None = None,
    *,
    address: str | None = None,
) -> int:
    """Run a command here or over Ray, print its summary and return its exit code.

    Raises DoesNotFit if ``warm`` is given and the run needs more than that session has loaded.
    """
    run, rows = command.run, command.rows
    settings, interrupt = command.options.settings(command.run_options), interrupt or Interrupt()
    interrupt.grace_s = command.grace
    with ray_lines(console, run) if warm is None else nullcontext():
        result = answer_questions(
            command.archive,
            command.questions,
            run,
            settings,
            Starting(address, frozenset(command.run_options.retry), console, interrupt=interrupt),
            warm,
            changed_since=command.changed_since,
            matrix=None if rows is None else MatrixRows(tuple(rows.documents), rows.where or ""),
        )
    if not result.statuses and command.changed_since is not None:
        say_line(console, "No question was asked.")
        return result.exit_code
    print_summary(console, Folder.of(run), result.stopped, result.golds)
    if rows is not None:
        say_line(console, f"Write the table to a file: okralong export {run} --to table.xlsx")
    return result.exit_code
