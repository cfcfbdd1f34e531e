"""The command line of okralong: parse the options, call the job, report errors as one paragraph and an exit code.

Commands of plug-ins, the laboratory's among them, are added by entry point (``plugins``). Commands import what they
need when they are called, which keeps ``okralong --help`` fast.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from okralong.jobs import (
    archive,
    corrections,
    diff,
    doctor,
    export,
    failures,
    index,
    model,
    repair,
    report,
    serve,
    session,
    show,
)
from okralong.jobs.options import Address, AskOptions, RowOptions, RunCommand, RunOptions, with_options
from okralong.jobs.plugins import CommandGroup
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.config import check_interpreter
from okralong.pipelines.core.stopping import run_stoppable, saying, stop_came
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    EXIT_OK,
    EXIT_STOPPED,
    OkraError,
)
from okralong.pipelines.core.wording import counted

Indexed = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
QUESTIONS_HELP = "A path or URI: csv, tsv, xlsx, jsonl, parquet, or yaml with columns; - reads stdin."
Grace = Annotated[float, typer.Option(min=0, help="Seconds to wait for calls in flight after Ctrl-C or SIGTERM.")]
RunFolder = Annotated[str, typer.Option("--run", help="The run folder; repeat the command to resume a stopped run.")]


def estimate(
    archive: Indexed,
    *,
    questions: Annotated[str, typer.Option(help=QUESTIONS_HELP)],
    pilot: Annotated[int, typer.Option(min=0, help="Number of questions to answer for real, into --run.")] = 0,
    run: Annotated[
        str | None,
        typer.Option(
            help="The folder of the planned run; its answers refine the estimate, and the pilot is kept there."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the pilot's draw and of the simulated runs.")] = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write all figures to this file.")] = None,
    options: AskOptions,
    address: Address = None,
) -> None:
    """Estimate the tokens and dollars of a run: real retrieval, analysis and plans, but no calls to the generator."""
    from okralong.jobs.estimate import Asking, estimate_questions, print_estimate
    from okralong.jobs.terminal import ray_lines
    from okralong.pipelines.core.codec import encode
    from okralong.pipelines.core.storage_errors import writing

    settings, console = options.settings(), Console()
    stopped = "Stopped. The pilot's answers are kept; run the same command again to resume."
    with saying(stopped), ray_lines(console, run):
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
    """Answer questions over an archive, with citations and a cost ledger."""
    given: dict[str, Any] = {"archive": archive, "questions": questions, "run": run, "grace": grace}
    _run(RunCommand(**given, changed_since=changed_since, options=options, run_options=run_options), address)


def matrix(
    archive: Indexed,
    *,
    questions: Annotated[
        str, typer.Option(help="The columns: a YAML file of columns or any questions file; a path or URI.")
    ],
    run: RunFolder,
    rows: RowOptions,
    options: AskOptions,
    address: Address = None,
    run_options: RunOptions,
    grace: Grace = 20.0,
) -> None:
    """Ask every question of each document: a table with one row per document and one column per question."""
    given: dict[str, Any] = {"archive": archive, "questions": questions, "run": run, "grace": grace}
    _run(RunCommand(**given, rows=rows, options=options, run_options=run_options), address)


def _run(command: RunCommand, address: str | None) -> None:
    """Run in the archive's warm session if one fits, else in this process. Raises typer.Exit unless the code is 0."""
    console = Console()
    code = None
    if address is None and command.questions != "-":  # neither a cluster nor standard input can be handed over
        code = session.hand_over(command.archive, command.model_dump(mode="json"), console)
    if code is None:
        from okralong.jobs.run_command import run_command

        code = run_command(command, console, address=address)
    if code != EXIT_OK:
        raise typer.Exit(code)


def up(
    archive: Indexed,
    *,
    idle: Annotated[float, typer.Option(min=0.01, help="Minutes without a run after which the session ends.")] = 30.0,
    options: AskOptions,
    address: Address = None,
) -> None:
    """Start a warm session: keep the models of an archive loaded, so that small runs start at once."""
    session.start(archive, options.model_dump(mode="json"), idle * 60, Console())


def down(
    archive: Annotated[str | None, typer.Argument(help="The archive of the session; all sessions if omitted.")] = None,
) -> None:
    """End the warm sessions that okralong up started."""
    session.end(archive, Console())


