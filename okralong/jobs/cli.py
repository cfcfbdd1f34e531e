"""The command line of okralong: parse, call the job, turn errors into one paragraph and an exit code.

The product's commands stand here in the order in which they are used, and ``app`` and ``main`` at the end; those of
plug-ins, the laboratory among them, come by entry point (``plugins``). What a command needs is imported when it is
called, so that ``okralong --help`` is quick.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from okralong.jobs import archive, diff, doctor, export, failures, index, report, session, show
from okralong.jobs.options import Address, AskOptions, RowOptions, RunCommand, RunOptions, with_options
from okralong.jobs.plugins import CommandGroup
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.stopping import run_stoppable, saying, stop_came
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    EXIT_OK,
    EXIT_STOPPED,
    OkraError,
)

if TYPE_CHECKING:
    from okralong.jobs.answer import Interrupt, Session

Indexed = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
QUESTIONS_HELP = "A path or URI: csv, tsv, xlsx, jsonl, parquet, or yaml with columns; - is stdin."
Grace = Annotated[float, typer.Option(min=0, help="Seconds that calls in flight are waited for at Ctrl-C or SIGTERM.")]
RunFolder = Annotated[str, typer.Option("--run", help="The run folder; the same command goes on where a run stopped.")]


def estimate(
    archive: Indexed,
    *,
    questions: Annotated[str, typer.Option(help=QUESTIONS_HELP)],
    pilot: Annotated[int, typer.Option(min=0, help="So many questions are answered for real, into --run.")] = 0,
    run: Annotated[
        str | None, typer.Option(help="The run to come: its answers, and the pilot's, are learned from and kept.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same pilot and the same simulated runs.")] = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file as well.")] = None,
    options: AskOptions,
    address: Address = None,
) -> None:
    """Estimate tokens and dollars of a run: retrieval, analysis and plans are real, the generator is not asked."""
    from okralong.jobs.estimate import Asking, estimate_questions, print_estimate
    from okralong.pipelines.core.codec import encode
    from okralong.pipelines.core.storage_errors import writing

    settings, console = options.settings(), Console()
    with saying("Stopped. What the pilot has answered is kept; run the same command again to go on."):
        asking = Asking(pilot=pilot, run=run, seed=seed)
        result = estimate_questions(archive, questions, settings, asking, address=address, console=console)
    print_estimate(console, result)
    if json_file is not None:
        with writing(json_file):
            json_file.parent.mkdir(parents=True, exist_ok=True)
            json_file.write_text(f"{json.dumps(json.loads(encode(result)), indent=1)}\n", encoding="utf-8")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def answer(
    archive: Indexed,
    *,
    questions: Annotated[str, typer.Option(help=QUESTIONS_HELP)],
    run: RunFolder,
    changed_since: Annotated[
        int | None, typer.Option(help="Ask only questions whose documents changed since this version of the archive.")
    ] = None,
    options: AskOptions,
    address: Address = None,
    run_options: RunOptions,
    grace: Grace = 20.0,
) -> None:
    """Answer questions over an archive: analysed, planned, answered, cited and paid for."""
    command = RunCommand(
        archive=archive,
        questions=questions,
        run=run,
        changed_since=changed_since,
        options=options,
        run_options=run_options,
        grace=grace,
    )
    _run(command, address)


def matrix(
    archive: Indexed,
    *,
    questions: Annotated[
        str, typer.Option(help="The columns: a YAML file of them, or any questions file; a path or URI.")
    ],
    run: RunFolder,
    rows: RowOptions,
    options: AskOptions,
    address: Address = None,
    run_options: RunOptions,
    grace: Grace = 20.0,
) -> None:
    """Ask every question of each document by itself: a table with a row a document and a column a question."""
    command = RunCommand(
        archive=archive,
        questions=questions,
        run=run,
        rows=rows,
        options=options,
        run_options=run_options,
        grace=grace,
    )
    _run(command, address)


def _run(command: RunCommand, address: str | None) -> None:
    """Run in the archive's warm session if there is one that fits, else here. Raises Exit with a code other than 0."""
    console = Console()
    code = None
    if address is None and command.questions != "-":  # neither a cluster nor standard input can be handed over
        code = session.hand_over(command.archive, command.model_dump(mode="json"), console)
    if code is None:
        code = carry(command, console, address=address)
    if code != EXIT_OK:
        raise typer.Exit(code)


def carry(
    command: RunCommand,
    console: Console,
    interrupt: Interrupt | None = None,
    warm: Session | None = None,
    *,
    address: str | None = None,
) -> int:
    """Run an answer or matrix command in this process or over Ray, print its summary and return its exit code.

    With ``warm``, only what that session has loaded is used, and DoesNotFit is raised where that is not enough.
    """
    from okralong.jobs.answer import Interrupt, answer_questions
    from okralong.jobs.show import print_summary
    from okralong.jobs.terminal import ray_lines
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.run.matrix import MatrixRows

    run, rows = command.run, command.rows
    settings, interrupt = command.options.settings(command.run_options), interrupt or Interrupt()
    interrupt.grace_s = command.grace
    with ray_lines(console, run) if warm is None else nullcontext():
        result = answer_questions(
            command.archive,
            command.questions,
            run,
            settings,
            address=address,
            retry=frozenset(command.run_options.retry),
            changed_since=command.changed_since,
            matrix=None if rows is None else MatrixRows(tuple(rows.documents), rows.where or ""),
            console=console,
            interrupt=interrupt,
            session=warm,
        )
    if not result.statuses and command.changed_since is not None:
        say_line(console, "Nothing was asked.")
        return result.exit_code
    print_summary(console, Folder.of(run), result.stopped, result.golds)
    if rows is not None:
        say_line(console, f"the table: okralong export {run} --to table.xlsx")
    return result.exit_code


