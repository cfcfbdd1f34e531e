"""The judge of a sweep: the answers of each cell marked by a language model, with a ledger of its own in each cell."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from okralong.jobs.generator import Generator, generator
from okralong.jobs.run_folder import table
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.lab.judge import ToJudge, judge
from okralong.pipelines.lab.sweeps.config import JudgeConfig
from okralong.pipelines.lab.sweeps.run import GoldQuestion, Purse, spent_usd
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.rate_limit_client import LocalLimiter
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.reporting.metrics import UNANSWERABLE, best, exact_match
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.rows import JUDGE


def judge_config(said: JudgeConfig) -> RunConfig:
    """The answer config whose ``llm`` judges. Raises ConfigError when it cannot be used or names the embedded model."""
    config = load_config(RunConfig, said.answer, dict(said.overrides))
    if config.llm.base_url == EMBEDDED or config.llm.mode == "batch":
        raise ConfigError(
            "judge asks the embedded model, or in batches: the first is too small to judge, and the judge asks in real "
            "time. Set llm.base_url, llm.model and llm.mode: realtime in judge.overrides."
        )
    PriceTable.load(config.prices).price(config.llm.model, config.llm.price)
    return config


def judge_cells(
    runs: Mapping[str, tuple[Path, Sequence[GoldQuestion]]], config: RunConfig, purse: Purse
) -> dict[str, Mapping[str, float]]:
    """Marks by cell and query_id: of answered questions with gold answers the judge's, of the others with an end 0, or
    1 where "unanswerable" is the gold answer.

    What it costs comes out of the ``purse``. Raises as ``judge`` does, and EndpointError when nobody can be asked.
    """
    with generator(config.llm, None) as served:
        return {cell: _judged(cell, run, golds, config, served, purse) for cell, (run, golds) in runs.items()}


def _judged(
    cell: str, run: Path, golds: Sequence[GoldQuestion], config: RunConfig, served: Generator, purse: Purse
) -> Mapping[str, float]:
    ends = {row["query_id"]: row for row in table(Folder.of(run), "answers", ["query_id", "status", "answer"])}
    marks: dict[str, float] = {}
    asked = []
    for each in golds:
        question = each.gold.question
        row = ends.get(question.query_id)
        if row is None or row["status"] == "over_budget" or not question.answers:
            continue
        # The answer of one that is unanswerable is that word, whatever text stands in its row.
        right = row["status"] == UNANSWERABLE and best(exact_match, UNANSWERABLE, question.answers)
        marks[question.query_id] = float(right)
        if row["status"] == "answered":
            asked.append(ToJudge(question.query_id, question.question, question.answers, row["answer"] or ""))
    folder, name = Folder.of(run / JUDGE), f"{cell}/{JUDGE}"
    purse.settle(name, spent_usd(folder))
    cap = purse.grant(name, 1)
    try:
        return marks | asyncio.run(_ask(asked, config, served, folder, cap))
    finally:
        purse.settle(name, spent_usd(folder))


async def _ask(
    asked: Sequence[ToJudge], config: RunConfig, served: Generator, folder: Folder, cap: float | None
) -> dict[str, float]:
    ledger = RunLedger(folder, cap)
    llm = served.llm
    limiter, *others = (LocalLimiter(endpoint.limits) for endpoint in llm.all_endpoints)
    prices = PriceTable.load(config.prices)
    client = LlmClient(llm, ledger, limiter, prices, others=others, address=served.address, tags=config.tags)
    try:
        return dict(await judge(asked, client, config.concurrency))
    except* Exception as group:
        raise group.exceptions[0] from None
    finally:
        await client.aclose()
        await ledger.close()
