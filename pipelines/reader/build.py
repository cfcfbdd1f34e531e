"""From the data sets and the split to the reader's rows: who is asked, how many, in which order."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Container, Sequence
from pathlib import Path

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Passage
from okralong.pipelines.evaluation.datasets.catalog import load_catalog
from okralong.pipelines.evaluation.datasets.pooling import Pooled, whole
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.evidence.encoder import cached_encoder
from okralong.pipelines.evaluation.evidence.sets import Say, Shelf, measurable
from okralong.pipelines.evaluation.split.keys import SIDES, Side
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.reader.collect import Collector
from okralong.pipelines.reader.config import ReadingConfig
from okralong.pipelines.reader.rows import ReadingRow
from okralong.pipelines.sara.artifact import NONE
from okralong.pipelines.training.build import LEARNED
from okralong.pipelines.training.sample_set import sample_set


def build_reading(config: ReadingConfig, data: Path, work: Path, say: Say) -> dict[Side, list[ReadingRow]]:
    """The rows of every side but tune, in a drawn order. Archives and vectors are kept below ``work``.

    Raises ConfigError or InputError naming what cannot be read.
    """
    policy, catalog = load_config(Policy, config.policy), load_catalog(config.catalog)
    split, encoder = Split.load(config.split), cached_encoder(work)
    built: dict[Side, list[ReadingRow]] = {}
    for side in SIDES:
        if side == "tune":
            # Its questions are kept for choosing policies; the reader has no values to tune on them.
            continue
        say(f"{side}:")
        shelf = Shelf(catalog, split, data, work, side, config.seed, encoder, say)
        found: list[ReadingRow] = []
        for choice in config.sets:
            if measurable(shelf.read(choice.name, choice.part)):
                found += _collected(shelf, choice, shelf.pooled(choice), policy, config)
        if config.sample and side in LEARNED:
            seed = config.sample.seed + LEARNED.index(side)
            choice = SetChoice(name="sample", part=str(seed))
            found += _collected(shelf, choice, whole(sample_set(config.sample, seed)), policy, config)
        built[side] = chosen(found, config, side == "train")
    return built


def chosen(rows: Sequence[ReadingRow], config: ReadingConfig, capped: bool) -> list[ReadingRow]:
    """The rows in a drawn order, the first so many of which are a fair sample; ``capped`` by source, type and role.

    No side has more unanswerable rows than the config's share of its answer rows.
    """
    shuffled = sorted(rows, key=lambda row: (row.query_id, row.role, row.user))
    random.Random(config.seed).shuffle(shuffled)
    if capped and config.per_source is not None:
        shuffled = _per_source(shuffled, config.per_source, {f"{each.name} {each.part}" for each in config.sets})
    held = [row for row in shuffled if row.role == "generate" and not row.answerable]
    rest = [row for row in shuffled if row.role != "generate" or row.answerable]
    if capped:
        counts: dict[str, int] = defaultdict(int)
        kept = []
        for row in rest:
            group, most = (row.type, config.per_type) if row.role == "generate" else (row.role, config.per_role)
            counts[group] += 1
            if counts[group] <= most:
                kept.append(row)
        rest = kept
    answered = sum(row.role == "generate" for row in rest)
    share = config.unanswerable
    most = len(held) if share == 1 else int(answered * share / (1 - share))
    mixed = [*rest, *held[:most]]
    random.Random(config.seed + 1).shuffle(mixed)
    return mixed


def _per_source(rows: Sequence[ReadingRow], most: int, capped: Container[str]) -> list[ReadingRow]:
    """The rows with at most ``most`` of each ``capped`` source, or as many more as one context was asked.

    What is asked of a context stays together: it is read once for all of that.
    """
    contexts: dict[tuple[str, tuple[Passage, ...]], list[ReadingRow]] = defaultdict(list)
    for row in rows:
        contexts[row.source, row.passages].append(row)
    taken: dict[str, int] = defaultdict(int)
    kept: set[int] = set()
    for (source, _), asked in contexts.items():
        if source not in capped or taken[source] < most:
            taken[source] += len(asked)
            kept.update(map(id, asked))
    return [row for row in rows if id(row) in kept]


def _collected(
    shelf: Shelf, choice: SetChoice, pooled: Pooled, policy: Policy, config: ReadingConfig
) -> list[ReadingRow]:
    shelf.say(f"  {choice.name} {choice.part}: {len(pooled.questions)} questions")
    bench = shelf.bench(choice, pooled, IndexConfig(granularities=policy.granularities(), compressor=NONE))
    collector = Collector(bench, policy, config, learned=shelf.side == "train")
    bench.retrievals.prepare([question.item.gold.question.question for question in collector.questions])
    return asyncio.run(collector.rows())
