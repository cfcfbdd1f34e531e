"""Printing of untrusted text, progress panels, and the redirection of Ray's messages to a file."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, RLock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from okralong.jobs.remaining import Countdown, Pace
from okralong.pipelines.answering.prompt_text import HIDDEN
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.telemetry import Phases
from okralong.pipelines.core.wording import counted

if TYPE_CHECKING:
    from okralong.pipelines.indexing.job import IndexProgress

FIRST_SHOWN: Final = 10  # project default
"""Number of messages to print of a long list."""
EVERY_S: Final = 30.0  # project default
"""Seconds between progress lines if the output is not a terminal."""


PLAIN_WIDTH: Final = 160  # project default
"""Width of a table in characters if the output is not a terminal."""


def widen_plain(console: Console, columns: int = PLAIN_WIDTH) -> None:
    """Set the width of a console that is not a terminal."""
    if not console.is_terminal:
        console.width = columns


def printable(text: object) -> str:
    """Replace control, invisible and bidirectional characters with blanks, except tab and line feed.

    Escape sequences could otherwise set titles, clear the screen or write the clipboard.
    """
    return HIDDEN.sub(" ", str(text))


def say(console: Console, text: object, *, style: str = "", indent: int = 0) -> None:
    """Print untrusted text literally, without markup, emoji codes or control characters."""
    console.print(Padding(Text(printable(text), style=style), (0, 0, 0, indent)))


def say_line(console: Console, text: object, *, style: str = "") -> None:
    """Print untrusted text as one logical line, which the terminal wraps, so that it can be copied and searched."""
    console.print(Text(printable(text), style=style), soft_wrap=True)


def say_first(console: Console, messages: list[str], noun: str, what: str) -> None:
    """Print the number of messages as "2 NOUNs WHAT", then the first ones, one per line. Prints nothing if empty."""
    if not messages:
        return
    say_line(console, f"{counted(len(messages), noun)} {what}:", style="yellow")
    for message in messages[:FIRST_SHOWN]:
        say_line(console, f"- {message}")
    if len(messages) > FIRST_SHOWN:
        say_line(console, f"- ... and {len(messages) - FIRST_SHOWN} more; list all of a run with okralong failures")


class Panel:
    """Progress of a command: its past phases and the current one.

    On a terminal each phase is one line, redrawn in place. Otherwise a line is written when a phase begins and ends,
    and every ``every_s`` seconds. Thread-safe.
    """

    def __init__(self, console: Console, title: str, every_s: float = EVERY_S) -> None:
        self._console, self._title, self._every_s = console, title, every_s
        self._live = console.is_terminal
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}", style="bold", markup=False, table_column=Column(no_wrap=True)),
            _Share(bar_width=8),
            TextColumn("{task.fields[figures]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
            console=console,
            expand=True,
            disable=not self._live,
        )
        self._phase = ""
        self._row: TaskID | None = None
        self._figures = self._kept = ""
        self._began = 0.0
        self._pace, self._work, self._countdown = Pace(), Pace(), Countdown()
        self._lock = RLock()
        self._over = Event()
        self.traced: Phases | None = None
        self._writer = Thread(target=self._write_now_and_then, name="okralong-panel", daemon=True)

    def __enter__(self) -> Self:
        self._progress.start()
        if not self._live:
            self._writer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._end(well=kind is None)
        self._progress.stop()
        if self.traced is not None:
            self.traced.end()

    def note(self, text: str) -> None:
        """Print a warning."""
        say_line(self._console, text, style="yellow")

    def phase(self, name: str, about: str = "") -> None:
        """Begin a phase unless it is the current one. ``about`` is shown until there is progress."""
        with self._lock:
            if name == self._phase:
                return
            self._end()
            if self.traced is not None:
                self.traced.begin(name)
            self._phase, self._figures, self._kept, self._began = name, about, "", time.monotonic()
            self._pace, self._work, self._countdown = Pace(), Pace(), Countdown()
            if self._live:
                self._row = self._progress.add_task(name, total=None, figures=about)
            else:
                self._write(f"{name}{f': {about}' if about else ''} ...")

    def show(
        self,
        done: int,
        total: int,
        noun: str,
        more: str = "",
        *,
        work: tuple[float, float] | None = None,
        left: float | None = None,
        timed: bool = True,
        rest: str = "to go",
    ) -> None:
        """Show the progress of the current phase, with a rate and the remaining time.

        Args:
            done: Number of finished things.
            total: Number of all things; 0 if unknown.
            noun: The thing in the singular, or "".
            more: Further text.
            work: The work that is done and all work, in a unit that takes equally long; by default the things.
            left: The remaining seconds, if the caller estimates them.
            timed: Whether to estimate them from the pace otherwise.
            rest: What follows the remaining time.
        """
        with self._lock:
            now = time.monotonic()
            self._pace.note(done, now)
            spent, whole = work or (done, total)
            self._work.note(spent, now)
            amount = f"{done:,} of {_number(total, noun)}" if total else _number(done, noun)
            rate = self._pace.rate(now)
            unfinished = not total or done < total
            pace, to_go = _rate(rate) if rate and unfinished else "", ""
            if done < total:
                seconds = self._work.seconds_left(whole, now) if left is None and timed else left
                shown = self._countdown.show(seconds, now)
                to_go = f"{shown} {rest}" if shown else ""
            kept = [(amount, more), (amount,)]
            self._figures = self._fitting([(amount, pace, to_go, more), (amount, to_go, more), (amount, to_go), *kept])
            self._kept = self._fitting(kept, besides=12)  # the duration
            if self._row is not None:
                self._progress.update(self._row, completed=spent, total=whole or None, figures=self._figures)

    def _fitting(self, choices: list[tuple[str, ...]], besides: int = 0) -> str:
        """Return the first choice that fits the line with ``besides`` more columns, or the last one."""
        # Spinner, bar and blanks take 14 columns.
        room = self._console.width - len(self._phase) - 14 - besides if self._live else math.inf
        lines = [", ".join(filter(None, parts)) for parts in choices]
        return next((line for line in lines if len(line) <= room), lines[-1])

    def _end(self, *, well: bool = True) -> None:
        with self._lock:
            if not self._phase:
                return
            took = _duration(time.monotonic() - self._began)
            said = ", ".join(each for each in (self._kept, took) if each)
            if self._row is not None:
                self._progress.update(self._row, figures=said)
                if well:
                    self._progress.update(self._row, total=1, completed=1)
                self._progress.stop_task(self._row)
                self._row = None
            else:
                self._write(f"{self._phase}: {said}")
            self._phase = ""

    def _write_now_and_then(self) -> None:
        while not self._over.wait(self._every_s):
            with self._lock:
                if self._phase:
                    so_far = _duration(time.monotonic() - self._began)
                    self._write(f"{self._phase}: {', '.join(each for each in (self._figures, so_far) if each)}")

    def _write(self, line: str) -> None:
        say_line(self._console, f"{self._title}: {line}")


class _Share(ProgressColumn):
    """A bar for a running phase with a known total; otherwise nothing."""

    def __init__(self, bar_width: int) -> None:
        super().__init__(Column(width=bar_width))
        self._bar = BarColumn(bar_width=bar_width)

    def render(self, task: Task) -> Any:
        """Render the bar."""
        return self._bar.render(task) if task.total is not None and not task.finished else Text("")


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds // 3600:.0f} h {seconds % 3600 / 60:.0f} min"


def seconds_by_stage(stages: Mapping[str, float], total: float) -> str:
    """Format a time and its stages so that the printed parts add up: "45.2 (read 7.4, embed 27.4, other 10.4)".

    If parts ran at the same time, their sum is larger than the total, and this is said instead.
    """
    tenths = {stage: round(10 * spent) for stage, spent in stages.items()}
    rest = round(10 * total) - sum(tenths.values())
    parts = ", ".join(f"{stage} {spent / 10:.1f}" for stage, spent in tenths.items())
    if rest > 0:
        parts += f"{', ' if parts else ''}other {rest / 10:.1f}"
    overlap = "; some ran at the same time" if rest < 0 else ""
    return f"{total:.1f} ({parts}{overlap})" if parts else f"{total:.1f}"


def _number(number: int, noun: str) -> str:
    return counted(number, noun) if noun else f"{number:,}"


def _rate(a_second: float) -> str:
    return f"{a_second:,.1f}/s" if a_second >= 1 else f"{a_second * 60:,.1f}/min"


class IndexPanel(Panel):
    """Progress of an index job."""

    def __init__(self, console: Console, every_s: float = EVERY_S) -> None:
        super().__init__(console, "index", every_s)
        self._searchable = 0

    def update(self, progress: IndexProgress) -> None:
        """Show the job's progress."""
        failed = f"{progress.failures:,} not read" if progress.failures else ""
        if progress.stage in ("read", "recognize") and progress.to_read:
            if progress.version and self._searchable != progress.version:
                self._searchable = progress.version
                waiting = counted(progress.to_read, "file")
                self.note(f"version {progress.version} can be searched; OCR reads pages of {waiting} for the next one")
            self.phase(progress.stage)
            chunks = counted(progress.chunks, "chunk") if progress.chunks else ""
            more = ", ".join(each for each in (progress.page, chunks, failed) if each)
            work = (progress.bytes_read, progress.bytes_to_read) if progress.bytes_to_read else None
            # How long embedding takes is known only once the texts are; a page takes OCR seconds, whatever its bytes.
            timed, rest = not progress.page, "for the other files"
            self.show(progress.read, progress.to_read, "file", more, work=work, timed=timed, rest=rest)
        elif progress.stage == "embed" and progress.expected_chunks:
            self.phase("embed", "loading the encoder")
            if progress.embedded:
                work = (progress.tokens_embedded, progress.tokens_to_embed) if progress.tokens_to_embed else None
                self.show(progress.embedded, progress.expected_chunks, "text", work=work)
        elif progress.stage not in ("read", "recognize", "embed", "done"):
            self.phase(progress.stage)


