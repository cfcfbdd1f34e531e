"""Make the examples of SARA's three stages from the texts and questions of one side of the split.

Whole documents are held out: the split puts all texts of a document on one side, across all sets.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import bm25s
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from okralong.lab.datasets.base import DataSet, Item
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.pooling import pool
from okralong.lab.datasets.registry import read_dataset
from okralong.lab.datasets.split import Side, Split
from okralong.lab.evidence.sets import drawn
from okralong.lab.training.rows.sources import chunks_of, sample_set
from okralong.lab.training.rows.tables import MODEL_SIDES
from okralong.lab.training.sara.config import InstructionConfig, SaraConfig
from okralong.pipelines.answering.select_evidence import closeness
from okralong.pipelines.archive.terms import analyze_query
from okralong.pipelines.core.types import InputError, Passage
from okralong.pipelines.reporting.metrics import plain_words
from okralong.pipelines.reporting.statistics import joined_by_documents
from okralong.pipelines.sara.artifact import Encode, sentences_in
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.prompts import (
    MixedMessage,
    Vectors,
    alignment_prompt,
    answer_prompt,
    continuation_prompt,
    reconstruction_prompt,
)

Task = Literal["alignment", "continuation", "reconstruction", "instruction"]
"""The task of an example. "continuation" asks for the following chunk, in ICAE's alignment."""


Embeddings = NDArray[np.float32]

SHOWN_AS: Final = "document"
"""The document name of all passages. The real name would reveal which passages contain the answer."""


