"""The sources of rows: the indexed sets of the catalog on each side of the split, and the sample archive."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import DataSet, Evidence, Item, Text, make_text
from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import EACH, cached_encoder
from okralong.lab.datasets.gold import Gold
from okralong.lab.datasets.pooling import Pooled, whole
from okralong.lab.datasets.split import MANIFEST, Side, Split
from okralong.lab.evidence.bench import Bench
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore, Say
from okralong.lab.training.rows.tables import LEARNED, MODEL_SIDES
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Chunk, InputError, Question
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.samples.questions import MINIMUM_WORDS, RESERVED_SEEDS, UNANSWERABLE, generate
from okralong.pipelines.sara.config import NONE

Limit = Annotated[int, Field(ge=1)]


class SetPart(Settings):
    """A set of the catalog, by name and part, of which at most ``limit`` questions on each side are used."""

    name: str
    part: str
    limit: Limit | None = None


class SampleRows(Settings):
    """Rows from the sample archive, for types that the sets lack; only for the sides "train" and "validation".

    ``look_ups`` is the number of single questions (parts of multi-bridge ones) in addition to ``questions``. The side
    "validation" has the share ``validation`` of these numbers. A training that has other validation rows ignores them.
    """

    reports: Annotated[int, Field(ge=2)]
    questions: Limit
    look_ups: Annotated[int, Field(ge=0)] = 0
    words: Annotated[int, Field(ge=MINIMUM_WORDS)]
    seed: int = 1000
    validation: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0

    def on(self, side: Side) -> SampleRows:
        """Return the numbers of questions for a side."""
        share = self.validation if side == "validation" else 1.0
        return self.model_copy(
            update={
                "reports": max(2, round(share * self.reports)),
                "questions": max(1, round(share * self.questions)),
                "look_ups": round(share * self.look_ups),
            }
        )


class RowsSettings(Settings):
    """The keys that the configs of all rows share.

    ``seed`` is used to draw questions and to order rows, ``catalog`` is the list of the sets' files, and ``split`` a
    manifest that `okralong split` wrote.
    """

    seed: int = 7
    catalog: str = "datasets.yaml"
    split: str = MANIFEST

    def load_split(self, data: Path) -> Split:
        """Load the split of the sets below ``data``."""
        return Split.load(self.split)

    def stores(
        self, data: Path, work: Path, say: Say, sides: Sequence[Side] = MODEL_SIDES
    ) -> Iterator[tuple[Side, DataSetStore]]:
        """Yield each side, with a store of the catalog's sets on it. Archives and vectors are kept below ``work``."""
        sources, split, encoder = load_catalog(self.catalog), self.load_split(data), cached_encoder(work)
        for side in sides:
            say(f"{side}:")
            yield side, DataSetStore(sources, split, data, work, side, self.seed, encoder, say)

    def shuffle(self, rows: list[Any]) -> None:
        """Shuffle the rows of a side in place, so that its first n are a fair sample."""
        random.Random(self.seed).shuffle(rows)


def indexed(store: DataSetStore, choice: SetChoice, pooled: Pooled, granularities: Sequence[int]) -> Bench:
    """Index a set's documents with chunks of these sizes (in tokens), and embed its questions."""
    store.say(f"  {choice.name} {choice.part}: {counted(len(pooled.questions), 'question')}")
    bench = store.bench(choice, pooled, IndexConfig(granularities=list(granularities), embedding=EACH, compressor=NONE))
    bench.retrievals.prepare([question.item.gold.question.question for question in pooled.questions])
    return bench


def chunks_of(document: str, text: str, granularity: int) -> Sequence[Chunk]:
    """Return the chunks of a text, of ``granularity`` o200k tokens, as an archive has them."""
    return chunk_document(make_document(RawDocument(document, text, document)), granularity)


def sample_of(config: SampleRows, side: Side) -> tuple[SetChoice, Pooled]:
    """Return the sample archive for one of the ``LEARNED`` sides, as a set that can be indexed."""
    seed = config.seed + LEARNED.index(side)
    return SetChoice(name="sample", part=str(seed)), whole(sample_set(config.on(side), seed))


def sample_set(config: SampleRows, seed: int) -> DataSet:
    """Make fictional reports and their answerable questions.

    Raises:
        InputError: The seed is one of ``RESERVED_SEEDS``, or too many questions are requested.
    """
    if seed in RESERVED_SEEDS:
        raise InputError(
            f"The sample seed {seed} is reserved for the published figures ({RESERVED_SEEDS.start} to "
            f"{RESERVED_SEEDS.stop - 1}). Choose another sample.seed."
        )
    sample = generate(config.reports, config.questions, seed, config.words, config.look_ups)
    texts = {document.doc_id: make_text(document.doc_id, document.text) for document in sample.documents}
    items = tuple(
        _item(question, draft.calculation, texts, seed)
        for question, draft in zip(sample.questions, sample.drafts, strict=True)
        if not question.query_id.endswith(UNANSWERABLE)
    )
    return DataSet("sample", str(seed), {text.text_id: text for text in texts.values()}, items)


def _item(question: Question, calculation: str, texts: dict[str, Text], seed: int) -> Item:
    evidence = []
    for place in question.evidence:
        doc_id, start, end = place.rsplit(":", 2)
        evidence.append(Evidence(texts[doc_id].text_id, int(start), int(end)))
    context = [texts[doc_id].text for doc_id in question.doc_ids]
    named = Question(
        f"sample-{seed}-{question.query_id}", question.question, answers=question.answers, type=question.type
    )
    gold = Gold(named, "sample", question.type, grounded(one_part(question.answers), context))
    own = tuple(texts[doc_id].text_id for doc_id in question.doc_ids)
    return Item(gold, question.doc_ids, own, tuple(evidence), calculation=calculation)
