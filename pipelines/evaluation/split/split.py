"""The split as training and evaluation use it: ``Split.load().filter(dataset, "test")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.datasets.values import DataSet, Item, Text
from okralong.pipelines.evaluation.split.keys import Side, gold_texts, text_hash
from okralong.pipelines.evaluation.split.manifest import MANIFEST, read_manifest
from okralong.pipelines.evaluation.split.sides import Sides


@dataclass(frozen=True, slots=True)
class Split:
    """Sides by hash, and what the manifest says of itself (``about``: seed, fingerprint of the rules, counts)."""

    sides: Sides
    about: Mapping[str, str]

    @classmethod
    def load(cls, source: str | Path = MANIFEST) -> Split:
        """The shipped split, or one that ``okralong split`` wrote. Raises ConfigError when it cannot be read."""
        return cls(*read_manifest(source))

    def side_of(self, item: Item) -> Side | None:
        """The item's side; None when it is left out (its question is asked on a stricter side too) or unknown."""
        return self.sides.of_item(item)

    def text_side(self, text_id: str) -> Side | None:
        """The side of a text that several sides carry and its document does not settle; None for all others."""
        return self.sides.texts.get(text_hash(text_id))

    def filter(self, dataset: DataSet, side: Side) -> DataSet:
        """The items of ``side``, and of their texts those that no other side owns. May be empty.

        Raises InputError when ``dataset`` has questions that the manifest does not know: nothing tells whether their
        documents stand elsewhere on another side, so no side is guessed for them.
        """
        unknown = [item for item in dataset.items if not self.sides.knows(item)]
        if unknown:
            raise InputError(
                f"The split does not know {len(unknown)} of the {len(dataset.items)} questions of {dataset.name}/"
                f"{dataset.part} (the first: {unknown[0].gold.question.query_id}). It was made from other files. Make "
                "one from yours with `okralong split DATA --out DIR` and give its manifest.parquet; or, for questions "
                "that nothing is trained or tuned on, use the whole set (side: all, in a sweep of `okralong evaluate`)."
            )
        items = [item for item in dataset.items if self.side_of(item) == side]
        shown = {identity for identity, text in dataset.texts.items() if self.sides.shows(text, side)}
        kept = tuple(replace(item, text_ids=tuple(t for t in item.text_ids if t in shown)) for item in items)
        return replace(dataset, items=kept, texts=_texts_of(dataset, kept, shown) if kept else {})


def _texts_of(dataset: DataSet, kept: tuple[Item, ...], shown: set[str]) -> dict[str, Text]:
    """The texts of the kept items, and those shown texts that belong to no item (a corpus)."""
    named = {identity for item in dataset.items for identity in item.text_ids}
    wanted = {identity for item in kept for identity in (*item.text_ids, *gold_texts(item))}
    return {t: text for t, text in dataset.texts.items() if t in wanted or (t in shown and t not in named)}
