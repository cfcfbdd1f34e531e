"""From data sets to training rows, side by side of the split. Nothing is paid; what was embedded before is kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Question
from okralong.pipelines.evaluation.datasets.catalog import Catalog, load_catalog
from okralong.pipelines.evaluation.datasets.pooling import Pooled, whole
from okralong.pipelines.evaluation.datasets.registry import read_dataset
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.evidence.encoder import cached_encoder
from okralong.pipelines.evaluation.evidence.sets import Say, Shelf, drawn, measurable
from okralong.pipelines.evaluation.split.build import build_split
from okralong.pipelines.evaluation.split.keys import SIDES, Side, question_hash
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.sara.artifact import NONE
from okralong.pipelines.training.balance import balanced
from okralong.pipelines.training.collect import questions_only, rows_of
from okralong.pipelines.training.rows import TrainingRow
from okralong.pipelines.training.rows_config import QuestionsOnly, RowsConfig, SampleRows
from okralong.pipelines.training.sample_set import sample_set

LEARNED: Final[tuple[Side, ...]] = ("train", "validation")
"""Sides that take rows of the sample archive and labels of a model: figures, and what is tuned, rest on real sets and
their own annotation alone."""

LabelRows = Callable[[list[TrainingRow]], list[TrainingRow]]


@dataclass(frozen=True)
class Built:
    """Rows by side, and the questions of the train side that were set aside without their labels."""

    rows: dict[Side, list[TrainingRow]]
    unlabelled: list[Question]


@dataclass(frozen=True)
class _Side:
    """One side's shelf with what all its sets share."""

    shelf: Shelf
    policy: Policy
    config: RowsConfig
    every: bool

    def rows(self) -> list[TrainingRow]:
        found = [row for choice in self.config.sets for row in self._of_set(choice)]
        found += [row for choice in self.config.questions_only for row in self._of_questions(choice)]
        if self.config.sample and self.shelf.side in LEARNED:
            found += self._of_sample(self.config.sample)
        return _once(found)

    def _of_set(self, choice: SetChoice) -> list[TrainingRow]:
        dataset = self.shelf.read(choice.name, choice.part)
        if not (dataset.items if self.every else measurable(dataset)):
            return []
        return self._indexed(choice, self.shelf.pooled(choice, self.every))

    def _of_questions(self, choice: QuestionsOnly) -> list[TrainingRow]:
        items = self.shelf.read(choice.name, choice.part).items
        some = drawn(items, choice.limit, f"{self.config.seed}:{choice.name}")
        return questions_only(f"{choice.name} {choice.part}", some)

    def _of_sample(self, choice: SampleRows) -> list[TrainingRow]:
        seed = choice.seed + LEARNED.index(self.shelf.side)
        return self._indexed(SetChoice(name="sample", part=str(seed)), whole(sample_set(choice, seed)))

    def _indexed(self, choice: SetChoice, pooled: Pooled) -> list[TrainingRow]:
        self.shelf.say(f"  {choice.name} {choice.part}: {len(pooled.questions)} questions")
        config = IndexConfig(granularities=primary_granularities(self.policy), compressor=NONE)
        bench = self.shelf.bench(choice, pooled, config)
        bench.retrievals.prepare([question.item.gold.question.question for question in pooled.questions])
        return asyncio.run(rows_of(bench, self.policy))


def build_rows(config: RowsConfig, data: Path, work: Path, say: Say, label: LabelRows | None = None) -> Built:
    """The rows of every side; those of train balanced by type. Archives and vectors are kept below ``work``.

    ``label`` may say more of the rows that models learn from; then questions without evidence or answer have a row,
    too. Rows whose type nobody knows are left out. Raises ConfigError or InputError naming what cannot be read.
    """
    policy = load_config(Policy, config.policy)
    catalog, encoder = load_catalog(config.catalog), cached_encoder(work)
    split = _split(config, catalog, data)
    rows: dict[Side, list[TrainingRow]] = {}
    unlabelled: list[Question] = []
    for side in SIDES:
        say(f"{side}:")
        shelf = Shelf(catalog, split, data, work, side, config.seed, encoder, say)
        asked = label if side in LEARNED else None
        found = _Side(shelf, policy, config, every=config.every or asked is not None).rows()
        rows[side] = [row for row in (asked(found) if asked else found) if row.type is not None]
        # The first so many rows of a side are a fair sample of it.
        random.Random(config.seed).shuffle(rows[side])
        if side == "train":
            rows[side] = balanced(rows[side], config.per_type, config.seed)
            unlabelled = _set_aside(shelf, config, rows[side])
    return Built(rows, unlabelled)


def _split(config: RowsConfig, catalog: Catalog, data: Path) -> Split:
    if isinstance(config.split, str):
        return Split.load(config.split)
    named = [(choice.name, choice.part) for choice in config.sets]
    named += [(choice.name, choice.part) for choice in (*config.questions_only, *config.unlabelled)]
    sources = [source for source in catalog.sources if (source.name, source.part) in named]
    split, _ = build_split([read_dataset(source, data) for source in sources], config.split)
    return split


def primary_granularities(policy: Policy) -> list[int]:
    """The chunk sizes that primary retrieval asks for."""
    around = policy.fusion.surroundings
    sizes = {policy.primary.granularity} | ({around.granularity} if around else set())
    return sorted(sizes)


def _set_aside(shelf: Shelf, config: RowsConfig, rows: Iterable[TrainingRow]) -> list[Question]:
    """Questions whose labels are left aside, for self-training; none that a row asks."""
    seen = {question_hash(row.question) for row in rows}
    found: dict[str, Question] = {}
    for choice in config.unlabelled:
        asked = [item.gold.question for item in shelf.read(choice.name, choice.part).items]
        new = {question_hash(each.question): each for each in asked if question_hash(each.question) not in seen}
        some = sorted(new)
        random.Random(f"{config.seed}:{choice.name}").shuffle(some)
        found |= {key: Question(new[key].query_id, new[key].question) for key in some[: choice.limit]}
    return list(found.values())


def _once(rows: Iterable[TrainingRow]) -> list[TrainingRow]:
    """A wording counts once for each document: of a question that two sets ask, the first set's row stays."""
    kept: dict[tuple[str, tuple[str, ...]], TrainingRow] = {}
    for row in rows:
        kept.setdefault((question_hash(row.question), row.documents), row)
    return list(kept.values())
