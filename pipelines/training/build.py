"""From data sets to training rows, side by side of the split. Nothing is paid; what was embedded before is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.evaluation.datasets.catalog import load_catalog
from okralong.pipelines.evaluation.datasets.pooling import Pooled, whole
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.evidence.encoder import cached_encoder
from okralong.pipelines.evaluation.evidence.sets import Say, Shelf, drawn, measurable
from okralong.pipelines.evaluation.split.keys import SIDES, Side, question_hash
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.settings import load_config
from okralong.pipelines.training.balance import balanced
from okralong.pipelines.training.collect import questions_only, rows_of
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.rows_config import QuestionsOnly, RowsConfig, SampleRows
from okralong.pipelines.training.sample_set import sample_set

SAMPLED: Final[tuple[Side, ...]] = ("train", "validation")
"""Sides that take rows of the sample archive: figures, and what is tuned, rest on real sets alone."""


@dataclass(frozen=True)
class _Side:
    """One side's shelf with what all its sets share."""

    shelf: Shelf
    policy: Policy
    config: RowsConfig

    def rows(self) -> list[TrainingRow]:
        found = [row for choice in self.config.sets for row in self._of_set(choice)]
        found += [row for choice in self.config.questions_only for row in self._of_questions(choice)]
        if self.config.sample and self.shelf.side in SAMPLED:
            found += self._of_sample(self.config.sample)
        return _once(row for row in found if row.type in TYPES)

    def _of_set(self, choice: SetChoice) -> list[TrainingRow]:
        if not measurable(self.shelf.read(choice.name, choice.part)):
            return []
        return self._indexed(choice, self.shelf.pooled(choice))

    def _of_questions(self, choice: QuestionsOnly) -> list[TrainingRow]:
        items = self.shelf.read(choice.name, choice.part).items
        some = drawn(items, choice.limit, f"{self.config.seed}:{choice.name}")
        return questions_only(f"{choice.name} {choice.part}", some)

    def _of_sample(self, choice: SampleRows) -> list[TrainingRow]:
        seed = choice.seed + SAMPLED.index(self.shelf.side)
        return self._indexed(SetChoice(name="sample", part=str(seed)), whole(sample_set(choice, seed)))

    def _indexed(self, choice: SetChoice, pooled: Pooled) -> list[TrainingRow]:
        self.shelf.say(f"  {choice.name} {choice.part}: {len(pooled.questions)} questions")
        bench = self.shelf.bench(choice, pooled, IndexConfig(granularities=primary_granularities(self.policy)))
        bench.retrievals.prepare([question.item.gold.question.question for question in pooled.questions])
        return asyncio.run(rows_of(bench, self.policy))


def build_rows(config: RowsConfig, data: Path, work: Path, say: Say) -> dict[Side, list[TrainingRow]]:
    """The rows of every side; those of train balanced by type. Archives and vectors are kept below ``work``.

    Raises ConfigError or InputError naming what cannot be read.
    """
    policy = load_config(Policy, config.policy)
    catalog, split, encoder = load_catalog(config.catalog), Split.load(config.split), cached_encoder(work)
    rows: dict[Side, list[TrainingRow]] = {}
    for side in SIDES:
        say(f"{side}:")
        shelf = Shelf(catalog, split, data, work, side, config.seed, encoder, say)
        rows[side] = _Side(shelf, policy, config).rows()
    rows["train"] = balanced(rows["train"], config.per_type, config.seed)
    return rows


def primary_granularities(policy: Policy) -> list[int]:
    """The chunk sizes that primary retrieval asks for."""
    around = policy.fusion.surroundings
    sizes = {policy.primary.granularity} | ({around.granularity} if around else set())
    return sorted(sizes)


def _once(rows: Iterable[TrainingRow]) -> list[TrainingRow]:
    """A wording counts once for each document: of a question that two sets ask, the first set's row stays."""
    kept: dict[tuple[str, tuple[str, ...]], TrainingRow] = {}
    for row in rows:
        kept.setdefault((question_hash(row.question), row.documents), row)
    return list(kept.values())
