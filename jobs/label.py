"""``okralong train-data --label-with llm``: the generator fills in the labels that the sets leave open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console

from okralong.jobs.generator import Generator, generator
from okralong.jobs.terminal import say_line
from okralong.pipelines.answering.llm.client import LlmClient
from okralong.pipelines.answering.llm.ledger import RunLedger
from okralong.pipelines.answering.llm.limiter import Limits
from okralong.pipelines.answering.llm.local import LocalLimiter
from okralong.pipelines.answering.llm.ports import Totals
from okralong.pipelines.answering.llm.prices import PriceTable
from okralong.pipelines.answering.run_config import RunConfig
from okralong.pipelines.storage import Folder
from okralong.pipelines.training.build import LabelRows
from okralong.pipelines.training.model_labels import Labelled, is_unlabelled, label_rows
from okralong.pipelines.training.rows import TrainingRow

LABELS = "labels"
"""The folder beside the rows with the labels' journal and ledger: what was paid for is not asked again."""


def labeller(config: RunConfig, out: Path, console: Console) -> LabelRows:
    """Labels rows by the generator of ``config``, at its price and within ``budget_usd``."""

    def label(rows: list[TrainingRow]) -> list[TrainingRow]:
        open_rows = sum(map(is_unlabelled, rows))
        if not open_rows:
            return rows
        say_line(console, f"  {open_rows:,} rows are labelled by {config.llm.model} at {config.llm.base_url}")
        with generator(config.llm, out) as served:
            found, totals = asyncio.run(_label(rows, config, served, Folder.of(out / LABELS)))
        said = ", ".join(f"{count:,} {name}" for name, count in sorted(found.counts.items()))
        say_line(console, f"  {said}; {totals.calls:,} calls, ${totals.settled_usd:.4f} so far ({out / LABELS})")
        return found.rows

    return label


async def _label(
    rows: list[TrainingRow], config: RunConfig, served: Generator, folder: Folder
) -> tuple[Labelled, Totals]:
    ledger = RunLedger(folder, config.budget_usd)
    llm = served.llm
    limiter = LocalLimiter(Limits(llm.requests_per_minute, llm.tokens_per_minute, llm.max_in_flight))
    prices = PriceTable.load(config.prices)
    client = LlmClient(llm, ledger, limiter, prices, address=served.address, tags=config.tags)
    try:
        return await label_rows(rows, client, config.concurrency), await ledger.totals()
    finally:
        await client.aclose()
        await ledger.close()
