"""Measure what shared prefixes and the flex tier save in a night of 20 questions per document.

    python -m benchmarks.prefixes --out benchmarks/results/prefixes.md

Generated reports, shuffled questions, `okralong answer` as a command, and the tests' scripted endpoint, which caches
prefixes as OpenAI documents it (from 1,024 tokens, in steps of 128, for five minutes, once a reply with them has
arrived), has a flex tier, takes a second per reply (log-normal), and keeps its own bill. Dollars are the same tokens
at the list prices of several models.

Prompts are the same in all runs of a method, checked by hash: neither passages nor their order change, so answers
cannot.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.samples.questions import generate, write_sample
from tests.fakes.endpoint.process import EndpointProcess

MODELS = ("gpt-4o-2024-08-06", "o3", "gpt-5")
PRICE = {"input": 2.5, "cached_input": 1.25, "output": 10.0, "batch_discount": 0.5}
SCENARIO = {"latency": {"median_s": 1.0, "sigma": 0.5}, "models": {"fake-model": {"window": 128_000}}}


@dataclass(frozen=True)
class Night:
    """One run: its tokens, the number of requests to the flex tier, of calls, and the hashes of its prompts."""

    usage: Usage
    flex: int
    calls: int
    hashes: frozenset[str]

    @property
    def share(self) -> float:
        """Return the cached share of the prompt tokens."""
        return self.usage.cached_tokens / self.usage.prompt_tokens

    def usd(self, model: str) -> float | None:
        """Return the cost at a model's list price, or None for the flex tier of a model without one."""
        price = PriceTable.load().price(model)
        if not self.flex:
            return price.cost(self.usage)
        assert self.flex == self.calls, "some calls were not answered by the flex tier"
        return price.in_flex().cost(self.usage) if price.flex_discount else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reports", type=int, default=6)
    parser.add_argument("--words", type=int, default=6000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EndpointProcess(SCENARIO) as server:
        work = Path(folder)
        write_sample(generate(reports=given.reports, questions=20 * given.reports, seed=5, words=given.words), work)
        lines = (work / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        random.Random(7).shuffle(lines)
        (work / "questions.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        _run("index", work / "archive", "--from", work / "reports", "--embed", "none")
        rows: list[tuple[str, str, Night]] = []
        for strategy in ("long_context", "okralong"):
            nights = {
                "standard": _night(work, server, strategy, {}),
                "flex": _night(work, server, strategy, {"service_tier": "flex"}),
            }
            assert len({night.hashes for night in nights.values()}) == 1, "the prompts differ"
            rows += [(strategy, name, night) for name, night in nights.items()]
    text = _page(given, rows)
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _night(work: Path, server: EndpointProcess, strategy: str, more: Mapping[str, Any]) -> Night:
    """Run a method."""
    server.reset(SCENARIO)
    price = PRICE if not more else {**PRICE, "flex_discount": 0.5}
    config = yaml.safe_load(shipped_config("answer.yaml"))
    config["llm"] |= {
        "base_url": server.base_url, "model": "fake-model", "window": 128_000, "tokenizer": "o200k_base",
        "max_in_flight": 64, "reader": "none", "timeout_s": 60.0, "price": price, **more,
    }  # fmt: skip
    config |= {"strategy": strategy, "analyzer": {"kind": "rules"}, "concurrency": 64}
    (work / "answer.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    run = work / f"{strategy}-{len(list(work.iterdir()))}"
    _run("answer", work / "archive", "--questions", work / "questions.jsonl", "--run", run,
         "--config", work / "answer.yaml")  # fmt: skip
    ledger = [row for row in read_run_table(Folder.of(run), "ledger").to_pylist() if row["status"] == "ok"]
    names = ("prompt_tokens", "cached_tokens", "completion_tokens")
    usage = Usage(*(sum(row[name] for row in ledger) for name in names))
    lanes = server.state()["bill"]
    billed = sum(lanes[lane]["cached_tokens"] for lane in ("chat", "flex"))
    assert billed == usage.cached_tokens, "the endpoint and the ledger differ"
    return Night(usage, lanes["flex"]["calls"], len(ledger), frozenset(row["request_hash"] for row in ledger))


def _run(*arguments: object) -> None:
    environment = {**os.environ, "OPENAI_API_KEY": "sk-none-0123456789"}
    command = [sys.executable, "-m", "okralong", *map(str, arguments)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _page(given: argparse.Namespace, rows: list[tuple[str, str, Night]]) -> str:
    first: dict[str, Night] = {}
    lines = [
        "# Shared prefixes and the flex tier",
        "",
        f"`python -m benchmarks.prefixes --reports {given.reports} --words {given.words}`: "
        f"{20 * given.reports} questions over {given.reports} reports in a shuffled file, 64 in flight, replies after "
        "a second. The prompts of a method are the same, hash by hash, in its runs. Dollars: the same tokens at list "
        "prices, and in brackets against its first run; - where a "
        "model has no flex tier.",
        "",
        f"| strategy | run | calls | prompt tokens | cached | {' | '.join(MODELS)} |",
        f"|---|---|---|---|---|{'---|' * len(MODELS)}",
    ]
    for strategy, name, night in rows:
        against = first.setdefault(strategy, night)
        costs = [_cost(night.usd(model), against.usd(model)) for model in MODELS]
        tokens = f"{night.calls} | {night.usage.prompt_tokens:,} | {night.share:.2f}"
        lines.append(f"| {strategy} | {name} | {tokens} | {' | '.join(costs)} |")
    return "\n".join(lines) + "\n"


def _cost(usd: float | None, against: float | None) -> str:
    return "-" if usd is None or not against else f"${usd:.4f} ({usd / against:.2f})"


if __name__ == "__main__":
    main()
