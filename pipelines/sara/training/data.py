"""The texts and questions of one side of the split, cut into chunks, and what each stage makes of them.

Everything is held out by document: the split keeps all texts of a document on one side, across all sets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

import bm25s
import numpy as np

from okralong.pipelines.archive.bm25 import analyze_query
from okralong.pipelines.core.types import InputError
from okralong.pipelines.evaluation.datasets.catalog import load_catalog
from okralong.pipelines.evaluation.datasets.pooling import pool
from okralong.pipelines.evaluation.datasets.registry import read_dataset
from okralong.pipelines.evaluation.datasets.values import DataSet
from okralong.pipelines.evaluation.evidence.sets import drawn
from okralong.pipelines.evaluation.split.split import Split
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.reporting.metrics import plain_words
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.sara.training.config import InstructionConfig, SaraConfig
from okralong.pipelines.sara.training.examples import Embeddings, MixedExample
from okralong.pipelines.training.sample_set import sample_set

T = TypeVar("T")

Side = Literal["train", "validation", "test"]
SIDES: Final[tuple[Side, ...]] = ("train", "validation", "test")

Encode = Callable[[list[str]], Embeddings]
"""The sentence encoder: texts in, unit vectors of shape (n, inputs) out."""

Documents = dict[str, list[list[str]]]
"""The successive chunks of each text, by the document that the texts are parts of."""

LEAST_CHARS: Final = 40
"""Chunks below that many characters (headings, page numbers) are left out. Ours."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the chunks that BM25 finds for it, best first, and the wordings of its answer."""

    document: str
    question: str
    answers: tuple[str, ...]
    chunks: tuple[str, ...]


@dataclass
class Material:
    """The data sets of one side. Their texts are cut once."""

    sets: list[DataSet]
    _cut: dict[int, Documents] = field(default_factory=dict)

    def documents(self, chunk_tokens: int) -> Documents:
        """See ``document_chunks``. Raises InputError where there is no text."""
        if chunk_tokens not in self._cut:
            self._cut[chunk_tokens] = document_chunks(self.sets, chunk_tokens)
        if not self._cut[chunk_tokens]:
            raise InputError("The config's sets hold no text on a side of the split. Name more sets, or another split.")
        return self._cut[chunk_tokens]

    def asked(self, stage: InstructionConfig, config: SaraConfig) -> list[Asked]:
        """See ``asked_questions``."""
        return asked_questions(self.sets, stage, config)


def read_sets(config: SaraConfig, data: Path | None, side: Side) -> list[DataSet]:
    """What of the config's sets stands on ``side``. Raises InputError where sets are wanted and ``data`` is None."""
    texts = config.texts
    found: list[DataSet] = []
    if texts.sets:
        if data is None:
            raise InputError("The config names data sets: give the folder that holds them with --data.")
        split, catalog = Split.load(texts.split), load_catalog(texts.catalog)
        sources = {(source.name, source.part): source for source in catalog.sources}
        for each in texts.sets:
            if (each.name, each.part) not in sources:
                raise InputError(f"The catalog {texts.catalog} of data sets has no {each.name} {each.part}.")
            found.append(split.filter(read_dataset(sources[each.name, each.part], data), side))
    if texts.sample is not None:
        found.append(sample_set(texts.sample, texts.sample.seed + SIDES.index(side)))
    return found


def document_chunks(sets: Iterable[DataSet], chunk_tokens: int) -> Documents:
    """The successive chunks of each text, by the document that it is a part of. A text of several sets counts once."""
    seen: set[str] = set()
    found: Documents = {}
    for dataset in sets:
        for identity in sorted(dataset.texts):
            text = dataset.texts[identity]
            if identity not in seen:
                seen.add(identity)
                chunks = chunk_texts(text.document, text.text, chunk_tokens)
                if chunks:
                    found.setdefault(text.document, []).append(chunks)
    return found


def chunk_texts(document: str, text: str, chunk_tokens: int) -> list[str]:
    """The chunks of a text at sentences, as an archive has them, without blanks around them."""
    made = make_document(RawDocument(document, text, document))
    chunks = (chunk.text.strip() for chunk in chunk_document(made, chunk_tokens))
    return [chunk for chunk in chunks if len(chunk) >= LEAST_CHARS]


