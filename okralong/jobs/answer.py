"""The answer job: check everything, open the run on a host, answer the questions, write the manifest last."""

from __future__ import annotations

import asyncio
import json
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, get_args

from rich.console import Console

from okralong.actors.host import DoesNotFit, Host, RunStart, host_for
from okralong.actors.ray_planners import BatchSetup
from okralong.jobs.drive import Finished, Work, drive
from okralong.jobs.interrupt import Interrupt
from okralong.jobs.options import Retriable
from okralong.jobs.run_folder import RunResult, archive_of_run, begin, judged_otherwise, manifest, statuses
from okralong.jobs.terminal import AnswerPanel, say_first, say_line
from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.core.telemetry import Phases, started
from okralong.pipelines.core.types import (
    EXIT_BROKEN,
    EXIT_ENDPOINT,
    EXIT_FAILURES,
    EXIT_OK,
    EXIT_OVER_BUDGET,
    ConfigError,
    OkraError,
)
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.batch_tracker import ResumeState
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.llm.config import LlmConfig, read_deadline
from okralong.pipelines.reporting.cited import archive_of
from okralong.pipelines.reporting.export import flat_answers, flat_row
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.matrix import MatrixRows
from okralong.pipelines.run.prepare import Prepared, prepare, since_version
from okralong.pipelines.run.question_sources import Questions
from okralong.pipelines.run.rows import BEGUN, artifacts_taken, table

RETRIABLE: Final[tuple[str, ...]] = get_args(Retriable)
"""Statuses that ``retry`` may name."""


@dataclass(frozen=True)
class Starting:
    """Settings of one start of a run.

    Attributes:
        address: A Ray cluster to use.
        retry: Statuses of questions to answer again.
        console: Receives progress and messages.
        whole: False to answer only a part of the run and write no manifest.
        finished: Called with each answers row once it is written.
        interrupt: Stops the run.
    """

    address: str | None = None
    retry: frozenset[str] = frozenset()
    console: Console = field(default_factory=Console)
    whole: bool = True
    finished: Finished | None = None
    interrupt: Interrupt | None = None


def answer_questions(
    archive: str,
    questions: Questions,
    run: str,
    config: RunConfig,
    starting: Starting | None = None,
    host: Host | None = None,
    *,
    changed_since: int | None = None,
    matrix: MatrixRows | None = None,
) -> RunResult:
    """Answer every question that has no answer in ``run`` yet, and those whose status ``starting.retry`` names.

    Questions that are over_budget always continue.

    Args:
        archive: The archive, perhaps with a version.
        questions: The questions.
        run: The run folder.
        config: The run's config.
        starting: Settings of this start.
        host: A warm host to use.
        changed_since: A version of the archive; only questions whose documents changed since then are asked.
        matrix: Ask each question of every document separately, or of those that this names.

    Raises:
        OkraError: Something cannot be used; nothing has been spent.
        DoesNotFit: The warm host cannot carry the run.
    """
    starting = starting or Starting()
    console, unknown = starting.console, sorted(starting.retry - set(RETRIABLE))
    if unknown:
        raise ConfigError(f"--retry takes {', '.join(RETRIABLE)}, not {', '.join(unknown)}. Correct the option.")
    prepared = prepare(archive_of_run(Folder.of(run), archive), questions, config, matrix)
    say_of_questions(console, prepared)
    if changed_since is not None:
        whole = len(prepared.questions) + len(prepared.unscoped)
        prepared, diff = since_version(prepared, changed_since)
        left = len(prepared.questions) + len(prepared.unscoped)
        counts = f"{len(diff.added)} added, {len(diff.changed)} changed, {len(diff.removed)} removed"
        affected = f"{left:,} of {counted(whole, 'question')} {agreeing(left, 'depends')} on these"
        say_line(console, f"since version {changed_since}: {counts}; {affected}")
        if not left:
            return RunResult(run, {}, EXIT_FAILURES if prepared.bad else EXIT_OK)
    return answer_prepared(prepared, run, starting, host)


