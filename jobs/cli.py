"""The command line: parse, call the job, turn errors into one paragraph and an exit code."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from okralong.jobs import answer, doctor, index, sample, show
from okralong.pipelines.errors import OkraError

app = typer.Typer(
    name="okralong",
    help="Answer questions over archives of long documents, at the best accuracy per dollar.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("index")(index.command)
app.command("answer")(answer.command)
app.command("show")(show.command)
app.command("doctor")(doctor.command)
app.command("sample")(sample.command)


def main() -> None:
    """Run the command line. Exit codes: see ``pipelines/errors.py``."""
    try:
        app()
    except OkraError as error:
        Console(stderr=True, highlight=False).print(f"[red]okralong:[/red] {_escape(str(error))}", soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\nokralong: stopped. What was finished is kept; run the same command again to go on.", file=sys.stderr)
        sys.exit(130)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


if __name__ == "__main__":
    main()