def alignment_examples(documents: Documents, encode: Encode, count: int, seed: int) -> list[MixedExample]:
    """At most ``count`` single chunks in a drawn order."""
    single = sorted({(name, chunk) for name, texts in documents.items() for chunks in texts for chunk in chunks})
    some = _drawn(single, count, seed)
    if not some:
        return []
    vectors = encode([chunk for _, chunk in some])
    return [
        MixedExample("alignment", name, (chunk,), chunk, vector[None])
        for (name, chunk), vector in zip(some, vectors, strict=True)
    ]


def reconstruction_examples(
    documents: Documents, encode: Encode, count: int, most: int, seed: int
) -> list[MixedExample]:
    """At most ``count`` runs of 2 to ``most`` successive chunks of one text, in a drawn order."""
    runs = sorted(
        {
            (name, tuple(chunks[start : start + most]))
            for name, texts in documents.items()
            for chunks in texts
            for start in range(0, len(chunks) - 1, most)
        }
    )
    some = [(name, run) for name, run in _drawn(runs, count, seed) if len(run) > 1]
    if not some:
        return []
    vectors = iter(encode([chunk for _, run in some for chunk in run]))
    return [
        MixedExample("reconstruction", name, run, "\n".join(run), _stack(next(vectors) for _ in run))
        for name, run in some
    ]


def asked_questions(sets: Iterable[DataSet], stage: InstructionConfig, config: SaraConfig) -> list[Asked]:
    """Questions over pooled documents whose answer stands in the chunks that BM25 finds, or is yes or no.

    The others could only be guessed. The sets take turns, so that the first so many are a fair sample of all.
    """
    found: list[list[Asked]] = []
    limits = {(each.name, each.part): each.limit for each in config.texts.sets}
    for dataset in sets:
        items = [item for item in dataset.items if item.gold.question.answers]
        items = drawn(items, limits.get((dataset.name, dataset.part)), f"{config.seed}:{dataset.name}")
        if not items:
            continue
        total = sum(len(text.text) for text in dataset.texts.values()) // 6  # a cautious guess of tokens
        spare = sorted(dataset.texts.values(), key=lambda text: text.text_id)
        pooled = pool(items, dataset.texts, min(stage.pool_tokens, max(1, total)), config.seed, spare, dataset.name)
        indexes = {each.doc_id: _Index(each.doc_id, each.text, config.chunk_tokens) for each in pooled.documents}
        asked: list[Asked] = []
        for question in pooled.questions:
            gold = question.item.gold.question
            chunks = indexes[question.doc_ids[0]].best(gold.question, stage.retrieved)
            name = "\n".join(question.item.documents or question.doc_ids)
            if _answered(gold.answers, chunks):
                asked.append(Asked(name, gold.question, gold.answers, tuple(chunks)))
        random.Random(f"{config.seed}:{dataset.name}").shuffle(asked)
        found.append(asked)
    dealt = [each[place] for place in range(max(map(len, found), default=0)) for each in found if place < len(each)]
    # Questions that a chain of shared documents joins rise and fall together.
    names = joined_by_documents([tuple(each.document.split("\n")) for each in dealt])
    return [replace(each, document=name) for each, name in zip(dealt, names, strict=True)]


def _stack(vectors: Iterable[Embeddings]) -> Embeddings:
    return np.stack(list(vectors))


def _drawn(items: Sequence[T], count: int, seed: int) -> list[T]:
    some = list(items)
    random.Random(seed).shuffle(some)
    return some[:count]


def _answered(answers: Sequence[str], chunks: Sequence[str]) -> bool:
    said = f" {' '.join(plain_words(' '.join(chunks)))} "
    wordings = [" ".join(plain_words(answer)) for answer in answers]
    return any(wording in ("yes", "no") or (wording and f" {wording} " in said) for wording in wordings)


class _Index:
    """BM25 over the chunks of one document."""

    def __init__(self, doc_id: str, text: str, chunk_tokens: int) -> None:
        self.chunks = chunk_texts(doc_id, text, chunk_tokens)
        self._index = bm25s.BM25()
        self._index.index([analyze_query(chunk) or ["-"] for chunk in self.chunks], show_progress=False)

    def best(self, question: str, count: int) -> list[str]:
        """The first ``count`` chunks, best first; ties in the order of the text."""
        scores = self._index.get_scores(analyze_query(question))
        order = sorted(range(len(self.chunks)), key=lambda number: (-float(scores[number]), number))
        return [self.chunks[number] for number in order[:count]]