@dataclass(frozen=True, slots=True, eq=False)
class MixedExample:
    """A prompt with texts and compressed texts, and the reply to it.

    ``embeddings`` has the embeddings of the texts in ``compressed``, shape (n, inputs): one each (``counts`` is None)
    or, by sentence, as many as ``counts`` says. ``document`` is the source of a text, or all those that a question is
    about; the bootstrap draws by it. ``passages`` and ``question`` are only used in the instruction stage; in the other
    stages the reply is the compressed texts.
    """

    stage: Task
    document: str
    compressed: tuple[str, ...]
    reply: str
    embeddings: Embeddings = field(repr=False)
    question: str = ""
    passages: tuple[str, ...] = ()
    counts: tuple[int, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of embeddings of each compressed text."""
        return (1,) * len(self.compressed) if self.counts is None else self.counts

    @property
    def length(self) -> int:
        """The number of characters that a model reads and writes for it."""
        return len(self.question) + len(self.reply) + sum(map(len, self.passages))

    @property
    def instructions(self) -> str:
        """The part that is the same in all prompts of a batch."""
        return self.stage

    @property
    def context(self) -> str:
        """Another part that prompts may share; there is none."""
        return ""


def prompt_of(example: MixedExample, vectors: Sequence[Tensor]) -> list[MixedMessage]:
    """Return the prompt. ``vectors`` has a tensor of shape (vectors, hidden) for each compressed text."""
    pieces = [Vectors(each) for each in vectors]
    if example.stage == "alignment":
        return alignment_prompt(*pieces)
    if example.stage == "continuation":
        return continuation_prompt(*pieces)
    if example.stage == "reconstruction":
        return reconstruction_prompt(pieces)
    shown = [Passage(SHOWN_AS, 0, len(text), text, 0, 0.0) for text in example.passages]
    return answer_prompt(example.question, shown, pieces)


T = TypeVar("T")

Documents = dict[str, list[list[str]]]
"""The successive chunks of each text, by the name of its document."""

LEAST_CHARS: Final = 40  # project default
"""Chunks with fewer characters (headings, page numbers) are left out."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its chunks by BM25, best first, and the wordings of its answer."""

    document: str
    question: str
    answers: tuple[str, ...]
    chunks: tuple[str, ...]


@dataclass
class Material:
    """The data sets of one side of the split."""

    config: SaraConfig
    sets: list[DataSet]

    @classmethod
    def read(cls, config: SaraConfig, data: Path | None, side: Side) -> Material:
        """Read the part of the config's sets on ``side``. Raises InputError if sets are named and ``data`` is None."""
        texts = config.texts
        found: list[DataSet] = []
        if texts.sets:
            if data is None:
                raise InputError("The config names data sets: give the folder that holds them with --data.")
            split, catalog = Split.load(texts.split), load_catalog(texts.catalog)
            sources = [catalog.source(each.name, each.part) for each in texts.sets]
            found += [split.filter(read_dataset(source, data), side) for source in sources]
        if texts.sample is not None:
            found.append(sample_set(texts.sample.on(side), texts.sample.seed + MODEL_SIDES.index(side)))
        return cls(config, found)

    @cached_property
    def documents(self) -> Documents:
        """Return the chunks of all texts; one that several sets have is used once. Raises InputError without texts."""
        seen: set[str] = set()
        found: Documents = {}
        for dataset in self.sets:
            for identity in sorted(dataset.texts.keys() - seen):
                text = dataset.texts[identity]
                if chunks := chunk_texts(text.document, text.text, self.config.chunk_tokens):
                    found.setdefault(text.document, []).append(chunks)
            seen |= dataset.texts.keys()
        if not found:
            raise InputError("The config's sets hold no text on a side of the split. Name more sets, or another split.")
        return found

    def asked(self) -> list[Asked]:
        """Return the questions, over pooled documents, whose answer is in the BM25 chunks, or is yes or no.

        Other answers could only be guessed. The sets alternate, so that the first n questions are a fair sample of all.
        """
        config, stage = self.config, self.config.instruction
        assert stage is not None
        found: list[list[Asked]] = []
        limits = {(each.name, each.part): each.limit for each in config.texts.sets}
        for dataset in self.sets:
            items = [item for item in dataset.items if item.gold.question.answers]
            items = drawn(items, limits.get((dataset.name, dataset.part)), f"{config.seed}:{dataset.name}")
            if items:
                found.append(_asked_of(dataset, items, stage, config))
        dealt = [each[place] for place in range(max(map(len, found), default=0)) for each in found if place < len(each)]
        # Questions that are linked by a chain of shared documents are drawn together.
        names = joined_by_documents([tuple(each.document.split("\n")) for each in dealt])
        return [replace(each, document=name) for each, name in zip(dealt, names, strict=True)]


def _asked_of(dataset: DataSet, items: Sequence[Item], stage: InstructionConfig, config: SaraConfig) -> list[Asked]:
    total = sum(len(text.text) for text in dataset.texts.values()) // 6  # a conservative estimate of tokens
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
    return asked


def chunk_texts(document: str, text: str, chunk_tokens: int) -> list[str]:
    """Return the chunks of a text as an archive has them, with boundaries at sentences, stripped."""
    chunks = (chunk.text.strip() for chunk in chunks_of(document, text, chunk_tokens))
    return [chunk for chunk in chunks if len(chunk) >= LEAST_CHARS]


def alignment_examples(
    documents: Documents, encode: Encode, count: int, seed: int, continued: float = 0.0, sentences: int | None = None
) -> list[MixedExample]:
    """Return at most ``count`` examples of single chunks or, with ``sentences``, single sentences, in a random order.

    ``sentences`` is as in ``SaraConfig.sentences``. For the share ``continued`` of the chunks that have a next one, the
    reply is the next chunk.
    """
    some = _single_texts(documents, encode, count - round(count * continued), seed, sentences)
    if not continued:
        return some
    pairs = sorted(
        {(name, *pair) for name, texts in documents.items() for chunks in texts for pair in pairwise(chunks)}
    )
    drawn = _drawn(pairs, round(count * continued), seed)
    vectors = encode([chunk for _, chunk, _ in drawn]) if drawn else ()
    some += [
        MixedExample("continuation", name, (chunk,), following, vector[None])
        for (name, chunk, following), vector in zip(drawn, vectors, strict=True)
    ]
    return _drawn(some, count, seed)


def _single_texts(
    documents: Documents, encode: Encode, count: int, seed: int, sentences: int | None
) -> list[MixedExample]:
    single = sorted({(name, chunk) for name, texts in documents.items() for chunks in texts for chunk in chunks})
    if sentences is not None:
        single = sorted({(name, each) for name, chunk in single for each in sentences_in(chunk, sentences)})
    some = _drawn(single, count, seed)
    vectors = encode([chunk for _, chunk in some]) if some else ()
    return [
        MixedExample("alignment", name, (chunk,), chunk, vector[None])
        for (name, chunk), vector in zip(some, vectors, strict=True)
    ]


def reconstruction_examples(
    documents: Documents, encode: Encode, count: int, most: int, seed: int, sentences: int | None = None
) -> list[MixedExample]:
    """Return at most ``count`` examples of 2 to ``most`` successive chunks of a text, in a random order.

    With ``sentences`` (see ``SaraConfig.sentences``) and ``most`` 1, each is one chunk.
    """
    least = min(most, 2)
    runs = sorted(
        {
            (name, tuple(chunks[start : start + most]))
            for name, texts in documents.items()
            for chunks in texts
            for start in range(0, len(chunks) + 1 - least, most)
        }
    )
    some = [(name, run) for name, run in _drawn(runs, count, seed) if len(run) >= least]
    vectors = iter(_embedded([chunk for _, run in some for chunk in run], encode, sentences))
    return [
        _compressed("reconstruction", name, run, "\n".join(run), [next(vectors) for _ in run]) for name, run in some
    ]


def _embedded(chunks: Sequence[str], encode: Encode, sentences: int | None) -> list[Embeddings]:
    """Return the embeddings that each chunk's vectors are made of, shape (n, inputs)."""
    if not chunks:
        return []
    parts = [[chunk] if sentences is None else sentences_in(chunk, sentences) for chunk in chunks]
    vectors = encode([each for part in parts for each in part])
    return np.split(vectors, np.cumsum([len(part) for part in parts])[:-1])


def _compressed(
    stage: Task, document: str, chunks: Sequence[str], reply: str, vectors: Sequence[Embeddings], **more: Any
) -> MixedExample:
    counts = tuple(map(len, vectors)) if chunks else ()
    if set(counts) - {1}:
        more["counts"] = counts
    return MixedExample(stage, document, tuple(chunks), reply, np.concatenate(vectors), **more)


def _drawn(items: Sequence[T], count: int, seed: int) -> list[T]:
    some = list(items)
    random.Random(seed).shuffle(some)
    return some[:count]


def _answered(answers: Sequence[str], chunks: Sequence[str]) -> bool:
    said = f" {' '.join(plain_words(' '.join(chunks)))} "
    wordings = [" ".join(plain_words(answer)) for answer in answers]
    return any(wording in ("yes", "no") or (wording and f" {wording} " in said) for wording in wordings)


class _Index:
    """A BM25 index over the chunks of a document."""

    def __init__(self, doc_id: str, text: str, chunk_tokens: int) -> None:
        self.chunks = chunk_texts(doc_id, text, chunk_tokens)
        self._index = bm25s.BM25()
        self._index.index([analyze_query(chunk) or ["-"] for chunk in self.chunks], show_progress=False)

    def best(self, question: str, count: int) -> list[str]:
        """Return the ``count`` best chunks, best first; ties are in the order of the text."""
        scores = self._index.get_scores(analyze_query(question))
        order = sorted(range(len(self.chunks)), key=lambda number: (-float(scores[number]), number))
        return [self.chunks[number] for number in order[:count]]


def dealt(asked: Sequence[Asked], shares: Mapping[int, int], examples: int) -> tuple[list[Asked], list[int]]:
    """Return the questions of at most ``examples`` examples, and how many chunks each one shows as text.

    For the cycle of numbers see ``InstructionConfig.as_text``. A question is repeated at most as often as ``shares``
    has numbers. With each repetition, its place in the cycle moves by a step that is coprime to the cycle's length, so
    that it can reach every place.
    """
    if not asked:
        return [], []
    turn = [count for count, share in shares.items() for _ in range(share)]
    step = next(step for step in range(len(asked) + 1, len(asked) + 1 + len(turn)) if math.gcd(step, len(turn)) == 1)
    rounds = [divmod(number, len(asked)) for number in range(min(examples, len(asked) * len(shares)))]
    return (
        [asked[place] for _, place in rounds],
        [turn[(place + round_ * step) % len(turn)] for round_, place in rounds],
    )


def instruction_examples(
    asked: Sequence[Asked],
    encode: Encode,
    as_text: Sequence[int],
    compressor: Compressor | None,
    compression: bool = True,
    sentences: int | None = None,
) -> list[MixedExample]:
    """Return an example per question. ``as_text`` has the number of chunks as text for each.

    With a ``compressor``, the chunks shown as text are chosen by embedding novelty in its space, otherwise they are the
    first ones. Without ``compression``, the other chunks are left out; ``sentences`` is as in ``SaraConfig.sentences``.
    """
    found = []
    for each, count in zip(asked, as_text, strict=True):
        vectors = encode([each.question, *each.chunks])
        if compressor is None:
            chosen = list(range(min(count, len(each.chunks))))
        else:
            chosen = novel(compressor, vectors[0], vectors[1:], count)
        rest = [place for place in range(len(each.chunks)) if place not in chosen] if compression else []
        hidden = [each.chunks[place] for place in rest]
        own = vectors[1:][rest][:, None] if sentences is None else _embedded(hidden, encode, sentences)
        passages = tuple(each.chunks[place] for place in chosen)
        more = {"question": each.question, "passages": passages}
        none = [vectors[:0]]  # gives the array its length of embeddings where nothing is compressed
        found.append(_compressed("instruction", each.document, hidden, each.answers[0], [*own] or none, **more))
    return found


def novel(compressor: Compressor, question: Embeddings, chunks: Embeddings, count: int) -> list[int]:
    """Return the indexes of ``count`` of ``chunks`` (n, inputs; best first), as chosen by SARA's algorithm 1."""
    device = next(compressor.parameters()).device
    space = compressor.pooled(torch.from_numpy(np.vstack([question[None], chunks])).to(device)).cpu().numpy()
    target = (space[0] + space[1]) / 2 if len(chunks) else space[0]
    chosen, rest = [0][:count], list(range(1, len(chunks)))
    while rest and len(chosen) < count:
        gains = closeness(target, space[1:][chosen], space[1:][rest])
        chosen.append(rest.pop(gains.index(max(gains))))
    return [place for place in chosen if place < len(chunks)]
