"""The command line of okralong: parse, call the job, turn errors into one paragraph and an exit code.

The product's commands stand here in the order in which they are used, and ``app`` and ``main`` at the end. What a
command needs is imported when it is called, so that ``okralong --help`` is quick.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from okralong.jobs import doctor, nightly, report, session, show
from okralong.jobs.lab import cli as lab
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    EXIT_FAILURES,
    EXIT_OK,
    EXIT_STOPPED,
    GO_ON,
    ConfigError,
    OkraError,
)

if TYPE_CHECKING:
    from okralong.jobs.answer import Interrupt, Session
    from okralong.pipelines.indexing.job import IndexResult
    from okralong.pipelines.run.config import RunConfig
    from okralong.pipelines.run.matrix import MatrixRows

FAILURES_SHOWN = 5
OCR_REMEDY = "pip install 'okralong[ocr]', and ocr: auto in the index config"


def index(
    archive: Annotated[str, typer.Argument(help="The archive: a folder, or a URI that pyarrow knows (s3://, gs://).")],
    sources: Annotated[list[str], typer.Option("--from", help="A folder, file or URI of documents; may be repeated.")],
    config: Annotated[str, typer.Option(help="A YAML config; see configs/index.yaml.")] = "index.yaml",
    metadata: Annotated[
        str | None,
        typer.Option(help="Columns of the documents, by doc_id or file: a csv, tsv, xlsx, jsonl or parquet file."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Files to leave out: '*.png', or 'drafts/*' below the folder; may be repeated."),
    ] = None,
    embed: Annotated[
        str | None, typer.Option(help="Which chunks get a vector, as embedding.of: smallest, each, or none.")
    ] = None,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Hash every file, also one of known size and time of change.")
    ] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Read documents, cut them into chunks, embed the chunks and build the search index."""
    from okralong.actors.cluster import connected, placement_notes
    from okralong.actors.index_streams import index_archive
    from okralong.jobs.terminal import IndexPanel, ray_lines
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.listing import check_local

    console = Console()
    check_local(sources)
    given = {"metadata": metadata, "exclude": exclude or None, "embedding.of": embed}
    settings = load_config(IndexConfig, config, {key: value for key, value in given.items() if value is not None})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ray_lines(console, archive), IndexPanel(console) as panel:
            panel.phase("Ray", "starts" if address is None else f"at {address}")
            with connected(address):
                for note in placement_notes(settings.placement):
                    say_line(console, note, style="yellow")
                panel.phase("files", "are listed and compared with what the archive holds")
                result = index_archive(archive, sources, settings, progress=panel.update, rehash=rehash)
    except KeyboardInterrupt:
        say_line(
            console,
            "Stopped. The archive is as it was. Files that were read and texts that were embedded are kept beside it; "
            "run the same command again to go on from there.",
        )
        raise typer.Exit(EXIT_STOPPED) from None
    _summary(console, result)
    if result.failures:
        raise typer.Exit(EXIT_FAILURES)


def _summary(console: Console, result: IndexResult) -> None:
    from okralong.pipelines.archive.archive import Archive

    chunks = ", ".join(f"{count:,} of {size} tokens" for size, count in result.chunks.items())
    lines = [f"{result.archive}, version {result.version}: {result.documents} documents, chunks: {chunks}"]
    if result.up_to_date:
        lines.append("up to date: neither the documents nor the config have changed, nothing was done")
    else:
        lines.append("documents: " + ", ".join(f"{count:,} {what}" for what, count in result.changes.items()))
        work = (f"{count:,} {what.replace('_', ' ')}" for what, count in result.work.items())
        lines.append("work: " + ", ".join(work))
        lines.append("seconds: " + ", ".join(f"{stage} {spent:.1f}" for stage, spent in result.seconds.items()))
    for size, count in result.over_limit.items():
        if count:
            lines.append(
                f"{count:,} chunks of {size} tokens are longer than the encoder sees; their tails have no vector"
            )
    opened = Archive.open(f"{result.archive}@{result.version}")
    if not opened.has_vectors:
        lines.append("no vectors: the archive is searched by BM25 alone (embedding.of: none)")
    ocr = opened.manifest.get("ocr") or {}
    if ocr.get("pages"):
        lines.append(f"by OCR: {ocr['pages']:,} pages of {ocr['documents']:,} documents")
    if ocr.get("pages_without_text"):
        lines.append(f"{ocr['pages_without_text']:,} pages have no text layer and were not read: {OCR_REMEDY}")
    if note := (opened.manifest.get("metadata") or {}).get("note"):
        lines.append(note)
    failed = opened.failures()
    lines += [f"not read: {message}" for message in failed[:FAILURES_SHOWN]]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - FAILURES_SHOWN} more; all of them: okralong failures {result.archive}")
    for line in lines:
        say_line(console, line)