def answer_prepared(
    prepared: Prepared, run: str, starting: Starting | None = None, host: Host | None = None
) -> RunResult:
    """Answer the questions of a prepared run, on ``host`` or on the one that fits it.

    Raises as ``answer_questions`` does.
    """
    starting = starting or Starting()
    console, started_at, folder = starting.console, time.monotonic(), Folder.of(run)
    where = folder.path if folder.is_local else run
    with folder.locked("okralong answer"):
        start, work, done = _take_up(folder, where, prepared, starting)
        complete = folder.read_manifest() is not None
        if not work.questions and not work.unscoped and (complete or not starting.whole):
            return _result(where, prepared)
        start = replace(start, batches=batch_setup(folder, prepared.config.llm, complete))
        if host is None:
            host = host_for(prepared, start.questions, starting.address, batches=start.batches is not None)
        panel = AnswerPanel(console, start.questions)
        about = {"okralong.questions": start.questions, "okralong.strategy": prepared.config.strategy}
        with started(prepared.config.telemetry, where, "okralong answer", about, (DoesNotFit,)) as telemetry:
            panel.traced = None if telemetry is None else Phases(telemetry)
            opening = host.open(replace(start, telemetry=telemetry), panel)
            folder.remove(MANIFEST)  # its presence means complete, which this run no longer is
            _describe(console, prepared, start.questions, done)
            if note := judged_otherwise(folder, prepared):
                panel.note(note)
            with panel, opening as opened:
                stop, totals = drive(opened, work, panel, console, starting.interrupt, starting.finished)
        if stop is not None:
            return _result(where, prepared, stop.message, stop.exit_code)
        if starting.whole:
            totals |= bill_sums(folder)
            folder.write_manifest(manifest(prepared, opened.facts, time.monotonic() - started_at, totals))
        return _result(where, prepared)


def _take_up(folder: Folder, where: str, prepared: Prepared, starting: Starting) -> tuple[RunStart, Work, int]:
    """Mark the folder as this run's; return the work left and the number of questions already answered."""
    begin(folder, prepared)
    before = statuses(folder, prepared)
    # over_budget never ends a question: the same command with a higher cap continues.
    done = {query_id for query_id, status in before.items() if status not in starting.retry | {"over_budget"}}
    todo = [scoped for scoped in prepared.questions if scoped.question.query_id not in done]
    unscoped = [(question, why) for question, why in prepared.unscoped if question.query_id not in done]
    start = RunStart(
        prepared,
        where,
        len(todo),
        reopened=frozenset(before) & {scoped.question.query_id for scoped in todo},
        # A retried question needs a new reply; the one that failed it may be shared by other runs.
        replies_from=() if starting.retry - {"over_budget"} else prepared.replies_from,
    )
    work = Work(todo, unscoped, prepared.bad, prepared.config.in_flight, prepared.strategy.name)
    return start, work, len(done)


def bill_sums(folder: Folder) -> dict[str, Any]:
    """Return the sums of the run's ledger that the manifest has in addition to the totals."""
    billed = bill(table(folder, "ledger", COLUMNS))
    taken, _ = artifacts_taken(folder)
    return {
        "alone_usd": billed.alone_usd,
        "shared_replies": billed.shared,
        "batch_usd": billed.batch_usd,
        "batch_calls": billed.batch_calls,
        "artifacts_taken": len(taken),
        "artifacts_taken_usd": math.fsum(each.expense.cost_usd for each in taken),
    }


def _describe(console: Console, prepared: Prepared, todo: int, done: int) -> None:
    config = prepared.config
    columns = f", cells of {counted(len(prepared.columns), 'column')} among them" if prepared.columns else ""
    console.print(
        f"{counted(todo, 'question')} to answer ({done:,} answered before, "
        f"{counted(len(prepared.unusable), 'unusable row')}{columns}) over "
        f"{counted(prepared.manifest['documents'], 'document')} (version {prepared.archive.version} of the archive)\n"
        f"strategy {config.strategy}, policy {prepared.policy.name}, analyzer {config.analyzer.kind}, generator "
        f"{', '.join(f'{one.model} at {one.base_url}' for one in config.llm.all_endpoints)}, budget "
        f"{'none' if config.budget_usd is None else f'${config.budget_usd}'}"
        f"{_mode(prepared)}{_second(prepared)}",
        highlight=False,
        markup=False,
    )


def say_of_questions(console: Console, prepared: Prepared) -> None:
    """Print how the questions were read, and the first unusable rows, each with the reason."""
    for note in prepared.notes:
        say_line(console, note)
    say_first(console, prepared.unusable, "row", "of the questions cannot be asked")


def _second(prepared: Prepared) -> str:
    """Return a line on how low-confidence answers are handled, or ""."""
    again, stronger = prepared.policy.escalate, prepared.llm.stronger
    if again is not None and prepared.strategy.needs.escalates:
        how = f"go to {stronger.model} at {stronger.base_url}" if stronger else "are asked for from the full text"
        return f"\nanswers with a confidence below {again.under:g} {how}"
    return ""


def _mode(prepared: Prepared) -> str:
    llm = prepared.config.llm
    if llm.mode != "batch":
        return ""
    deadline = llm.batch.deadline
    later = "without a deadline" if deadline is None else f"the rest in real time from {deadline} on"
    if prepared.prices.price(llm.model, llm.price).batch_discount:
        return f"\nin batches, {later}"
    return f"\nin batches, {later}; the price of {llm.model} has no batch_discount, so they count in full"


