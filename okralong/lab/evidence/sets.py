"""Read, split, draw, pool and index the sets of a sweep. Existing archives are reused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from okralong.lab.datasets.base import DataSet, Item, Text
from okralong.lab.datasets.catalog import Catalog, load_catalog
from okralong.lab.datasets.encoder import CachedEncoder, cached_encoder, index_encoder
from okralong.lab.datasets.other import OWN
from okralong.lab.datasets.pooling import Pooled, pool, whole
from okralong.lab.datasets.registry import MissingSet, read_dataset
from okralong.lab.datasets.split import Side, Split
from okralong.lab.datasets.withheld import typed, withhold
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice, SweepSettings
from okralong.lab.evidence.retrievals import Retrievals
from okralong.pipelines.answering.analyzers.analysis import TYPES
from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED
from okralong.pipelines.sara.artifact import read_shape
from okralong.pipelines.sara.config import AUTO, NONE, compressor_folder

Say = Callable[[str], None]


@dataclass(frozen=True)
class DataSetStore:
    """Reads and indexes data sets. The folder ``data`` has the files, ``work`` the archives and vectors.

    With the side "all", a set is taken as a whole, except what the split knows from training and tuning.
    """

    catalog: Catalog
    split: Split
    data: Path
    work: Path
    side: Side | Literal["all"]
    seed: int
    encoder: CachedEncoder
    say: Say

    def read(self, name: str, part: str) -> DataSet:
        """Return the part of a set on this side of the split.

        For "all", it is the set without what models were trained, or policies chosen, on; the user's own sets (format
        ``own``) are whole.
        """
        source = self.catalog.source(name, part)
        dataset = read_dataset(source, self.data)
        if self.side == "all" and source.format != OWN:
            dataset = self.split.unseen(dataset)
        for note in dataset.notes:
            self.say(note)
        return dataset if self.side == "all" else self.split.filter(dataset, self.side)

    def pooled(self, choice: SetChoice, every: bool = False) -> Pooled:
        """Return the documents of a set and its measurable questions; with ``every``, all of its questions.

        Raises InputError if the set cannot satisfy ``choice``.
        """
        dataset = self.read(choice.name, choice.part)
        spare = [text for named in choice.fill for text in self.read(*named.split(" ", 1)).texts.values()]
        return pooled_set(choice, dataset, spare, self.seed, every)

    def bench(self, choice: SetChoice, pooled: Pooled, config: IndexConfig) -> Bench:
        """Index one set."""
        raw = [RawDocument(d.doc_id, d.text, choice.name, sections=d.sections) for d in pooled.documents]
        location = str(self.work / "archives" / self._archive_name(choice, config))
        archive = index_here(location, raw, config, index_encoder(self.encoder))
        texts = {document.doc_id: document.text for document in pooled.documents}
        return Bench(f"{choice.name} {choice.part}", pooled, Retrievals(archive, self.encoder), texts)

    def _archive_name(self, choice: SetChoice, config: IndexConfig) -> str:
        pooling = "whole" if choice.pool_tokens is None else str(choice.pool_tokens)
        sizes = "-".join(map(str, config.granularities))
        limit = "all" if choice.limit is None else str(choice.limit)
        by = "" if config.embedding.model == EMBEDDED else f"-{Path(config.embedding.model).name}"
        # An archive has only one table of compressed chunks, so another compressor needs another archive.
        table = "" if config.compressor in (NONE, AUTO, SHIPPED) else f"-{_fingerprint(config.compressor)}"
        cut = f"sentences-at-{sizes}{by}{table}"
        withheld = f"-without-{choice.withheld}" if choice.withheld else ""
        return f"{choice.name}-{choice.part}-{self.side}-{limit}-{pooling}-{self.seed}-{cut}{withheld}"


@dataclass(frozen=True)
class Material:
    """The questions and documents of a sweep's sets, by name, and the store that indexes them."""

    store: DataSetStore
    pooled: dict[str, Pooled]

    @classmethod
    def read(
        cls,
        sweep: SweepSettings,
        sets: Sequence[SetChoice],
        side: Side | Literal["all"],
        data: Path,
        work: Path,
        say: Say,
        *,
        embedding: str = EMBEDDED,
        every: bool = False,
        gold_types: bool = False,
        skip: type[InputError] = MissingSet,
    ) -> Material:
        """Read, split, draw and pool all sets, without embedding anything.

        With ``gold_types`` every question must have a type, for methods that analyze by gold labels. A set whose
        reading raises ``skip`` is left out, and ``say`` tells why. Raises InputError for a set that cannot be read
        otherwise, or if none is left, then with all reasons.
        """
        store = DataSetStore(
            catalog=load_catalog(sweep.catalog),
            split=Split.load(sweep.split),
            data=data,
            work=work,
            side=side,
            seed=sweep.seed,
            encoder=cached_encoder(work, embedding),
            say=say,
        )
        pooled: dict[str, Pooled] = {}
        errors: dict[str, str] = {}
        for choice in sets:
            try:
                pooled[choice.named] = store.pooled(choice, every)
            except skip as error:
                errors[choice.named] = str(error)
        if not pooled:
            reasons = [f"{name}: {why}" for name, why in errors.items()]
            raise InputError("\n".join(["None of the sweep's sets can be read.", *reasons]))
        for name, why in errors.items():
            say(f"{name} is left out of the sweep: {why}")
        for choice in sets if gold_types else ():
            if choice.named in pooled:
                check_types(choice, pooled[choice.named])
        return cls(store, pooled)