@dataclass(frozen=True)
class AskOptions:
    """What every command that asks questions of an archive takes: config, strategy, generator, cap."""

    config: Annotated[str, typer.Option(help="A YAML config; see configs/answer.yaml.")] = "answer.yaml"
    strategy: Annotated[
        str | None, typer.Option(help="A name of docs/methods.md, a file (mine.py), or module:function.")
    ] = None
    analyzer: Annotated[
        str | None, typer.Option(help="heads, label_scorer, rules, llm, or a folder that okralong train wrote.")
    ] = None
    model: Annotated[str | None, typer.Option(help="The generator's name at its endpoint, as llm.model.")] = None
    base_url: Annotated[str | None, typer.Option(help="The generator's endpoint, as llm.base_url.")] = None
    window: Annotated[int | None, typer.Option(help="Tokens of prompt and reply together, as llm.window.")] = None
    budget_usd: Annotated[float | None, typer.Option(help="A hard cap in US dollars.")] = None
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, written to every ledger row.")] = None
    carry: Annotated[
        list[str] | None, typer.Option(help="A column of the questions that goes along into the answers.")
    ] = None
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None

    def settings(self, **more: Any) -> RunConfig:
        """The config of a run with what the command line says, ``more`` by key. Raises ConfigError."""
        from okralong.pipelines.answering.analyzers.analyzer import analyzer_keys
        from okralong.pipelines.core.config import load_config
        from okralong.pipelines.run.config import RunConfig

        given = more | {
            "strategy": self.strategy,
            "budget_usd": self.budget_usd,
            "carry": self.carry or None,
            "llm.model": self.model,
            "llm.base_url": self.base_url,
            "llm.window": self.window,
            **(analyzer_keys(self.analyzer) if self.analyzer else {}),
        }
        said = {key: value for key, value in given.items() if value is not None}
        settings = load_config(RunConfig, self.config, said)
        return settings.model_copy(update={"tags": settings.tags | read_tags(self.tag or ())})