def _result(run: str, prepared: Prepared, stopped: str = "", code: int = EXIT_OK) -> RunResult:
    rows = list(table(Folder.of(run), "answers", ["status", "error"]))
    counts = Counter(str(row["status"]) for row in rows)
    if code == EXIT_OK and counts["over_budget"]:
        code = EXIT_OVER_BUDGET
        left = f"{counted(counts['over_budget'], 'question')} {agreeing(counts['over_budget'], 'is')} left over_budget"
        stopped = f"{left}. {next(row['error'] for row in rows if row['status'] == 'over_budget')}"
    elif code == EXIT_OK and (over := _over_cap(run, prepared.config.budget_usd)):
        code, stopped = EXIT_OVER_BUDGET, over
    elif code == EXIT_OK and (counts["failed"] or prepared.bad):
        code = EXIT_FAILURES
    golds = {each.question.query_id: each.question.answers for each in prepared.questions}
    return RunResult(run, dict(counts), code, stopped, golds)


def _over_cap(run: str, cap_usd: float | None) -> str:
    """Return the message that a run cost more than its cap, "" if it did not."""
    if cap_usd is None:
        return ""
    billed = bill(table(Folder.of(run), "ledger", COLUMNS))
    if billed.billed_usd + billed.unknown_usd <= cap_usd:
        return ""
    return (
        f"No question is left, but the cost passed budget_usd = {cap_usd}: ${billed.billed_usd:.6f} are spent, and "
        f"${billed.unknown_usd:.6f} more may have been billed. The dearest reply cost {billed.dearest:.1f} times the "
        "most that its prompt and limit allow."
    )


def batch_setup(folder: Folder, llm: LlmConfig, complete: bool, now: datetime | None = None) -> BatchSetup | None:
    """Return the settings of the batch scheduler, or None if this start of the run needs none.

    A run needs one in batch mode, and in real time to fetch or cancel the batches of an earlier start, so that no call
    is made twice. ``run.json`` keeps the time that a deadline first resolved to, so that "06:00" stays that morning
    when a killed run continues later. It is resolved again if the config's text changed or the run was ``complete``.
    """
    now = now or datetime.now(UTC)
    begun: dict[str, Any] = folder.read_json(BEGUN)
    if llm.mode != "batch":
        if not begun.get("batches") or not ResumeState.load(folder).open:
            return None
        return BatchSetup(begun["run_id"], now)
    said = llm.batch.deadline
    kept = begun.get("deadline") or {}
    if said is None:
        deadline = None
    elif kept.get("said") == said and not complete:
        deadline = kept
    else:
        deadline = {"said": said, "at": read_deadline(said, now).isoformat()}
    run_id = str(begun.get("run_id") or uuid.uuid4().hex)
    known: dict[str, Any] = {"batches": True, "deadline": deadline, "run_id": run_id}
    if begun | known != begun:
        folder.write_bytes(BEGUN, json.dumps(begun | known, indent=2, sort_keys=True).encode())
    return BatchSetup(run_id, None if deadline is None else datetime.fromisoformat(deadline["at"]))


def stream_answers(
    archive: str, questions: Questions, run: str, config: RunConfig, retry: frozenset[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Answer in a thread as ``answer_questions`` does, over the connected Ray, and yield rows of the run's flat table.

    Each answer is yielded when it is written; those from earlier starts come last. Leaving the loop stops the run.
    Raises as ``answer_questions`` does, and OkraError if the run had to stop.
    """
    answers: SimpleQueue[Mapping[str, Any] | None] = SimpleQueue()
    interrupt = Interrupt()
    starting = Starting(retry=retry, console=Console(quiet=True), finished=answers.put, interrupt=interrupt)

    def work() -> RunResult:
        try:
            return answer_questions(archive, questions, run, config, starting)
        finally:
            answers.put(None)

    folder, seen = Folder.of(run), set()
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(work)
        try:
            flat = None
            while (row := answers.get()) is not None:
                flat = flat or _flattener(folder)
                seen.add(row["query_id"])
                yield flat(row)
            result = running.result()
        finally:
            interrupt.fire()  # no-op if the run has ended
            with suppress(Exception, asyncio.CancelledError):
                running.result()
    for row in flat_answers(Folder.of(result.run)).to_pylist():
        if row["query_id"] not in seen:
            yield row
    if result.exit_code in (EXIT_ENDPOINT, EXIT_BROKEN):
        error = OkraError(result.stopped)
        error.exit_code = result.exit_code
        raise error


def _flattener(run: Folder) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    begun = run.read_json(BEGUN)
    archive, _ = archive_of(begun)
    return partial(flat_row, begun=begun, archive=archive)