def up(
    archive: Indexed,
    *,
    idle: Annotated[float, typer.Option(min=0.01, help="Minutes without a run after which it ends.")] = 30.0,
    options: AskOptions,
    address: Address = None,
) -> None:
    """Keep the models of an archive loaded: runs of few questions that follow begin at once."""
    session.start(archive, options.model_dump(mode="json"), idle * 60, Console())


def down(
    archive: Annotated[str | None, typer.Argument(help="The archive of the session; none: all sessions.")] = None,
) -> None:
    """End what okralong up has started."""
    session.end(archive, Console())


def nightly(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A YAML config, a path or URI; see configs/nightly.yaml.")
    ],
    address: Address = None,
) -> None:
    """Index what changed, answer what rests on it, and say what is another than the night before."""
    from okralong.jobs.nightly import run_nightly

    code = run_nightly(config, address=address, console=Console())
    if code != EXIT_OK:
        raise typer.Exit(code)


def submit(
    config: Annotated[Path, typer.Argument(help="A YAML that names the job; see configs/submit/answer.yaml.")],
    address: Annotated[str, typer.Option(help="The cluster's job server, such as http://HEAD:8265.")],
    follow: Annotated[bool, typer.Option(help="Show the job's log until it ends, and end with its exit code.")] = True,
) -> None:
    """Submit a job to a Ray cluster. Keys stay in the environment of its nodes and never travel with the job."""
    from okralong.jobs.submission import Submission
    from okralong.jobs.submit import SubmittedJob, job_request, job_server
    from okralong.pipelines.core.config import load_config

    submission = load_config(Submission, config)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="okralong-submit-") as folder:
        request = job_request(submission, config.resolve().parent, Path(folder), dict(os.environ))
        client = job_server(address)
        job = SubmittedJob.start(client, address, request)
    say_line(console, f"submitted {job.job_id} to {address}")
    if not follow:
        return
    with saying(f"{job.job_id} goes on. To stop it: ray job stop {job.job_id} --address {address}"):
        code = job.follow()
    if code != EXIT_OK:
        raise typer.Exit(code)


def sample(
    folder: Annotated[Path, typer.Argument(help="Where the reports and questions.jsonl go.")],
    reports: Annotated[int, typer.Option(min=1, help="How many annual reports.")] = 6,
    questions: Annotated[int, typer.Option(min=0, help="How many questions.")] = 20,
    words: Annotated[int, typer.Option(min=1_500, help="Words in a report, about.")] = 18_000,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 7,
) -> None:
    """Write a sample archive: fictional annual reports and questions of all types, with gold answers."""
    from okralong.pipelines.core.storage_errors import writing
    from okralong.pipelines.samples.questions import generate, write_sample

    sample = generate(reports=reports, questions=questions, seed=seed, words=words)
    with writing(folder):
        write_sample(sample, folder)
    total = sum(len(document.text.split()) for document in sample.documents)
    Console().print(
        f"{folder}: {len(sample.documents)} reports ({total:,} words), {len(sample.questions)} questions "
        f"in {folder / 'questions.jsonl'}"
    )


app = typer.Typer(
    name="okralong",
    cls=CommandGroup,
    help="Answer questions over archives of long documents, at the best accuracy per dollar.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("index")(with_options(index.index))
app.command("estimate")(with_options(estimate))
app.command("answer")(with_options(answer))
app.command("matrix")(with_options(matrix))
app.command("up")(with_options(up))
app.command("down")(down)
app.command("nightly")(nightly)
app.add_typer(archive.archive_app, name="archive")
app.command("submit")(submit)
app.command("show")(show.command)
app.command("failures")(failures.failures)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("diff")(diff.diff)
app.command("doctor")(doctor.command)
app.command("sample")(sample)


def main() -> None:
    """``python -m okralong.jobs.cli``, which hears signals only when this module is loaded; see ``__main__.py``."""
    run_stoppable(lambda: run_command)


def run_command() -> None:
    """Parse and run. Exit codes: see ``pipelines/core/types.py``."""
    console = Console(stderr=True)
    if not sys.warnoptions:  # libraries address their users' developers, not the reader of a terminal
        warnings.filterwarnings("ignore", category=FutureWarning)
    try:
        app()
    except OkraError as error:
        say_line(console, f"okralong: {error}", style="red")
        sys.exit(error.exit_code)
    except Exception as error:
        from okralong.pipelines.core.storage_errors import storage_failure

        if stop_came():  # Ctrl-C comes to all processes of a terminal: what they held is lost to this one
            sys.exit(EXIT_STOPPED)
        if (failure := storage_failure(error)) is not None:
            say_line(console, f"okralong: {failure}", style="red")
            sys.exit(failure.exit_code)
        traceback.print_exc()
        say_line(console, f"okralong: {type(error).__name__}; this is a bug. What was finished is kept.", style="red")
        sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