@dataclass(frozen=True)
class RunOptions(AskOptions):
    """What ``answer`` and ``matrix`` take alike."""

    replies_from: Annotated[
        list[str] | None, typer.Option(help="Another run folder, whose replies to equal requests cost nothing.")
    ] = None
    retry: Annotated[
        list[str] | None,
        typer.Option(help="Ask again what ended as: failed, unanswerable, invalid_output, over_budget."),
    ] = None
    llm_mode: Annotated[
        str | None, typer.Option(help="realtime, or batch: at the endpoint's batch price, within a day.")
    ] = None
    deadline: Annotated[
        str | None, typer.Option(help="When a batch run asks the rest in real time: 06:00, 2026-11-23T06:00, 8h.")
    ] = None
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that calls in flight are waited for at Ctrl-C or SIGTERM.")
    ] = 20.0

    def settings(self, **more: Any) -> RunConfig:
        """See ``AskOptions``. Raises ConfigError also for a deadline that nothing waits for."""
        told = {
            "replies_from": self.replies_from or None,
            "llm.mode": self.llm_mode,
            "llm.batch.deadline": self.deadline,
        }
        settings = super().settings(**told, **more)
        if self.deadline is not None and self.llm_mode is None and settings.llm.mode != "batch":
            raise ConfigError(
                "--deadline applies to batch mode only, and this run is in real time. Add --llm-mode batch, or leave "
                "--deadline out. Nothing was run."
            )
        return settings


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer is to see it: in place of its parameter ``options``, a dataclass, the fields of that class
    as options of their own."""
    signature = inspect.signature(command, eval_str=True)
    kind = signature.parameters["options"].annotation
    options = inspect.signature(kind, eval_str=True).parameters

    @functools.wraps(command)
    def called(**given: Any) -> None:
        command(**given | {"options": kind(**{name: given.pop(name) for name in options})})

    own = [each for name, each in signature.parameters.items() if name != "options"]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *options.values())]
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


Indexed = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
QUESTIONS_HELP = "A path or URI: csv, tsv, xlsx, jsonl, parquet, or yaml with columns; - is stdin."
RunFolder = Annotated[str, typer.Option("--run", help="The run folder; the same command goes on where a run stopped.")]


def estimate(
    archive: Indexed,
    questions: Annotated[str, typer.Option(help=QUESTIONS_HELP)],
    options: AskOptions,
    pilot: Annotated[int, typer.Option(min=0, help="So many questions are answered for real, into --run.")] = 0,
    run: Annotated[
        str | None, typer.Option(help="The run to come: its answers, and the pilot's, are learned from and kept.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same pilot and the same simulated runs.")] = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file as well.")] = None,
) -> None:
    """Estimate tokens and dollars of a run: retrieval, analysis and plans are real, the generator is not asked."""
    from okralong.jobs.estimate import Asking, estimate_questions, print_estimate
    from okralong.pipelines.core.codec import encode

    settings, console = options.settings(), Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asking = Asking(pilot=pilot, run=run, seed=seed)
        result = estimate_questions(archive, questions, settings, asking, address=options.address, console=console)
    except KeyboardInterrupt:
        say_line(console, "Stopped. What the pilot has answered is kept; run the same command again to go on.")
        raise typer.Exit(EXIT_STOPPED) from None
    print_estimate(console, result)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(f"{json.dumps(json.loads(encode(result)), indent=1)}\n", encoding="utf-8")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def answer(
    archive: Indexed,
    questions: Annotated[str, typer.Option(help=QUESTIONS_HELP)],
    run: RunFolder,
    options: RunOptions,
    changed_since: Annotated[
        int | None, typer.Option(help="Ask only questions whose documents changed since this version of the archive.")
    ] = None,
) -> None:
    """Answer questions over an archive: analysed, planned, answered, cited and paid for."""
    _answer(archive, questions, run, options, changed_since=changed_since)


def matrix(
    archive: Indexed,
    questions: Annotated[
        str, typer.Option(help="The columns: a YAML file of them, or any questions file; a path or URI.")
    ],
    run: RunFolder,
    options: RunOptions,
    documents: Annotated[
        list[str] | None,
        typer.Option(help="The rows: an id or a pattern such as '*_10K'; may be repeated; none: as the columns say."),
    ] = None,
    where: Annotated[
        str, typer.Option(help="The rows, by a filter over the documents' columns: \"company = 'AMD'\".")
    ] = "",
) -> None:
    """Ask every question of each document by itself: a table with a row a document and a column a question."""
    from okralong.pipelines.run.matrix import MatrixRows

    _answer(archive, questions, run, options, matrix=MatrixRows(tuple(documents or ()), where))


def _answer(
    archive: str,
    questions: str,
    run: str,
    options: RunOptions,
    *,
    changed_since: int | None = None,
    matrix: MatrixRows | None = None,
) -> None:
    """Answer, in the archive's session where there is one that fits, and print what came of it. Raises Exit with
    another exit code than 0."""
    rows = None if matrix is None else {"documents": matrix.documents, "where": matrix.where}
    asked = {"archive": archive, "questions": questions, "run": run, "options": asdict(options)}
    command = asked | {"changed_since": changed_since, "matrix": rows}
    console = Console()
    # How nightly jobs are stopped: what nohup and cron start in the background ignores Ctrl-C's signal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Standard input and a named cluster cannot be handed to a session.
        there = options.address is None and questions != "-"
        code = session.hand_over(archive, command, console) if there else None
        if code is None:
            code = carry(command, console)
    except KeyboardInterrupt:
        say_line(console, f"Stopped. {GO_ON}")
        raise typer.Exit(EXIT_STOPPED) from None
    if code != EXIT_OK:
        raise typer.Exit(code)


def carry(
    command: Mapping[str, Any],
    console: Console,
    interrupt: Interrupt | None = None,
    warm: Session | None = None,
) -> int:
    """Carry an answer or matrix command, in this process or over Ray, and print what came of it; its exit code.
    ``warm`` is what a session keeps: only what it has is used, and DoesNotFit is raised where that is not enough."""
    from okralong.jobs.answer import Interrupt, answer_questions
    from okralong.jobs.show import print_summary
    from okralong.jobs.terminal import ray_lines
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.run.matrix import MatrixRows

    options, run, rows = RunOptions(**command["options"]), command["run"], command["matrix"]
    settings, interrupt = options.settings(), interrupt or Interrupt()
    interrupt.grace_s = options.grace
    with ray_lines(console, run) if warm is None else nullcontext():
        result = answer_questions(
            command["archive"],
            command["questions"],
            run,
            settings,
            address=options.address,
            retry=frozenset(options.retry or ()),
            changed_since=command["changed_since"],
            matrix=None if rows is None else MatrixRows(tuple(rows["documents"]), rows["where"]),
            console=console,
            interrupt=interrupt,
            session=warm,
        )
    if not result.statuses and command["changed_since"] is not None:
        say_line(console, "Nothing was asked.")
        return result.exit_code
    print_summary(console, Folder.of(run), result.stopped, result.golds)
    if rows is not None:
        say_line(console, f"the table: okralong export {run} --to table.xlsx")
    return result.exit_code


def up(
    archive: Indexed,
    options: AskOptions,
    idle: Annotated[float, typer.Option(min=0.01, help="Minutes without a run after which it ends.")] = 30.0,
) -> None:
    """Keep the models of an archive loaded: runs of few questions that follow begin at once."""
    session.start(archive, asdict(options), idle * 60, Console())


def down(
    archive: Annotated[str | None, typer.Argument(help="The archive of the session; none: all sessions.")] = None,
) -> None:
    """End what okralong up has started."""
    session.end(archive, Console())


def read_tags(given: Sequence[str]) -> dict[str, str]:
    """Values by name. Raises ConfigError for one that is not NAME=VALUE."""
    tags: dict[str, str] = {}
    for each in given:
        name, sign, value = (part.strip() for part in each.partition("="))
        if not (name and sign and value):
            raise ConfigError(f"--tag takes NAME=VALUE, such as --tag team=research, not {each!r}.")
        tags[name] = value
    return tags


archive_app = typer.Typer(help="The versions of an archive: log, diff, documents, vacuum, purge.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
IDS_SHOWN = 20


@archive_app.command("log")
def log(archive: Place) -> None:
    """List the versions that can be read, the newest first, then the documents that were purged, when and by whom."""
    from okralong.pipelines.archive.versions import read_version, version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing.maintenance import purges

    folder = Folder.of(archive)
    numbers = version_numbers(folder) or _none(archive)
    lines = []
    for number in reversed(numbers):
        manifest = read_version(folder, number)
        changes = manifest.get("changes") or {}
        counts = ", ".join(f"{changes[what]:,} {what}" for what in ("added", "changed", "removed") if changes.get(what))
        lines.append(
            f"version {number}  {manifest['written_at']}  {manifest['documents']:,} documents  {counts or 'no changes'}"
            f"  ({manifest['failures']:,} not read)"
            f"{'  no vectors' if manifest['embedding'].get('of') == 'none' else ''}"
        )
    told = purges(folder)
    lines += [
        f"purged {each['at']} by {each['by']}: {each['doc_id']}, out of versions "
        f"{', '.join(map(str, each['rewritten'])) or 'none'}; version {each['version']} followed"
        for each in reversed(told)
    ]
    before = set(read_version(folder, numbers[-1]).get("purged") or ()) - {each["doc_id"] for each in told}
    if before:
        lines.append(f"purged before there was a log of it: {', '.join(sorted(before))}")
    _say(*lines)


@archive_app.command("diff")
def diff(
    archive: Place,
    old: Annotated[int, typer.Argument(help="A version.")],
    new: Annotated[int | None, typer.Argument(help="A later one; without it, the latest.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Name all documents, not the first ones.")] = False,
) -> None:
    """Name the documents that were added (+), changed (~) and removed (-) between two versions."""
    from okralong.pipelines.archive.versions import diff_versions, read_version, version_numbers
    from okralong.pipelines.core.storage import Folder

    folder = Folder.of(archive)
    numbers = version_numbers(folder) or _none(archive)
    before, after = read_version(folder, old), read_version(folder, numbers[-1] if new is None else new)
    found = diff_versions(folder, before, after)
    lines = [
        f"version {before['version']} to {after['version']}: {len(found.added):,} added, "
        f"{len(found.changed):,} changed, {len(found.removed):,} removed"
    ]
    for mark, doc_ids in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        shown = doc_ids if full else doc_ids[:IDS_SHOWN]
        lines += [f"{mark} {doc_id}" for doc_id in shown]
        if len(shown) < len(doc_ids):
            lines.append(f"{mark} ... and {len(doc_ids) - len(shown):,} more (--full)")
    _say(*lines)


@archive_app.command("documents")
def documents(
    archive: Annotated[str, typer.Argument(help="An archive, or a version of it: archive@3.")],
    to: Annotated[
        str | None, typer.Option(help="Write them to this file: .xlsx, .csv, .jsonl, .parquet or .duckdb.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="With the text of each document.")] = False,
) -> None:
    """List what a version holds: a row for each document, with its metadata."""
    from okralong.pipelines.archive.archive import Archive
    from okralong.pipelines.reporting.export import format_of, write_tables

    kind = format_of(to) if to is not None else None
    opened = Archive.open(archive)
    table = opened.contents(text=text)
    if to is not None and kind is not None:
        (path,) = write_tables({"documents": table}, to, kind)
        _say(f"{path}: {table.num_rows:,} documents of version {opened.version}")
        return
    for row in table.to_pylist():
        pages = f"  {row['pages']} pages" if row.get("pages") else ""
        day, title = (f"  {row[name]}" if row.get(name) else "" for name in ("date", "title"))
        _say(f"{row['doc_id']}  {row['tokens']:,} tokens{pages}{day}{title}")
        if text:
            _say(row["text"])
    _say(f"version {opened.version}: {table.num_rows:,} documents")


@archive_app.command("vacuum")
def vacuum(
    archive: Place,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions stay.")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and take nothing away.")] = False,
) -> None:
    """Take away old versions, what only they held, and what killed index jobs left behind."""
    from okralong.pipelines.archive.versions import version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing import maintenance as work

    folder = Folder.of(archive)
    if not version_numbers(folder):
        _none(archive)
    with folder.locked("okralong archive vacuum"):
        done = work.vacuum(folder, keep, dry_run=dry_run)
    _say(*_vacuumed(done, "would go" if dry_run else "gone"))


@archive_app.command("purge")
def purge(
    archive: Place,
    document: Annotated[str, typer.Argument(help="A doc_id.")],
    run: Annotated[
        list[str] | None, typer.Option(help="A run folder from which it is purged as well; may be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: for jobs, where nobody is at a terminal.")] = False,
) -> None:
    """Take a document out for good: out of every version of the archive, and out of the runs named.

    Says first what will go, and asks.
    """
    from okralong.pipelines.archive.versions import version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.core.types import InputError
    from okralong.pipelines.indexing import maintenance as work
    from okralong.pipelines.run.rows import BEGUN, purge_run, questions_on

    folder = Folder.of(archive)
    if not version_numbers(folder):
        _none(archive)
    runs = [Folder.of(each) for each in run or ()]
    for each in runs:
        if not each.exists(BEGUN):
            raise InputError(f"{each.path} is no run folder (it has no {BEGUN}). Correct --run; nothing was purged.")
    plan = work.plan_purge(folder, document)
    numbers = ", ".join(map(str, plan.versions))
    alone = f"; {', '.join(map(str, plan.alone))} held nothing else and will go" if plan.alone else ""
    _say(
        f"{document}: {plan.tokens:,} tokens, read from {', '.join(plan.origins) or 'no file that a version names'}",
        f"will be taken out of versions {numbers}{alone}; the other documents stay"
        if plan.versions
        else "was purged before; what that may have left will be taken away",
        *(f"{each.path}: {len(questions_on(each, document)):,} answers that rest on it will go" for each in runs),
    )
    if not yes:
        _ask(f"purge {document}")
    with folder.locked("okralong archive purge"):
        done = work.purge(folder, document)
    gone = done.vacuumed
    _say(
        f"{document} is purged: version {done.version} is the newest, and no version has it",
        f"gone: {gone.files:,} files, {gone.bytes / 1e6:,.1f} MB; what others need of them was written anew without it",
    )
    for each in runs:
        questions = purge_run(each, document)
        shown = ", ".join(questions[:IDS_SHOWN]) + (" ..." if len(questions) > IDS_SHOWN else "")
        _say(f"{each.path}: {len(questions)} questions rested on it{': ' if questions else ''}{shown}")
    _say("Not reached: the source files, other runs, backups, the model's logs, and what a provider of a model keeps.")


def _ask(what: str) -> None:
    """Go on only with a yes. Raises InputError where there is no terminal to ask at, or the answer is another."""
    from okralong.pipelines.core.types import InputError

    if not sys.stdin.isatty():
        raise InputError(
            f"{what[0].upper()}{what[1:]}: this cannot be undone, and there is no terminal to ask at. Nothing was "
            "done. Add --yes to do it without being asked."
        )
    if not typer.confirm(f"{what[0].upper()}{what[1:]}? This cannot be undone"):
        raise InputError("Nothing was done.")


def _vacuumed(done: Any, word: str) -> list[str]:
    kept, others = (", ".join(map(str, numbers)) or "none" for numbers in (done.kept, done.versions))
    return [
        f"versions kept: {kept}; {word}: {others}",
        f"{word}: {done.files:,} files, {done.bytes / 1e6:,.1f} MB",
    ]


def _none(archive: str) -> Any:
    from okralong.pipelines.core.types import ArchiveError

    raise ArchiveError(
        f"{archive} holds no archive with versions. Check the path, or run okralong index {archive} --from DIR."
    )


def _say(*lines: str) -> None:
    console = Console()
    for line in lines:
        say_line(console, line)


def submit(
    config: Annotated[Path, typer.Argument(help="A YAML that names the job; see configs/submit/answer.yaml.")],
    address: Annotated[str, typer.Option(help="The cluster's job server, such as http://HEAD:8265.")],
    follow: Annotated[bool, typer.Option(help="Show the job's log until it ends, and end with its exit code.")] = True,
) -> None:
    """Submit a job to a Ray cluster. Keys stay in the environment of its nodes and never travel with the job."""
    from okralong.jobs.submit import Submission, SubmittedJob, job_request, job_server
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
    try:
        code = job.follow()
    except KeyboardInterrupt:
        say_line(console, f"{job.job_id} goes on. To stop it: ray job stop {job.job_id} --address {address}")
        raise typer.Exit(EXIT_STOPPED) from None
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
    from okralong.pipelines.samples.questions import generate, write_sample

    sample = generate(reports=reports, questions=questions, seed=seed, words=words)
    write_sample(sample, folder)
    total = sum(len(document.text.split()) for document in sample.documents)
    Console().print(
        f"{folder}: {len(sample.documents)} reports ({total:,} words), {len(sample.questions)} questions "
        f"in {folder / 'questions.jsonl'}"
    )


app = typer.Typer(
    name="okralong",
    help="Answer questions over archives of long documents, at the best accuracy per dollar.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("index")(index)
app.command("estimate")(with_options(estimate))
app.command("answer")(with_options(answer))
app.command("matrix")(with_options(matrix))
app.command("up")(with_options(up))
app.command("down")(down)
app.command("nightly")(nightly.command)
app.add_typer(archive_app, name="archive")
app.command("submit")(submit)
app.command("show")(show.command)
app.command("failures")(report.failures)
app.command("report")(report.report)
app.command("export")(report.export)
app.command("diff")(report.diff)
app.command("doctor")(doctor.command)
app.command("sample")(sample)
app.command("split")(lab.split)
app.command("train-data")(lab.train_data)
app.command("train")(lab.train)
app.command("train-sara")(lab.train_sara)
app.command("evidence")(lab.evidence)
app.command("evaluate")(lab.evaluate)
app.command("tune")(lab.tune)
app.command("compare")(lab.compare)


def main() -> None:
    """The process of the command line. What loaded torch ends without taking its thousands of modules apart, which
    Python would spend seconds on: all that a command has to put away is put away by then."""
    try:
        run_command()
        code: str | int | None = EXIT_OK
    except SystemExit as ended:
        code = ended.code
    if "torch" not in sys.modules or isinstance(code, str):
        sys.exit(code)
    atexit._run_exitfuncs()
    with suppress(OSError):  # whoever read it has gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code or EXIT_OK)


def run_command() -> None:
    """Parse and run. Exit codes: see ``pipelines/core/types.py``."""
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
