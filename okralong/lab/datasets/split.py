"""The split of data sets into sides. Training and evaluation call ``Split.load().filter(dataset, "test")``.

Questions, documents and texts are identified by short hashes of their words, so the manifest contains no text.
``split_build`` makes a split from data sets and rules.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.lab.datasets.base import DataSet, Item, Text, text_id
from okralong.pipelines.core.schemas import table_schema
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.reporting.metrics import plain_words

Side: TypeAlias = Literal["train", "validation", "tune", "test"]

SIDES: Final[tuple[Side, ...]] = ("train", "validation", "tune", "test")
"""The sides, from the freest to the strictest.

Models are trained on "train". Temperatures and thresholds are chosen on "validation", values of the policy on "tune".
Reported figures are from "test"."""

KEY_DIGITS: Final = 10
"""Hex digits of a key, for 5 bytes. Among 40,000 keys, two collide by chance in one of 1,400 manifests."""


MANIFEST: Final = "split/manifest.parquet"
"""The shipped manifest, in the folder of configs."""

SPLIT: Final = table_schema("split", [("kind", pa.string()), ("side", pa.string()), ("key", pa.binary(5))])
"""A row's kind (question, document or text), its side, and its hash (the key)."""

_PREFIX: Final = b"okralong.split."


@dataclass(frozen=True, slots=True)
class Split:
    """The side of each key. ``about`` describes the manifest: seed, fingerprint of the rules, counts.

    An item has a side only if all its keys agree; whatever belongs to two sides is left out. ``texts`` has only texts
    whose side does not follow from their documents.
    """

    questions: Mapping[str, Side]
    documents: Mapping[str, Side]
    texts: Mapping[str, Side] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, source: str | Path = MANIFEST) -> Split:
        """Load the shipped split, or one that ``okralong split`` wrote.

        Raises ConfigError if the file is missing or of another version.
        """
        path = Path(source)
        shipped = resources.files("okralong.configs").joinpath(str(source))
        if not path.is_file() and not shipped.is_file():
            raise ConfigError(f"There is no split manifest {source}. Make one with `okralong split DATA --out DIR`.")
        try:
            table = pq.read_table(io.BytesIO(path.read_bytes() if path.is_file() else shipped.read_bytes()))
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"{source} is not a Parquet file: {error}. Make it again with `okralong split`."
            ) from error
        metadata = table.schema.metadata or {}
        if not table.schema.equals(SPLIT) or any(metadata.get(name) != value for name, value in SPLIT.metadata.items()):
            raise ConfigError(f"{source} is not a split manifest of this version. Make it again with `okralong split`.")
        by_kind: dict[str, dict[str, Side]] = {"question": {}, "document": {}, "text": {}}
        names = {name: name for name in get_args(Side)}
        for kind, side, key in zip(*(table[column].to_pylist() for column in SPLIT.names), strict=True):
            if by_kind[kind].setdefault(key.hex(), names[side]) != side:
                raise ConfigError(f"{source}: the {kind} {key.hex()} is on two sides. Make the manifest again.")
        about = {k[len(_PREFIX) :].decode(): v.decode() for k, v in metadata.items() if k.startswith(_PREFIX)}
        return cls(by_kind["question"], by_kind["document"], by_kind["text"], about)

    def write(self, file: Path) -> None:
        """Write the manifest: one Parquet row per key, with ``about`` in its metadata.

        Equal splits are written as equal bytes.
        """
        kinds = {"question": self.questions, "document": self.documents, "text": self.texts}
        rows = [(kind, side, key) for kind, by_key in kinds.items() for key, side in by_key.items()]
        rows.sort(key=lambda row: (list(kinds).index(row[0]), SIDES.index(row[1]), row[2]))
        columns = [[kind for kind, _, _ in rows], [side for _, side, _ in rows], [bytes.fromhex(k) for _, _, k in rows]]
        said = {_PREFIX + name.encode(): value.encode() for name, value in self.about.items()}
        table = pa.table(columns, schema=SPLIT.with_metadata({**SPLIT.metadata, **said}))
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, compression="zstd", compression_level=19, use_dictionary=["kind", "side"])

    def side_of(self, item: Item) -> Side | None:
        """Return the item's side, or None for an unknown question or one on a stricter side than its documents."""
        known = self._sides(item)
        asked = question_hash(item.gold.question.question) in self.questions
        return known.pop() if asked and len(known) == 1 else None

    def text_side(self, text_id: str) -> Side | None:
        """Return the side of a text if it is not determined by its document, else None."""
        return self.texts.get(text_hash(text_id))

    def shows(self, text: Text, side: Side) -> bool:
        """Return whether an item of ``side`` whose context has the text may show it."""
        known = (self.documents.get(document_hash(text.document)), self.text_side(text.text_id))
        return all(each in (None, side) for each in known)

    def filter(self, dataset: DataSet, side: Side) -> DataSet:
        """Return the items of ``side`` (possibly none), and their texts except those that belong to another side.

        Raises InputError if ``dataset`` has questions that the manifest does not know: their documents might be on
        another side.
        """
        unknown = [item for item in dataset.items if question_hash(item.gold.question.question) not in self.questions]
        if unknown:
            raise InputError(
                f"The split does not know {len(unknown)} of the {len(dataset.items)} questions of {dataset.name}/"
                f"{dataset.part} (the first: {unknown[0].gold.question.query_id}). It was made from other files. Make "
                "one from yours with `okralong split DATA --out DIR` and give its manifest.parquet; or use the whole "
                "set without the questions of training and tuning (side: all, in a sweep of `okralong evaluate`)."
            )
        items = [item for item in dataset.items if self.side_of(item) == side]
        shown = {identity for identity, text in dataset.texts.items() if self.shows(text, side)}
        kept = tuple(replace(item, text_ids=tuple(t for t in item.text_ids if t in shown)) for item in items)
        return replace(dataset, items=kept, texts=_texts_of(dataset, kept, shown) if kept else {})

    def unseen(self, dataset: DataSet) -> DataSet:
        """Return the set without the items that models were trained, or policies chosen, on.

        These are the items of which the question, a document or a gold text is on another side than "test". A note
        counts them.
        """
        kept = tuple(item for item in dataset.items if self._sides(item) <= {"test"})
        if len(kept) == len(dataset.items):
            return dataset
        seen, asked = len(dataset.items) - len(kept), len(dataset.items)
        note = (
            f"{dataset.name} {dataset.part}: {seen:,} of {asked:,} questions are left out, because shipped models were "
            "trained, or their values chosen, on them or on others about the same documents."
        )
        return replace(dataset, items=kept, notes=(*dataset.notes, note))

    def _sides(self, item: Item) -> set[Side]:
        """Return the sides of an item's question, documents and gold texts."""
        question = self.questions.get(question_hash(item.gold.question.question))
        documents = (self.documents.get(document_hash(name)) for name in item.documents)
        texts = (self.texts.get(text_hash(identity)) for identity in gold_texts(item))
        return {side for side in (question, *documents, *texts) if side}


