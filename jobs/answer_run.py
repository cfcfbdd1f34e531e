"""The answer job: check everything, start what is needed, carry the questions, write the manifest last."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from okralong.actors.cluster import connected, homes_to_come
from okralong.actors.planner import crew
from okralong.actors.retrieval import RetrievalNames
from okralong.jobs.drive import drive
from okralong.jobs.generator import Generator, generator
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.run_batches import desk_plan
from okralong.jobs.run_folder import archive_of_run, begin, manifest, statuses, table
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, EXIT_OVER_BUDGET, ConfigError
from okralong.pipelines.llm.prices import COLUMNS, bill
from okralong.pipelines.methods.registry import needs_logprobs, reads_vectors
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import Prepared, prepare, since_version

RETRIABLE: Final = ("failed", "unanswerable", "over_budget")
"""Ends of a question with which ``retry`` may ask again."""


@dataclass(frozen=True)
class RunResult:
    """What a run came to. ``exit_code`` is the command's; ``stopped`` says why it could not go on, else "". ``golds``
    are the gold answers that the questions file gives, by query_id.
    """

    run: str
    statuses: dict[str, int]
    exit_code: int
    stopped: str = ""
    golds: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Shared:
    """What runs beside each other have together: a generator that is served already, shards and models that run
    already, and one word that stops them all."""

    served: Generator
    looking: RetrievalNames
    interrupt: Interrupt


def answer_questions(
    archive: str,
    questions: str,
    run: str,
    config: RunConfig,
    *,
    address: str | None = None,
    retry: frozenset[str] = frozenset(),
    changed_since: int | None = None,
    console: Console | None = None,
) -> RunResult:
    """Answer every question that has no answer in ``run`` yet, and those that ended in a way that ``retry`` names.

    What is over_budget goes on whether it is named or not. With ``changed_since``, a version, only questions whose
    documents changed since then are asked. Raises OkraError before anything is spent.
    """
    console = console or Console()
    unknown = sorted(retry - set(RETRIABLE))
    if unknown:
        raise ConfigError(f"--retry takes {', '.join(RETRIABLE)}, not {', '.join(unknown)}. Mend the option.")
    prepared = prepare(archive_of_run(Folder.of(run), archive), questions, config)
    if changed_since is not None:
        whole = len(prepared.questions) + len(prepared.unscoped)
        prepared, diff = since_version(prepared, changed_since)
        left = len(prepared.questions) + len(prepared.unscoped)
        counts = f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.removed)} removed"
        say_line(console, f"since version {changed_since}: {counts}; {left} of {whole} questions rest on these")
        if not left:
            return RunResult(Folder.of(run).path, {}, EXIT_FAILURES if prepared.bad else EXIT_OK)
    return answer_prepared(prepared, run, address=address, retry=retry, console=console)


def answer_prepared(
    prepared: Prepared,
    run: str,
    *,
    address: str | None = None,
    retry: frozenset[str] = frozenset(),
    console: Console | None = None,
    whole: bool = True,
    shared: Shared | None = None,
) -> RunResult:
    """The same with everything checked. A part of a run that is not the ``whole`` leaves it without a manifest.

    With ``shared`` the process is connected to Ray already, and what is shared is used and left.
    """
    console = console or Console()
    started = time.monotonic()
    config = prepared.config
    folder = Folder.of(run)
    with folder.locked("okralong answer"):
        begin(folder, prepared)
        before = statuses(folder, prepared)
        # over_budget is never an end: the same command with a higher cap goes on.
        done = {query_id for query_id, status in before.items() if status not in retry | {"over_budget"}}
        todo = [scoped for scoped in prepared.questions if scoped.question.query_id not in done]
        unscoped = [(question, why) for question, why in prepared.unscoped if question.query_id not in done]
        complete = folder.read_manifest() is not None
        if not todo and not unscoped and (complete or not whole):
            return _result(folder, prepared)
        batches = desk_plan(folder, config.llm, complete)
        folder.remove(MANIFEST)  # its presence means complete, and this is not any more
        _describe(console, prepared, len(todo), len(done))
        logs = Path(folder.path) if folder.is_local else None
        reopened = frozenset(before) & {scoped.question.query_id for scoped in todo}
        # A question that is asked again wants another reply than the one that failed it, which other runs may have too.
        replies = () if retry - {"over_budget"} else prepared.replies_from
        where = folder.path if folder.is_local else run
        looking = shared.looking if shared else None
        with (
            nullcontext(shared.served) if shared else generator(config.llm, logs, reading_vectors(config)) as served,
            _with_logprobs(config, served),
            connected(address),
            _told(console, config),
            crew(prepared, where, served.llm, served.address, reopened, replies, batches, looking) as hands,
        ):
            for note in served.notes:
                say_line(console, note, style="yellow")
            stop, totals = drive(hands, todo, unscoped, prepared, console, shared.interrupt if shared else None)
        if stop is not None:
            return _result(folder, prepared, stop.message, stop.exit_code)
        if not whole:
            return _result(folder, prepared)
        billed = bill(table(folder, "ledger", COLUMNS))
        totals |= {"alone_usd": billed.alone_usd, "shared_replies": billed.shared}
        totals |= {"batch_usd": billed.batch_usd, "batch_calls": billed.batch_calls}
        folder.write_manifest(manifest(prepared, served.facts, time.monotonic() - started, totals))
        return _result(folder, prepared)


def reading_vectors(config: RunConfig) -> Path | None:
    """The compressor whose generator a run's strategy needs; None where any generator will do."""
    return config.sara.folder() if reads_vectors(config.strategy) else None


