"""Make the analyzer's training rows from primary retrieval over the sets' documents.

Types are from the sets' annotation, patterns and evidence from retrieval. Optionally, a generator adds missing labels
(``labels.label_rows``); nothing else is paid for. Embeddings are cached.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from okralong.lab.datasets.base import Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.pooling import PooledQuestion
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import MANIFEST, SIDES, Side, Split, question_hash
from okralong.lab.datasets.split_build import build_split
from okralong.lab.datasets.split_components import SplitRules
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore, Say, drawn, measurable
from okralong.lab.evidence.tools import Lookup, gold_labels
from okralong.lab.training.rows.sources import Limit, RowsSettings, SampleRows, SetPart, indexed, sample_of
from okralong.lab.training.rows.tables import LEARNED, TrainingRow
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Question, QuestionType
from okralong.pipelines.methods.registry import FullPolicy


class RowsConfig(RowsSettings):
    """The content of ``configs/training/rows.yaml``: sets and options for the analyzer's rows.

    The passages are those of primary retrieval under ``policy``. ``questions_only`` lists sets that have no documents,
    or whose documents are not used; they have labels only for the type. ``per_type`` is the most rows of a type on the
    train side, taken from its sources in turn, so that no type and no set dominates. A set's ``limit`` is for each
    side. With ``every``, questions without known evidence and answer also get rows, with labels only for the type.
    ``split`` is a manifest that `okralong split` wrote, or rules by which the ``sets`` are split here.
    """

    policy: str = "policy/default.yaml"
    sets: list[SetChoice] = Field(min_length=1)
    questions_only: list[SetPart] = Field(default_factory=list)
    sample: SampleRows | None = None
    per_type: Limit
    every: bool = False
    split: str | SplitRules = MANIFEST  # type: ignore[assignment]

    def load_split(self, data: Path) -> Split:
        """Load the split, or make it by its rules."""
        if isinstance(self.split, str):
            return Split.load(self.split)
        named = {(each.name, each.part) for each in self.sets}
        named |= {(each.name, each.part) for each in self.questions_only}
        sources = [each for each in load_catalog(self.catalog).sources if (each.name, each.part) in named]
        split, _ = build_split([read_dataset(source, data) for source in sources], self.split)
        return split


LabelRows = Callable[[list[TrainingRow]], list[TrainingRow]]


def build_rows(
    config: RowsConfig, data: Path, work: Path, say: Say, label: LabelRows | None = None
) -> dict[Side, list[TrainingRow]]:
    """Make the rows of every side; those of "train" are balanced by type. Archives and vectors are kept below ``work``.

    ``label``, if given, adds labels to the rows that models learn from; then questions without evidence or answer also
    have rows. Rows without a type are left out. Raises ConfigError or InputError, naming what cannot be read.
    """
    policy = load_config(FullPolicy, config.policy)
    rows: dict[Side, list[TrainingRow]] = {}
    for side, store in config.stores(data, work, say, SIDES):
        asked = label if side in LEARNED else None
        found = _rows_of_side(store, config, policy, side, every=config.every or asked is not None)
        rows[side] = [row for row in (asked(found) if asked else found) if row.type is not None]
        config.shuffle(rows[side])
        if side == "train":
            rows[side] = balanced(rows[side], config.per_type, config.seed)
    return rows


def _rows_of_side(
    store: DataSetStore, config: RowsConfig, policy: Policy, side: Side, every: bool
) -> list[TrainingRow]:
    sizes = primary_granularities(policy)
    sets = [(choice, store.read(choice.name, choice.part)) for choice in config.sets]
    pooled = [(choice, store.pooled(choice, every)) for choice, s in sets if (s.items if every else measurable(s))]
    found: list[TrainingRow] = []
    for choice, questions in pooled:
        found += asyncio.run(rows_of(indexed(store, choice, questions, sizes), policy))
    for each in config.questions_only:
        items = drawn(store.read(each.name, each.part).items, each.limit, f"{config.seed}:{each.name}")
        found += questions_only(f"{each.name} {each.part}", items)
    if config.sample and side in LEARNED:
        found += asyncio.run(rows_of(indexed(store, *sample_of(config.sample, side), sizes), policy))
    # If two sets have the same question about a document, the row of the first set is kept.
    kept: dict[tuple[str, tuple[str, ...]], TrainingRow] = {}
    for row in found:
        kept.setdefault((question_hash(row.question), row.documents), row)
    return list(kept.values())


def primary_granularities(policy: Policy) -> list[int]:
    """Return the chunk sizes, in tokens, that primary retrieval uses."""
    around = policy.fusion.surroundings
    return sorted({policy.primary.granularity} | ({around.granularity} if around else set()))


async def rows_of(bench: Bench, policy: Policy) -> list[TrainingRow]:
    """Make a row for each question of a set, which must be indexed with the policy's chunk sizes."""
    return [await _row(bench, policy, question) for question in bench.pooled.questions]


async def _row(bench: Bench, policy: Policy, question: PooledQuestion) -> TrainingRow:
    asked = question.item.gold.question
    tools = Lookup(bench.retrievals, policy, question.doc_ids)
    chunks, scores = await primary_retrieval(tools, "primary/retrieve", asked.question)
    labels = await gold_labels(bench.retrievals, bench.texts, question, policy.primary.granularity, chunks)
    pattern, evidence = labels or (None, None)
    return replace(
        _question_alone(bench.name, question.item),
        documents=question.item.documents or question.doc_ids,
        passages=tuple(hit.chunk.text for hit in chunks),
        exact_scores=scores.exact,
        semantic_scores=scores.semantic,
        semantic_ranks=scores.semantic_ranks,
        pattern=pattern,
        evidence=evidence,
    )


def questions_only(source: str, items: Iterable[Item]) -> list[TrainingRow]:
    """Make rows of questions without documents, with labels only for the type."""
    return [_question_alone(source, item) for item in items]


def _question_alone(source: str, item: Item) -> TrainingRow:
    asked: Question = item.gold.question
    known: QuestionType | None = asked.type if asked.type in TYPES else None
    return TrainingRow(asked.query_id, source, item.documents, asked.question, (), (), (), (), known, None, None)


def balanced(rows: Iterable[TrainingRow], per_type: int, seed: int) -> list[TrainingRow]:
    """Return at most ``per_type`` rows of each type, shuffled by ``seed`` independently of the order given.

    Rows without a type are left out. Rows are taken from the sources in turn; if a source has too few rows of a type,
    more are taken from the others. Within a source, rows with passages come first, since they have all three labels.
    """
    ordered = sorted(rows, key=lambda row: (row.source, row.query_id))
    random.Random(seed).shuffle(ordered)
    ordered.sort(key=lambda row: not row.passages)
    hands: dict[tuple[str | None, str], deque[TrainingRow]] = {}
    for row in ordered:
        hands.setdefault((row.type, row.source), deque()).append(row)
    kept = [row for kind in TYPES for row in _dealt([hand for (t, _), hand in hands.items() if t == kind], per_type)]
    random.Random(seed + 1).shuffle(kept)
    return kept


def _dealt(hands: list[deque[TrainingRow]], limit: int) -> list[TrainingRow]:
    kept: list[TrainingRow] = []
    while hands and len(kept) < limit:
        kept += [hand.popleft() for hand in hands[: limit - len(kept)]]
        hands = [hand for hand in hands if hand]
    return kept
