"""``okralong answer``: questions and an archive in, cited answers, a journal and a cost ledger out."""

from __future__ import annotations

import signal
from typing import Annotated, Any

import typer
from rich.console import Console

from okralong.pipelines.core.types import EXIT_OK, EXIT_STOPPED, GO_ON


def command(
    archive: Annotated[str, typer.Argument(help="An archive made by okralong index.")],
    questions: Annotated[str, typer.Option(help="Questions: a path or URI of jsonl, csv or parquet.")],
    run: Annotated[str, typer.Option(help="The run folder; the same command goes on where a run stopped.")],
    config: Annotated[str, typer.Option(help="A YAML config; see configs/answer.yaml.")] = "answer.yaml",
    strategy: Annotated[
        str | None, typer.Option(help="A name of docs/methods.md, a file (mine.py), or module:function.")
    ] = None,
    analyzer: Annotated[
        str | None, typer.Option(help="heads, label_scorer, rules, llm, or a folder that okralong train wrote.")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option(help="A hard cap in US dollars.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, written to every ledger row.")] = None,
    replies_from: Annotated[
        list[str] | None, typer.Option(help="Another run folder, whose replies to equal requests cost nothing.")
    ] = None,
    retry: Annotated[
        list[str] | None, typer.Option(help="Ask again what ended as: failed, unanswerable, over_budget.")
    ] = None,
    changed_since: Annotated[
        int | None, typer.Option(help="Ask only questions whose documents changed since this version of the archive.")
    ] = None,
    llm_mode: Annotated[
        str | None, typer.Option(help="realtime, or batch: at the endpoint's batch price, within a day.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="When a batch run asks the rest in real time: 06:00, 2026-11-23T06:00, 8h.")
    ] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Answer questions over an archive: analysed, planned, answered, cited and paid for."""
    from okralong.jobs.answer_run import answer_questions
    from okralong.jobs.summary import print_summary
    from okralong.jobs.tags import read_tags
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.answering.analyzer import analyzer_keys
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.core.types import ConfigError
    from okralong.pipelines.run.config import RunConfig

    given: dict[str, Any] = {"strategy": strategy, "budget_usd": budget_usd}
    given |= analyzer_keys(analyzer) if analyzer else {}
    given |= {"replies_from": replies_from or None, "llm.mode": llm_mode, "llm.batch.deadline": deadline}
    settings = load_config(RunConfig, config, {key: value for key, value in given.items() if value is not None})
    if deadline is not None and llm_mode is None and settings.llm.mode != "batch":
        raise ConfigError(
            "--deadline says when a batch run asks the rest in real time, and this run asks all of it so. Add "
            "--llm-mode batch, or leave it out. Nothing was run."
        )
    settings = settings.model_copy(update={"tags": settings.tags | read_tags(tag or ())})
    console = Console()
    # How nightly jobs are stopped: what nohup and cron start in the background does not hear Ctrl-C's signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = answer_questions(
            archive,
            questions,
            run,
            settings,
            address=address,
            retry=frozenset(retry or ()),
            changed_since=changed_since,
            console=console,
        )
    except KeyboardInterrupt:
        say_line(console, f"Stopped. {GO_ON}")
        raise typer.Exit(EXIT_STOPPED) from None
    if not result.statuses and changed_since is not None:
        say_line(console, "Nothing was asked.")
        raise typer.Exit(result.exit_code)
    print_summary(console, Folder.of(run), result.stopped, result.golds)
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)
