"""``okralong train-data --label-with llm``: the generator fills in the labels that the sets leave open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console

from okralong.jobs.generator import Generator, generator
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.lab.training.analyzer_data import Labelled, TrainingRow, is_unlabelled, label_rows
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.ledger import RunLedger, drift
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.llm.records import Totals
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig

LABELS = "labels"
"""The folder beside the rows with the labels' journal and ledger: what was paid for is not asked again."""


class Labeller:
    """Labels rows by the generator of ``config``, at its price and within ``budget_usd``.

    Raises ConfigError for the embedded generator, whose guesses are no labels.
    """

    def __init__(self, config: RunConfig, out: Path, console: Console) -> None:
        if config.llm.base_url == EMBEDDED:
            raise ConfigError(
                "The embedded model is too small to label rows. Give --llm an answer config whose llm.base_url and "
                "llm.model name a large model, and a budget_usd."
            )
        if config.llm.mode == "batch":
            raise ConfigError(
                "Labels are asked for in real time, and the answer config of --llm says llm.mode: batch. Give one that "
                "says realtime."
            )
        self.model = config.llm.model
        self.over_budget = 0
        self._config = config
        self._out = out
        self._console = console

    def __call__(self, rows: list[TrainingRow]) -> list[TrainingRow]:
        """The rows, with what could be had of the labels that they lack."""
        open_rows = sum(map(is_unlabelled, rows))
        if not open_rows:
            return rows
        llm = self._config.llm
        say_line(self._console, f"  {open_rows:,} rows are labelled by {llm.model} at {llm.base_url}")
        with generator(llm, self._out) as served:
            for note in served.notes:
                say_line(self._console, f"  {note}", style="yellow")
            found, totals = asyncio.run(_label(rows, self._config, served, Folder.of(self._out / LABELS)))
        self.over_budget += found.counts.get("over_budget", 0)
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(found.counts.items()))
        paid = f"{totals.calls:,} calls, ${totals.settled_usd:.4f} so far ({self._out / LABELS})"
        say_line(self._console, f"  {said}; {paid}")
        if (warning := drift(totals.snapshots)) is not None:
            say_line(self._console, f"  {warning}", style="yellow")
        return found.rows


async def _label(
    rows: list[TrainingRow], config: RunConfig, served: Generator, folder: Folder
) -> tuple[Labelled, Totals]:
    ledger = RunLedger(folder, config.budget_usd)
    llm = served.llm
    limiter, *others = (LocalLimiter(endpoint.limits) for endpoint in llm.all_endpoints)
    prices = PriceTable.load(config.prices)
    client = LlmClient(llm, ledger, limiter, prices, others=others, address=served.address, tags=config.tags)
    try:
        return await label_rows(rows, client, config.concurrency), await ledger.totals()
    finally:
        await client.aclose()
        await ledger.close()
