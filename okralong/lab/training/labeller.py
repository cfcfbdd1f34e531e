"""Have a language model label rows or explain their answers, within a budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from okralong.actors.generator import StartedGenerator, generator
from okralong.jobs.terminal import say_line
from okralong.lab.sweeps.paid_calls import paid_client
from okralong.lab.training.rows.labels import Labelled, explain_rows, is_unlabelled, label_rows
from okralong.lab.training.rows.tables import ReadingRow, TrainingRow
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.llm.snapshots import drift
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig

LABELS = "labels"
RATIONALES = "rationales"
"""The folders, next to the rows, with the journal and ledger of labels and of rationales."""

R = TypeVar("R")


class Labeller:
    """Labels rows, or explains their answers, with the generator of ``config`` and within its ``budget_usd``.

    Raises ConfigError for the embedded generator, which is too small for this.
    """

    def __init__(self, config: RunConfig, out: Path, console: Console) -> None:
        if config.llm.base_url == EMBEDDED:
            raise ConfigError(
                "The embedded model is too small to label rows. Give --llm an answer config whose llm.base_url and "
                "llm.model name a large model, and a budget_usd."
            )
        if config.llm.mode == "batch":
            raise ConfigError(
                "Labels need real time, but the answer config of --llm has llm.mode: batch. Give one with realtime."
            )
        self.model = config.llm.model
        self.over_budget = 0
        self._config = config
        self._out = out
        self._console = console

    def __call__(self, rows: list[TrainingRow]) -> list[TrainingRow]:
        """Return the rows, with those of the missing labels that could be obtained."""
        open_rows = sum(map(is_unlabelled, rows))
        if not open_rows:
            return rows
        llm = self._config.llm
        are = f"{counted(open_rows, 'row')} {agreeing(open_rows, 'is')}"
        say_line(self._console, f"  {are} labelled by {llm.model} at {llm.base_url}")
        return self._asked(partial(label_rows, rows), LABELS)

    def explain(self, rows: list[ReadingRow]) -> list[ReadingRow]:
        """Return InstructRAG's rows, made from those reader rows whose rationale could be obtained."""
        llm = self._config.llm
        answers = f"the answers of {counted(len(rows), 'row')}"
        say_line(self._console, f"  {answers} are explained by {llm.model} at {llm.base_url}")
        return self._asked(partial(explain_rows, rows), RATIONALES)

    def _asked(self, ask: Callable[[LlmClient, int], Awaitable[Labelled[R]]], place: str) -> list[R]:
        folder = self._out / place
        with generator(self._config.llm, self._out) as served:
            for note in served.notes:
                say_line(self._console, f"  {note}", style="yellow")
            found, totals = asyncio.run(_ask(ask, self._config, served, Folder.of(folder)))
        self.over_budget += found.counts.get("over_budget", 0)
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(found.counts.items()))
        paid = f"{counted(totals.calls, 'call')}, ${totals.settled_usd:.4f} so far ({folder})"
        say_line(self._console, f"  {said}; {paid}")
        if (warning := drift(totals.snapshots)) is not None:
            say_line(self._console, f"  {warning}", style="yellow")
        return found.rows


async def _ask(
    ask: Callable[[LlmClient, int], Awaitable[R]], config: RunConfig, served: StartedGenerator, folder: Folder
) -> tuple[R, Totals]:
    async with paid_client(config, served, folder, config.budget_usd) as (client, ledger):
        return await ask(client, config.concurrency), await ledger.totals()