class AnswerPanel(Panel):
    """Progress of an answer run: questions, tokens, dollars, and an extrapolation of the remaining dollars."""

    def __init__(self, console: Console, total: int, every_s: float = EVERY_S) -> None:
        super().__init__(console, "answer", every_s)
        self._total = total

    def update(self, done: int, tokens: int, spent: float, left: float | None = None) -> None:
        """Show that ``done`` questions have cost ``tokens`` and ``spent`` dollars; ``left`` are seconds, if known."""
        self.phase("questions")
        to_come = spent / done * (self._total - done) if done else 0.0
        money = f"${spent:.4f}" + (f" + ${to_come:.4f} to come" if to_come else "")
        self.show(done, self._total, "", f"{money}, {counted(tokens, 'token')}", left=left, timed=False)


class EstimatePanel(Panel):
    """Progress of an estimate's dry run."""

    def __init__(self, console: Console, total: int) -> None:
        super().__init__(console, "estimate")
        self._total, self._done = total, 0
        self.phase("questions", "no calls are made")

    def advance(self) -> None:
        """Count one more question."""
        self._done += 1
        self.show(self._done, self._total, "question", "no calls are made")


RAY_LOG: Final = "ray.log"


@contextmanager
def ray_lines(console: Console, beside: str | None) -> Iterator[None]:
    """Redirect messages of Ray and other libraries from the terminal to a file, which is named at the end.

    The file is ``ray.log`` in ``beside`` if that is a local folder, else a temporary file; an empty one is removed.
    Libraries write to file descriptor 2 or to ``sys.stderr``, which both lead to the file; our own messages go to
    standard output.
    """
    from okralong.actors.cluster import messages_to

    descriptor, name = tempfile.mkstemp(prefix="okralong-ray-", suffix=".log")
    kept = Path(name)
    try:
        log = os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")
        with log, _standard_error_to(log.fileno()), messages_to(log):
            yield
    finally:
        if not kept.stat().st_size:
            kept.unlink()
        else:
            folder = Folder.of(beside) if beside else None
            if folder is not None and folder.is_local and Path(folder.path).is_dir():
                with suppress(OSError):  # the job itself reports a full disk
                    kept = Path(shutil.move(kept, Path(folder.path) / RAY_LOG))
            say_line(console, f"Messages of Ray and other libraries: {kept}", style="dim")


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    try:
        is_ours = sys.stderr.fileno() == 2
    except (AttributeError, OSError, ValueError):  # a notebook or a test, where Ray writes nothing
        yield
        return
    sys.stderr.flush()
    before = os.dup(2)
    other = None if is_ours else sys.stderr
    try:
        os.dup2(descriptor, 2)
        if other is not None:  # redirected to another file: libraries follow it
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding=other.encoding, errors=other.errors)
        yield
    finally:
        sys.stderr.flush()
        if other is not None:
            sys.stderr = other
        os.dup2(before, 2)
        os.close(before)
