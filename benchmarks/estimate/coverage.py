"""Measure the share of runs whose actual cost is in the range that was estimated before.

    python -m benchmarks.estimate.coverage --archives 25 --out benchmarks/results/estimate/coverage.md

For each archive: generated reports and questions, and a simulated generator behind the scripted endpoint whose style
(length, number of sub-questions, when it stops) is drawn from wide ranges, not from the estimate's priors. The estimate
is made first, without and with a pilot; then every question is answered over HTTP with each method, and the ledger
gives the cost. The pilot's questions are questions of that run, as with `okralong estimate --pilot`. It uses the
method's own strategy; the baselines' figures only use its reply lengths.

*covered*: share of archives whose actual cost is in the range. *width*: (high - low) / actual, median. *off*: absolute
value of expected / actual - 1, median. Exits with 1 if the method's dollars are covered less often than the goal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.estimate.here import Desk, Read
from benchmarks.estimate.manner import Manner
from okralong.lab.datasets.encoder import cached_encoder, index_encoder
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Usage
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.run.dry_run import METHOD, PRECISE, side_by_side
from okralong.pipelines.run.estimate import Figures, Range, Setting, StrategyEstimate, draw_pilot, estimate
from okralong.pipelines.run.observed import AskedQuestion, asked_in
from okralong.pipelines.run.prepare import Scoped
from okralong.pipelines.run.priors import Priors
from okralong.pipelines.samples.questions import generate
from tests.fakes.openai_server import FakeOpenAI

GOAL = 0.8
MODEL = "gpt-4o-2024-08-06"
STRATEGIES = (METHOD, PRECISE)
FIGURES = ("usd", "weighted_tokens", "prompt_tokens", "completion_tokens")


@dataclass(frozen=True)
class Row:
    """One figure of one method in one archive: the estimate and the actual value. ``pilot`` 0 means none."""

    archive: int
    strategy: str
    pilot: int
    figure: str
    low: float
    expected: float
    high: float
    actual: float

    @property
    def covered(self) -> bool:
        """Return whether the actual value is in the range."""
        return self.low <= self.actual <= self.high


def one_archive(
    number: int,
    pilots: Sequence[int],
    encoder: Encoder,
    work: Path,
    strategies: Sequence[str] = STRATEGIES,
    read: Read | None = None,
) -> list[Row]:
    """Estimate and answer one generated archive in the folder ``work``.

    Rows of the baselines are added for the first of ``strategies``. ``read`` replaces the shipped cross-encoder.
    """
    random_ = random.Random(number)
    sample = generate(
        reports=random_.randint(2, 4), questions=random_.randint(18, 36), seed=number, words=random_.randint(1500, 4000)
    )
    policy = load_config(FullPolicy, "policy/default.yaml")
    raw = [RawDocument(document.doc_id, document.text, "sample") for document in sample.documents]
    archive = index_here(str(work / "archive"), raw, IndexConfig(granularities=policy.granularities()), encoder)
    asked = [Scoped(question, archive.resolve(question.doc_ids)) for question in sample.questions]
    manner = Manner.drawn(number)
    price = PriceTable.load().price(MODEL)
    rows: list[Row] = []
    with FakeOpenAI(rules=[(lambda _: True, manner.reply)], models=[MODEL]) as server:
        llm = LlmConfig(base_url=server.base_url, model=MODEL, window=128_000)
        desk = Desk(archive, encoder.encode, KeywordRules(), policy, llm, read)
        setting = Setting(load_config(Priors, "estimate.yaml"), llm.completion_limit, price)
        for strategy in strategies:
            shown = side_by_side(strategy)
            outlooks = asyncio.run(desk.look(asked, shown))
            said = {0: estimate(outlooks, shown, setting)}
            actual: dict[str, dict[str, AskedQuestion]] = {}
            noted = shown if strategy == strategies[0] else (strategy,)
            for name in noted:
                run = work / f"{strategy}-{name}"
                asyncio.run(desk.answer(asked, name, run))
                actual[name] = asked_in(Folder.of(run), count_tokens)
            for size in pilots:
                known = {query_id: actual[strategy][query_id] for query_id in draw_pilot(outlooks, size, seed=0)}
                said[size] = estimate(outlooks, shown, setting, known)
            for size, estimates in said.items():
                for name in noted:
                    rows += _rows(number, name, size, estimates[name], list(actual[name].values()))
    return rows


def _rows(archive: int, name: str, pilot: int, said: StrategyEstimate, actual: Sequence[AskedQuestion]) -> list[Row]:
    usage = sum((call.usage for each in actual for call in each.calls), Usage())
    came_to = {
        "usd": sum(each.billed_usd for each in actual),
        "weighted_tokens": float(usage.weighted_tokens),
        "prompt_tokens": float(usage.prompt_tokens),
        "completion_tokens": float(usage.completion_tokens),
    }
    found = []
    for figure in FIGURES:
        told = _range(said.total, figure)
        found.append(Row(archive, name, pilot, figure, told.low, told.expected, told.high, came_to[figure]))
    return found


def _range(total: Figures, figure: str) -> Range:
    told = getattr(total, figure)
    assert isinstance(told, Range)
    return told


def table(rows: Sequence[Row]) -> str:
    """Return coverage and width by method, pilot and figure."""
    lines = []
    for key in dict.fromkeys((row.strategy, row.pilot) for row in rows):
        for figure in FIGURES:
            mine = [row for row in rows if (row.strategy, row.pilot) == key and row.figure == figure]
            lines.append(
                [
                    key[0],
                    str(key[1]) if key[1] else "none",
                    figure.replace("_", " "),
                    f"{coverage(mine):.2f}",
                    f"{statistics.median((row.high - row.low) / row.actual for row in mine):.2f}",
                    f"{statistics.median(abs(row.expected / row.actual - 1) for row in mine):.3f}",
                ]
            )
    return markdown_table(["strategy", "pilot", "figure", "covered", "width", "off"], lines) + "\n"


def coverage(rows: Sequence[Row]) -> float:
    """Return the share of covered rows."""
    return sum(row.covered for row in rows) / len(rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archives", type=int, default=25)
    parser.add_argument("--pilots", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--work", type=Path, default=Path(".evidence/estimate"))
    parser.add_argument("--out", type=Path, help="markdown file to write; a .json is written beside it")
    options = parser.parse_args(argv)
    encoder = index_encoder(cached_encoder(options.work))
    rows: list[Row] = []
    for number in range(1, options.archives + 1):
        rows += one_archive(number, options.pilots, encoder, options.work / f"archive-{number:03d}")
        print(f"archive {number} of {options.archives}", file=sys.stderr)
    sizes = " ".join(map(str, options.pilots))
    command = f"python -m benchmarks.estimate.coverage --archives {options.archives} --pilots {sizes}"
    words = "\n\n".join((__doc__ or "").split("\n\n")[2:]).strip()
    page = f"# Does the range hold?\n\n`{command}`\n\n{words}\n\n{table(rows)}"
    print(page)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page, encoding="utf-8")
        data = {"command": command, "rows": [asdict(row) for row in rows]}
        options.out.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    dollars = [row for row in rows if row.strategy in STRATEGIES and row.figure == "usd"]
    return int(any(coverage([row for row in dollars if row.pilot == size]) < GOAL for size in (0, *options.pilots)))


if __name__ == "__main__":
    sys.exit(main())