@contextmanager
def _with_logprobs(config: RunConfig, served: Generator) -> Iterator[None]:
    """Raises ConfigError when the strategy needs log-probabilities and the server that was started here has none."""
    if needs_logprobs(config.strategy) and served.facts.get("engine") == "transformers":
        raise ConfigError(
            f"The strategy {config.strategy!r} works with the log-probabilities of the reply's tokens, and the model "
            f"{config.llm.model} is served here by transformers, which gives none. Set llm.base_url to an endpoint "
            "that does, llm.model to a .gguf file, which llama.cpp serves here, or choose another strategy. Nothing "
            "was spent."
        )
    yield


@contextmanager
def _told(console: Console, config: RunConfig) -> Iterator[None]:
    """Say what the run will wait for, before it waits."""
    for note in homes_to_come(config.placement):
        say_line(console, note, style="yellow")
    yield


def _describe(console: Console, prepared: Prepared, todo: int, done: int) -> None:
    config = prepared.config
    console.print(
        f"{todo} questions to answer ({done} answered before, {len(prepared.bad)} unusable rows) over "
        f"{prepared.manifest['documents']} documents (version {prepared.archive.version} of the archive)\n"
        f"strategy {config.strategy}, policy {prepared.policy.name}, analyzer {config.analyzer.kind}, generator "
        f"{', '.join(f'{one.model} at {one.base_url}' for one in config.llm.all_endpoints)}, budget "
        f"{'none' if config.budget_usd is None else f'${config.budget_usd}'}"
        f"{_mode(prepared)}",
        highlight=False,
        markup=False,
    )


def _mode(prepared: Prepared) -> str:
    llm = prepared.config.llm
    if llm.mode != "batch":
        return ""
    deadline = llm.batch.deadline
    later = "without a deadline" if deadline is None else f"the rest in real time from {deadline} on"
    if prepared.prices.price(llm.model, llm.price).batch_discount:
        return f"\nin batches, {later}"
    return f"\nin batches, {later}; the price of {llm.model} knows no batch_discount, so they count in full"


def _result(folder: Folder, prepared: Prepared, stopped: str = "", code: int = EXIT_OK) -> RunResult:
    counts = Counter(str(row["status"]) for row in table(folder, "answers", ["status"]))
    if code == EXIT_OK and counts["over_budget"]:
        code = EXIT_OVER_BUDGET
        stopped = (
            f"The budget of ${prepared.config.budget_usd} is used up; {counts['over_budget']} questions are left "
            "over_budget. Raise budget_usd and run the same command: it goes on with those."
        )
    elif code == EXIT_OK and (counts["failed"] or prepared.bad):
        code = EXIT_FAILURES
    golds = {each.question.query_id: each.question.answers for each in prepared.questions}
    return RunResult(folder.path, dict(counts), code, stopped, golds)
