"""Printing what documents, models and files say, so that nothing in it acts on the terminal or on rich's markup."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from okralong.pipelines.answering.prompts import HIDDEN


def printable(text: object) -> str:
    """``text`` without control characters (escape sequences set titles, clear screens, write clipboards) and without
    characters that print nothing or turn the reading direction; tab and line feed stay."""
    return HIDDEN.sub(" ", str(text))


def say(console: Console, text: object, *, style: str = "", indent: int = 0) -> None:
    """Print words that are not ours, as they are: no markup, no emoji codes, no control characters."""
    console.print(Padding(Text(printable(text), style=style), (0, 0, 0, indent)))


def say_line(console: Console, text: object, *, style: str = "") -> None:
    """The same on one logical line that the terminal wraps, so that it can be copied and searched."""
    console.print(Text(printable(text), style=style), soft_wrap=True)


class _Bar:
    """A rich progress bar with one line of figures behind it; silent when the output is no terminal."""

    def __init__(self, console: Console, title: str, figures: str) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(figures),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._title = title

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class IndexBar(_Bar):
    """Documents, chunks and vectors of an index job."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, "index", "{task.fields[figures]}")
        self._task = self._progress.add_task("index", total=None, figures="")

    def update(self, progress: Any) -> None:
        """Show an ``IndexProgress``."""
        self._progress.update(
            self._task,
            description=progress.stage,
            completed=progress.embedded,
            total=progress.expected_chunks or None,
            figures=f"{progress.documents} documents, {progress.failures} failed, {progress.chunks:,} chunks",
        )


class EstimateBar(_Bar):
    """Questions that an estimate has looked at."""

    def __init__(self, console: Console, total: int) -> None:
        super().__init__(console, "estimate", "{task.fields[figures]}")
        self._task = self._progress.add_task("estimate", total=total, figures="nothing is spent")

    def advance(self) -> None:
        """One more."""
        self._progress.advance(self._task)


class AnswerBar(_Bar):
    """Questions, tokens, dollars and dollars to come of an answer run."""

    def __init__(self, console: Console, total: int) -> None:
        super().__init__(console, "answer", "{task.fields[figures]}")
        self._task = self._progress.add_task("questions", total=total, figures="")
        self._total = total

    def update(self, done: int, tokens: int, spent: float) -> None:
        """``done`` questions have cost ``tokens`` and ``spent`` dollars; what is left is extrapolated from that."""
        to_come = spent / done * (self._total - done) if done else 0.0
        self._progress.update(
            self._task, completed=done, figures=f"{tokens:,} tokens  ${spent:.4f}  (+ ${to_come:.4f} to come)"
        )