def _texts_of(dataset: DataSet, kept: tuple[Item, ...], shown: set[str]) -> dict[str, Text]:
    """Return the texts of the kept items, and the texts in ``shown`` that belong to no item (a corpus)."""
    named = {identity for item in dataset.items for identity in item.text_ids}
    wanted = {identity for item in kept for identity in (*item.text_ids, *gold_texts(item))}
    return {t: text for t, text in dataset.texts.items() if t in wanted or (t in shown and t not in named)}


def question_hash(question: str) -> str:
    """Return the key of a question's text; case, punctuation and spacing have no effect."""
    return text_id(question)[:KEY_DIGITS]


def document_hash(document: str) -> str:
    """Return the key of a document's name. A name without letters and digits is hashed as it is."""
    words = " ".join(plain_words(document)) or document
    return hashlib.sha256(f"document {words}".encode()).hexdigest()[:KEY_DIGITS]


def text_hash(identity: str) -> str:
    """Return the key of a text by its ``text_id``."""
    return identity[:KEY_DIGITS]


def strictest(sides: Iterable[Side]) -> Side:
    """Return the strictest of ``sides``, which must not be empty."""
    return max(sides, key=SIDES.index)


def gold_texts(item: Item) -> tuple[str, ...]:
    """Return the distinct text_ids of an item's evidence and cells."""
    return tuple(dict.fromkeys([*(e.text_id for e in item.evidence), *(c.text_id for c in item.cells)]))


def leaks(datasets: Iterable[DataSet], split: Split) -> list[str]:
    """Return a line for everything that is on two sides after ``split.filter``; none for a valid split.

    This checks question texts, documents (those asked about and those shown) and shown texts, and whether an item has
    lost a text with its evidence.
    """
    where: dict[tuple[str, str], dict[Side, str]] = defaultdict(dict)
    found = []
    for dataset in datasets:
        for side in SIDES:
            part = split.filter(dataset, side)
            source = f"{part.name}/{part.part}"
            for text in part.texts.values():
                where["text", text.text_id][side] = source
                where["document", _same(text.document)][side] = source
            for item in part.items:
                question = item.gold.question
                where["question", question_hash(question.question)][side] = f"{source} {question.query_id}"
                for document in item.documents:
                    where["document", _same(document)][side] = f"{source} {question.query_id}"
                lost = [t for t in gold_texts(item) if not split.shows(dataset.texts[t], side)]
                found += [f"{source} {question.query_id} on {side} has lost its gold text {each}" for each in lost]
    for (kind, key), places in where.items():
        if len(places) > 1:
            shown = key if kind != "text" else f"{key[:60]}..."
            listed = ", ".join(f"{side} ({places[side]})" for side in SIDES if side in places)
            found.append(f"the {kind} {shown!r} is on {listed}")
    return found


def _same(words: str) -> str:
    return " ".join(plain_words(words)) or words