def _fingerprint(compressor: str) -> str:
    return read_shape(compressor_folder(compressor))[1]


def pooled_set(choice: SetChoice, dataset: DataSet, spare: Iterable[Text], seed: int, every: bool = False) -> Pooled:
    """Return the documents and measurable questions of one side. Raises InputError if there are no such questions.

    A question is measurable if its set has a text for it and marks its evidence, or if its answer has parts. With
    ``every``, a text is enough.
    """
    items = drawn(list(dataset.items) if every else measurable(dataset), choice.limit, f"{seed}:{choice.name}")
    if choice.typed:
        items = [typed(item) for item in items]
    items, gone = withhold(items, choice.withheld, f"{seed}:{choice.name}")
    if choice.pool_tokens is None:
        pooled = whole(replace(dataset, items=tuple(items)))
    else:
        others = [text for text in (*dataset.texts.values(), *spare) if text.text_id not in gone]
        pooled = pool(items, dataset.texts, choice.pool_tokens, seed, others, f"{choice.name}-{choice.part}")
    if choice.scope == "archive":
        pooled = replace(pooled, questions=tuple(replace(each, doc_ids=()) for each in pooled.questions))
    if not pooled.questions:
        raise InputError(
            f"{choice.name} {choice.part} has no question on this side of the split that can be measured: one with a "
            "text, and with evidence or a searchable answer. Choose another set or side."
        )
    return pooled


def measurable(dataset: DataSet) -> list[Item]:
    """Return the items with marked evidence or a searchable answer."""
    return [item for item in dataset.items if item.evidence or item.gold.parts]


def drawn(items: Sequence[Item], limit: int | None, seed: str) -> list[Item]:
    """Return all items, or ``limit`` of them, drawn by ``seed`` independently of their order."""
    if limit is None or len(items) <= limit:
        return list(items)
    return random.Random(seed).sample(sorted(items, key=lambda item: item.gold.question.query_id), limit)


def check_types(choice: SetChoice, pooled: Pooled) -> None:
    """Raise InputError if a question has no type, since there are then no gold labels."""
    for question in pooled.questions:
        asked = question.item.gold.question
        if asked.type not in TYPES:
            raise InputError(
                f"{choice.name} {choice.part}: the question {asked.query_id} has the type {asked.type!r}, and a method "
                f"of the sweep analyzes by gold labels. Give each question one of {', '.join(TYPES)}, or set analyzer "
                "to rules."
            )
