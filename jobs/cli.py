"""The command line: parse, call the job, turn errors into one paragraph and an exit code."""

from __future__ import annotations

import sys
import traceback

import typer
from rich.console import Console

from okralong.jobs import (
    answer,
    archive,
    compare,
    doctor,
    estimate,
    evaluate,
    evidence,
    index,
    report,
    sample,
    show,
    split,
    submit,
    train,
    train_data,
    train_sara,
    tune,
)
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import EXIT_BROKEN, OkraError

app = typer.Typer(
    name="okralong",
    help="Answer questions over archives of long documents, at the best accuracy per dollar.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("index")(index.command)
app.command("estimate")(estimate.command)
app.command("answer")(answer.command)
app.add_typer(archive.app, name="archive")
app.command("submit")(submit.command)
app.command("show")(show.command)
app.command("report")(report.command)
app.command("doctor")(doctor.command)
app.command("sample")(sample.command)
app.command("split")(split.command)
app.command("train-data")(train_data.command)
app.command("train")(train.command)
app.command("train-sara")(train_sara.command)
app.command("evidence")(evidence.command)
app.command("evaluate")(evaluate.command)
app.command("tune")(tune.command)
app.command("compare")(compare.command)


def main() -> None:
    """Run the command line. Exit codes: see ``pipelines/errors.py``."""
    console = Console(stderr=True)
    try:
        app()
    except OkraError as error:
        say_line(console, f"okralong: {error}", style="red")
        sys.exit(error.exit_code)
    except Exception as error:
        traceback.print_exc()
        say_line(console, f"okralong: {type(error).__name__}; this is a bug. What was finished is kept.", style="red")
        sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
