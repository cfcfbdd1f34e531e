"""``okralong nightly``: index changed documents, answer the affected questions, report the differences.

A night consists of the phases of ``pipelines/run/nightly.py``. ``night.json`` records the finished ones, so the same
command resumes a night that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from okralong.actors.cluster import connected
from okralong.jobs.night import NightJob, NightStopped, worst
from okralong.jobs.nightly_files import Places
from okralong.jobs.notify import tell_stop, try_targets
from okralong.jobs.terminal import ray_lines, say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    EXIT_FAILURES,
    EXIT_OK,
    EXIT_STOPPED,
    CanariesFailed,
    ConfigError,
    InputError,
    LockedError,
    OkraError,
    OverBudget,
    StoppedError,
)
from okralong.pipelines.run.canaries import check_canaries
from okralong.pipelines.run.nightly import NIGHT, NIGHTS, next_night, nights
from okralong.pipelines.run.notify import Report, unknown_questions
from okralong.pipelines.run.questions import read_questions


def run_nightly(config: str | Path, *, address: str | None = None, console: Console | None = None) -> int:
    """Resume unfinished nights, run tonight's, and return the exit code.

    Raises:
        OkraError: Config, archive, questions or endpoint cannot be used.
        OverBudget: The estimate of a night exceeds its budget; no question was asked.
        LockedError: Another process runs a night.
    """
    places = Places.read(str(config))
    console = console or Console()
    with telling_of_stops(places, console):
        return _run_nights(places, address, console)


def notify_test(config: str | Path, *, console: Console | None = None) -> int:
    """Send a test message to every target of ``notify``, and return 0 if all accepted it, else 1.

    Raises ConfigError if the config cannot be used or has no rules.
    """
    places = Places.read(str(config))
    if not places.config.notify:
        raise ConfigError(f"{places.where} has no rules in notify. Add some; docs/nightly.md lists the conditions.")
    _check_rules(places)
    return EXIT_OK if try_targets(console or Console(), places.config.notify) else EXIT_FAILURES


def _check_rules(places: Places) -> None:
    """Raise ConfigError if a rule names questions that are not in the questions file; it reports its own errors."""
    if not places.config.notify:
        return
    try:
        asked, _ = read_questions(places.of(places.config.questions), places.answer.carry)
    except InputError:
        return
    if unknown := unknown_questions(places.config.notify, [each.query_id for each in asked]):
        raise ConfigError(f"{places.where} cannot be used: {'; '.join(unknown)}. Nothing was run.")


@contextmanager
def telling_of_stops(places: Places, console: Console) -> Iterator[None]:
    """Notify of a night that is over budget or fails. Being stopped by the user is no failure."""
    try:
        yield
    except (StoppedError, LockedError, CanariesFailed):  # the other night goes on; of canaries the night has told
        raise
    except OverBudget as error:
        _tell_stop(places, console, over_budget=str(error))
        raise
    except NightStopped as stop:
        if stop.exit_code != EXIT_STOPPED:
            _tell_stop(places, console, failed=stop.why)
        raise
    except Exception as error:
        _tell_stop(places, console, failed=str(error) if isinstance(error, OkraError) else f"{type(error).__name__}")
        raise


def _tell_stop(places: Places, console: Console, *, failed: str = "", over_budget: str = "") -> None:
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    tell_stop(console, places.config.notify, Report(day, failed=failed, over_budget=over_budget))


def _run_nights(places: Places, address: str | None, console: Console) -> int:
    """Resume unfinished nights and run tonight's, alone in the folder."""
    beside = places.of(places.config.folder)
    folder = Folder.of(beside)
    places.index, places.answer, places.second  # noqa: B018  - fail early: all are read before any work
    _check_rules(places)
    if places.config.canaries is not None:
        check_canaries(places.of(places.config.canaries.questions))
    with folder.locked("okralong nightly"), ray_lines(console, beside), connected(address):
        codes = []
        now = datetime.now(UTC)
        for night in nights(folder):
            if night.phase != "done" and night.spends:
                say_line(console, f"resuming the night {night.name} at the phase {night.phase}")
                codes.append(NightJob(places, folder, night, console).carry())
                if night.day == now.date():
                    return worst(codes)
            elif night.phase != "done":  # it has asked nothing, so it is replaced by a new night
                folder.at(NIGHTS, night.name).remove(NIGHT)
        read_questions(places.of(places.config.questions), places.answer.carry)  # an InputError before the index job
        night = next_night(nights(folder), now)
        codes.append(NightJob(places, folder, night, console).carry())
        return worst(codes)
