"""Measure the priors of an estimate: the length of replies, and what later retrievals add.

    okralong train-data DATA --for reader --out rows
    python -m benchmarks.estimate.priors --rows rows --data DATA --out benchmarks/results/estimate/priors.md

*Replies*: o200k tokens of the replies in the reading rows, which follow from the public sets' annotation. *Look-ups*:
the method with gold types over the test side of the sets with sub-questions, which it is given. *queries* is their
number per question, *new* the share of a further retrieval's context that no earlier one had shown, read off the growth
of prompts that an estimate counts (`pipelines/run/dry_run.py`). *sd* is over the rows of a line.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.datasets.gold import gold_analysis
from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.datasets.split import Side, Split
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.evidence.tools import BenchTools, given
from okralong.lab.evidence.writers import GoldWriter
from okralong.lab.training.rows.tables import READER_ROWS
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Message, OkraError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.llm.request import prompt_tokens
from okralong.pipelines.methods.okralong import orchestrate
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.run.dry_run import prompt_growth

SETS = (("hotpotqa", "dev"), ("2wikimultihopqa", "dev"), ("musique", "train"))
POOL_TOKENS = 20_000
SIDES: tuple[Side, ...] = ("train", "validation", "test")

Lines = Mapping[tuple[str, ...], Sequence[float]]
"""Values by the first cells of their line."""


@dataclass
class Measuring(GoldWriter):
    """The sets' own queries, recording the size of each prompt by role."""

    sizes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """See ``Writer``."""
        self.sizes[role].append(prompt_tokens(messages, count_tokens))
        return await super().write(gold_queries, path, role, messages)


def replies(folder: Folder) -> Lines:
    """Return the tokens of the rows' replies by role, type and whether the passages contain the answer."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for side in SIDES:
        for row in READER_ROWS.read(folder, side):
            tokens = count_tokens(row.reply)
            held = "held" if row.answerable else "not held"
            for line in ((row.role, "all", "all"), (row.role, row.type, held if row.role == "generate" else "all")):
                found[line].append(tokens)
    return found


async def look_ups(bench: Bench, policy: Policy) -> Lines:
    """Return queries per question, and the new share of each retrieval after the first, by workflow."""
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for question in bench.pooled.questions:
        writer, asked = Measuring(), question.item.gold.question.question
        answer = await orchestrate(asked, _tools(bench, policy, question, writer), precise=False)
        plan = answer.plan
        if plan is None or plan.workflow not in ("split", "step"):
            continue
        answers, reasons = await prompt_growth(_tools(bench, policy, question, writer), asked, plan, demonstrate=False)
        queries = len(question.item.gold_queries)
        found[plan.workflow, bench.name, "queries"].append(queries)
        if plan.workflow == "split":
            looked_up = min(queries, plan.max_sub_questions)
            new = [_new(writer.sizes["generate"][0], answers, looked_up)]
        else:
            new = [_new(size, reasons, number) for number, size in enumerate(writer.sizes["step"], start=1)]
        found[plan.workflow, bench.name, "new"] += [share for share in new if share is not None]
    return found


def _new(size: int, growth: Sequence[int], look_ups: int) -> float | None:
    """Return a prompt's place on the growth of prompts, as a share of the growth by later retrievals."""
    if look_ups < 2 or growth[0] == growth[-1]:
        return None
    place = float(np.interp(size, growth, range(1, len(growth) + 1)))
    return (place - 1) / (look_ups - 1)


def _tools(bench: Bench, policy: Policy, question: PooledQuestion, writer: Measuring) -> BenchTools:
    by_gold = given(gold_analysis(question.item.gold.question.type, "same", evidence=True))
    return BenchTools(bench.retrievals, policy, question.doc_ids, question.item.gold_queries, by_gold, writer)


def table(head: Sequence[str], found: Lines) -> str:
    """Return number, mean, standard deviation and quantiles of each line."""
    lines = []
    for cells, values in sorted(found.items()):
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        shown = [f"{each:.3g}" for each in (np.mean(values), np.std(values), low, middle, high)]
        lines.append([*cells, str(len(values)), *shown])
    return markdown_table([*head, "n", "mean", "sd", "5 %", "median", "95 %"], lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True, help="the folder that okralong train-data --for reader wrote")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the data sets")
    parser.add_argument("--work", type=Path, default=Path(".evidence"), help="where archives and vectors are kept")
    parser.add_argument("--out", type=Path, help="markdown file to write")
    options = parser.parse_args(argv)
    policy = load_config(FullPolicy, "policy/default.yaml")
    try:
        split, encoder = Split.load("split/manifest.parquet"), cached_encoder(options.work)
        catalog = load_catalog("datasets.yaml")
        store = DataSetStore(catalog, split, options.data, options.work, "test", 7, encoder, print)
        found: dict[tuple[str, ...], Sequence[float]] = {}
        for name, part in SETS:
            choice = SetChoice(name=name, part=part, pool_tokens=POOL_TOKENS)
            bench = store.bench(choice, store.pooled(choice), IndexConfig(granularities=policy.granularities()))
            found |= asyncio.run(look_ups(bench, policy))
        said = replies(Folder.of(options.rows))
    except OkraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    words = "\n\n".join((__doc__ or "").split("\n\n")[2:]).strip()
    page = (
        "# What the priors of an estimate rest on\n\n`python -m benchmarks.estimate.priors --rows ROWS --data DATA`\n\n"
        f"{words}\n\n## Replies\n\n{table(['role', 'type', 'the answer is'], said)}\n"
        f"## Look-ups\n\n{table(['workflow', 'set', 'figure'], found)}"
    )
    print(page)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