def nightly(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A YAML config, a path or URI; see configs/nightly.yaml.")
    ],
    test_notify: Annotated[
        bool, typer.Option("--test-notify", help="Send a test message to every target of notify, and run no night.")
    ] = False,
    address: Address = None,
) -> None:
    """Run a whole night: index changed documents, answer the affected questions, report the differences."""
    from okralong.jobs.nightly import notify_test, run_nightly

    console = Console()
    code = (
        notify_test(config, console=console) if test_notify else run_nightly(config, address=address, console=console)
    )
    if code != EXIT_OK:
        raise typer.Exit(code)


def submit(
    config: Annotated[Path, typer.Argument(help="A YAML file that describes the job; see configs/submit/answer.yaml.")],
    address: Annotated[str, typer.Option(help="The cluster's job server, for example http://HEAD:8265.")],
    follow: Annotated[bool, typer.Option(help="Show the job's log until it ends, and exit with its exit code.")] = True,
) -> None:
    """Submit a job to a Ray cluster. API keys stay in the environment of its nodes and are never sent."""
    from okralong.jobs.submission import Submission
    from okralong.jobs.submit import SubmittedJob, job_request, job_server
    from okralong.pipelines.core.config import load_config

    submission = load_config(Submission, config)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="okralong-submit-") as folder:
        request = job_request(submission, config.resolve().parent, Path(folder), dict(os.environ))
        client = job_server(address)
        job = SubmittedJob.start(client, address, request)
    say_line(console, f"Submitted {job.job_id} to {address}")
    if not follow:
        return
    with saying(f"{job.job_id} is still running. To stop it: ray job stop {job.job_id} --address {address}"):
        code = job.follow()
    if code != EXIT_OK:
        raise typer.Exit(code)


def sample(
    folder: Annotated[Path, typer.Argument(help="The folder to write the reports and questions.jsonl to.")],
    reports: Annotated[int, typer.Option(min=1, help="Number of annual reports.")] = 6,
    questions: Annotated[int, typer.Option(min=0, help="Number of questions.")] = 20,
    words: Annotated[int, typer.Option(min=1_500, help="Approximate number of words per report.")] = 18_000,
    seed: Annotated[int, typer.Option(help="The same seed writes the same bytes.")] = 7,
    language: Annotated[str, typer.Option(help="Language of reports and questions: en, de or zh.")] = "en",
) -> None:
    """Write a sample archive: fictional annual reports and questions of all types, with gold answers."""
    from okralong.pipelines.core.storage_errors import writing
    from okralong.pipelines.samples.blocks import words_in
    from okralong.pipelines.samples.questions import generate, write_sample

    sample = generate(reports=reports, questions=questions, seed=seed, words=words, language=language)
    with writing(folder):
        write_sample(sample, folder)
    total = sum(words_in(document.text) for document in sample.documents)
    Console().print(
        f"{folder}: {counted(len(sample.documents), 'report')} ({total:,} words), "
        f"{counted(len(sample.questions), 'question')} in {folder / 'questions.jsonl'}"
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
app.command("serve")(serve.serve)
app.command("mcp")(serve.mcp)
app.command("new-token")(serve.new_token)
app.add_typer(archive.archive_app, name="archive")
app.command("submit")(submit)
app.command("show")(show.command)
app.command("failures")(failures.failures)
app.command("repair")(repair.repair)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("diff")(diff.diff)
app.command("corrections")(corrections.corrections)
app.command("doctor")(doctor.command)
app.add_typer(model.model_app, name="model")
app.command("sample")(sample)


def main() -> None:
    """Run ``python -m okralong.jobs.cli``; unlike ``__main__.py``, signals are handled only once it is loaded."""
    run_stoppable(lambda: run_command)


def run_command() -> None:
    """Parse the command line, run the command and exit with a code of ``pipelines/core/types.py``."""
    console = Console(stderr=True)
    if not sys.warnoptions:  # they address developers
        warnings.filterwarnings("ignore", category=FutureWarning)
    try:
        check_interpreter()
        app()
    except OkraError as error:
        say_line(console, f"okralong: {error}", style="red")
        sys.exit(error.exit_code)
    except Exception as error:
        from okralong.pipelines.core.storage_errors import storage_failure

        if stop_came():  # Ctrl-C also stopped child processes, so errors are expected
            sys.exit(EXIT_STOPPED)
        if (failure := storage_failure(error)) is not None:
            say_line(console, f"okralong: {failure}", style="red")
            sys.exit(failure.exit_code)
        traceback.print_exc()
        say_line(console, f"okralong: {type(error).__name__}; this is a bug. Finished work is kept.", style="red")
        sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
