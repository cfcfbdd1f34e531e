"""Make the cross-encoder's training rows: highly ranked chunks of a question, labeled by the evidence in them.

Passages are chunks as in an archive, so a positive may end in the middle of a table, as it does in use. Labels are
derived from the sets' evidence; nothing is paid for. If a model wrote a question about a passage, the passage is the
evidence.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from okralong.lab.datasets.gold import COMMON, answer_recall, findable, words
from okralong.lab.datasets.pooling import Pooled, PooledQuestion, Span
from okralong.lab.datasets.split import Side, question_hash
from okralong.lab.evidence.bench import Bench, fuse_ranks
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore, Say
from okralong.lab.training.recipe import UNKNOWN
from okralong.lab.training.rows.question_writer_rows import Passages, WrittenConfig, WrittenQuestion
from okralong.lab.training.rows.sources import Limit, RowsSettings, SampleRows, chunks_of, indexed, sample_of
from okralong.lab.training.rows.tables import LEARNED, RankingRow
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Chunk, ConfigError, InputError
from okralong.pipelines.core.wording import counted

UNANSWERABLE: Final = "unanswerable"
"""The gold answer of unanswerable questions."""


class RankingConfig(RowsSettings):
    """The content of ``configs/training/ranking.yaml``: sets and options for the cross-encoder's rows.

    For each question and each chunk size (in o200k tokens) there are at most ``positives`` chunks with evidence and
    ``negatives`` without. Half of the negatives are the best of the ``candidates`` chunks that BM25 and vectors each
    return; the others are drawn from the rest. ``wide_sets`` has the names of sets whose evidence is running prose;
    they are also split into chunks of ``wide`` tokens. ``written`` is the config of a question writer.
    """

    sets: list[SetChoice] = Field(min_length=1)
    sample: SampleRows | None = None
    granularity: Annotated[int, Field(ge=16, le=1024)] = 150
    wide: Annotated[int, Field(ge=16, le=1024)] = 400
    wide_sets: list[str] = Field(default_factory=list)
    candidates: Annotated[int, Field(ge=2, le=100)] = 20
    positives: Limit = 2
    negatives: Limit = 5
    written: str = "training/written.yaml"

    def sizes(self, name: str) -> list[int]:
        """Return the chunk sizes of a set, in tokens."""
        return [self.granularity, *([self.wide] if name in self.wide_sets else [])]


def build_ranking(
    config: RankingConfig, data: Path, work: Path, say: Say, written: Sequence[WrittenQuestion] | None = None
) -> dict[Side, list[RankingRow]]:
    """Make the rows of every side except "tune". Archives and vectors are kept below ``work``.

    With ``written``, the "train" rows are only those of these questions. Raises ConfigError or InputError, naming what
    cannot be read.
    """
    rows: dict[Side, list[RankingRow]] = {}
    for side, store in config.stores(data, work, say):
        pooled = _asked(config, store)
        if written is not None and side == "train":
            rows[side] = _written(config, store, pooled, written)
            continue
        pooled += [sample_of(config.sample, side)] if config.sample and side in LEARNED else []
        # If two sets have the same question about a document, the row of the first set is kept, for each chunk size.
        kept: dict[tuple[str, tuple[str, ...], int], RankingRow] = {}
        for choice, questions in pooled:
            sizes = config.sizes(choice.name)
            bench = indexed(store, choice, questions, sizes)
            for size in sizes:
                for row in asyncio.run(rows_of(bench, config, size)):
                    kept.setdefault((question_hash(row.question), row.documents, size), row)
        rows[side] = list(kept.values())
        config.shuffle(rows[side])
    return rows


def passages_to_ask_about(config: RankingConfig, data: Path, work: Path, say: Say) -> Passages:
    """Return the passages of the train side's documents, and the number of questions of each kind to write about each.

    Raises ConfigError or InputError, naming what cannot be read; also if there are no passages.
    """
    kinds = load_config(WrittenConfig, config.written)
    found: dict[str, Mapping[str, int]] = {}
    for _, store in config.stores(data, work, say, ("train",)):
        for choice, pooled in _asked(config, store):
            if (kind := kinds.kind_of(choice.name)) is None:
                continue
            for document in pooled.documents:
                for chunk in chunks_of(document.doc_id, document.text, config.granularity):
                    if len(chunk.text.split()) >= _FEWEST_WORDS:
                        found.setdefault(chunk.text, kinds.kinds[kind].ask)
    if not found:
        raise ConfigError(
            f"The kinds of {config.written} name none of the sets whose rows are made "
            f"({', '.join(choice.name for choice in config.sets)}), or these have no document on the train side, so "
            "there is no passage to ask about. Name one of the sets under a kind."
        )
    return Passages(found, kinds.questions)


_FEWEST_WORDS: Final = 25  # project default
"""Fewest words of a passage about which a question is written."""


def _asked(config: RankingConfig, store: DataSetStore) -> list[tuple[SetChoice, Pooled]]:
    asked = [choice for choice in config.sets if store.read(choice.name, choice.part).items]
    return [(choice, store.pooled(choice, every=True)) for choice in asked]


async def rows_of(bench: Bench, config: RankingConfig, granularity: int) -> list[RankingRow]:
    """Make the rows of a set, which must be indexed with this chunk size. A question without any label has no row."""
    cutter = _Chunks(bench, granularity)
    found = [await _row(bench, cutter, config, granularity, question) for question in bench.pooled.questions]
    return [row for row in found if row is not None]


@dataclass
class _Chunks:
    """All chunks of a document of one size, read once."""

    bench: Bench
    granularity: int
    _known: dict[str, list[Chunk]] = field(default_factory=dict)

    def of(self, doc_id: str) -> list[Chunk]:
        if doc_id not in self._known:
            shards = [client.shard for client in self.bench.retrievals.shards(self.granularity)]
            rows = [(shard, part) for shard in shards for part in shard.rows_of([doc_id])]
            self._known[doc_id] = [chunk for shard, part in rows for chunk in shard.chunks(part)]
        return self._known[doc_id]


async def _row(
    bench: Bench, cutter: _Chunks, config: RankingConfig, granularity: int, question: PooledQuestion
) -> RankingRow | None:
    asked = question.item.gold.question
    impossible = not question.evidence and asked.answers == (UNANSWERABLE,)
    if not question.evidence and not impossible:
        return None
    draw = random.Random(f"{config.seed}:{asked.query_id}:{granularity}")
    found = await bench.retrievals.find(asked.question, question.doc_ids, granularity, config.candidates)
    ranked = [hit.chunk for hit in fuse_ranks(found)]
    holding = {doc_id: cutter.of(doc_id) for doc_id in dict.fromkeys(span.doc_id for span in question.evidence)}
    shares = {
        chunk.chunk_id: (chunk, share)
        for chunks in holding.values()
        for chunk in chunks
        if (share := share_of(chunk, question.evidence)) > 0
    }
    answers = findable(asked.answers)
    positives = sorted(shares.values(), key=lambda pair: -pair[1])[: config.positives]
    positives = [(chunk, share) for chunk, share in positives if share >= _LEAST]
    if not positives and not impossible:
        return None
    # Another chunk that has the answer's words may also answer the question, so it is not a negative.
    others = [c for c in ranked if c.chunk_id not in shares and not _tells(answers, c.text)]
    chosen = _drawn(others, config.negatives, draw)
    return _labelled(bench, question, answers, [*positives, *((chunk, 0.0) for chunk in chosen)])


def _written(
    config: RankingConfig,
    store: DataSetStore,
    sets: Sequence[tuple[SetChoice, Pooled]],
    written: Sequence[WrittenQuestion],
) -> list[RankingRow]:
    """Make the rows of written questions, in a random order. A passage of several documents belongs to the first."""
    kinds = load_config(WrittenConfig, config.written)
    about: dict[str, list[WrittenQuestion]] = defaultdict(list)
    for each in written:
        if each.kind not in kinds.kinds:
            raise InputError(
                f"A written question is of the kind {each.kind!r}, which {config.written} has not. Give the config "
                "that it was written for, or delete written.jsonl to write the questions again."
            )
        about[each.passage].append(each)
    rows: list[RankingRow] = []
    for choice, pooled in sets:
        asked = [
            (chunk, each)
            for document in pooled.documents
            for chunk in chunks_of(document.doc_id, document.text, config.granularity)
            for each in about.pop(chunk.text, ())
        ]
        if asked:
            bench = indexed(store, choice, pooled, [config.granularity])
            bench.retrievals.prepare([each.question for _, each in asked])
            rows += asyncio.run(_written_rows(bench, config, kinds, asked, len(rows)))
            store.say(f"  {choice.name}: written {counted(len(asked), 'question')}; {counted(len(rows), 'row')} so far")
    if not rows:
        raise InputError(
            f"Of {len(written):,} written questions none is about a passage of the sets' documents that the retrievers "
            "find for it. Were they written for another config? Delete written.jsonl to write them again."
        )
    config.shuffle(rows)
    counts: Counter[str] = Counter()
    kept = []
    for row in rows:
        counts[row.source] += 1
        if counts[row.source] <= (kinds.kinds[row.source.removeprefix(_WRITTEN)].most or len(rows)):
            kept.append(row)
    return kept


_WRITTEN: Final = "written "
"""Prefix of ``source`` in rows whose question a model wrote. The kind of question follows."""


async def _written_rows(
    bench: Bench,
    config: RankingConfig,
    kinds: WrittenConfig,
    asked: Sequence[tuple[Chunk, WrittenQuestion]],
    number: int,
) -> list[RankingRow]:
    rows: list[RankingRow] = []
    for chunk, each in asked:
        found = await bench.retrievals.find(each.question, (chunk.doc_id,), config.granularity, config.candidates)
        ranked = [hit.chunk for hit in fuse_ranks(found)]
        # A passage that its question does not retrieve is skipped: often the question is answered elsewhere, or
        # nowhere.
        if all(hit.text != chunk.text for hit in ranked[: kinds.found]):
            continue
        answers = (each.answer,) if each.answer else ()
        others = [hit for hit in ranked if hit.text != chunk.text and not _tells(answers, hit.text)]
        chosen = _drawn(others, kinds.negatives, random.Random(each.question))
        # If the answer is not in the passage, the question may need more than one passage.
        held = (1, 0) if answers else (UNKNOWN, UNKNOWN)
        # The place of an answer that occurs twice is unknown.
        start, end = each.places[0] if len(each.places) == 1 else (-1, -1)
        rows.append(
            RankingRow(
                query_id=f"written-{number + len(rows)}",
                source=f"{_WRITTEN}{each.kind}",
                documents=(chunk.doc_id,),
                question=each.question,
                passages=(chunk.text, *(hit.text for hit in chosen)),
                relevance=(1.0, *(0.0 for _ in chosen)),
                answerable=(held[0], *(held[1] for _ in chosen)),
                starts=(start, *(-1 for _ in chosen)),
                ends=(end, *(-1 for _ in chosen)),
            )
        )
    return rows


def _drawn(others: Sequence[Chunk], count: int, draw: random.Random) -> list[Chunk]:
    """Return ``count`` of the chunks: half of them are the first ones, the others are drawn."""
    first = (count + 1) // 2
    rest = others[first:]
    return [*others[:first], *draw.sample(rest, min(len(rest), count - first))]


_LEAST: Final = 0.3  # project default
"""A chunk with some evidence, but less than this share of every piece, is neither positive nor negative."""

_SURE: Final = 0.9  # project default
"""If the words of an answer cannot be searched, a chunk has the answer if it has this share of the evidence.

It is less than 1 because a sentence may end in the next chunk."""


def share_of(chunk: Chunk, evidence: Sequence[Span]) -> float:
    """Return the share of a piece of evidence that is in the chunk, or of the chunk that is evidence if larger."""
    best = 0.0
    for span in evidence:
        if span.doc_id == chunk.doc_id:
            shared = min(chunk.end_char, span.end_char) - max(chunk.start_char, span.start_char)
            least = max(1, min(span.end_char - span.start_char, chunk.end_char - chunk.start_char))
            best = max(best, min(1.0, shared / least))
    return best


def _labelled(
    bench: Bench, question: PooledQuestion, answers: Sequence[str], chosen: Sequence[tuple[Chunk, float]]
) -> RankingRow:
    asked = question.item.gold.question
    # If there are several pieces, it is unknown if one alone answers the question, even if it has the answer's words.
    alone = len(question.evidence) == 1
    held, places = [], []
    for chunk, share in chosen:
        place = place_of(chunk, question.evidence, asked.question, asked.answers, answers) if share else None
        told = alone and (place is not None or (not answers and _covers(chunk, question.evidence[0])))
        held.append(1 if told else UNKNOWN if share else 0)
        places.append(place or (-1, -1))
    if 1 not in held and question.evidence:
        # If there were only negatives, the model would learn that such questions are never answered.
        held = [UNKNOWN] * len(held)
    return RankingRow(
        query_id=asked.query_id,
        source=bench.name,
        documents=question.item.documents or question.doc_ids,
        question=asked.question,
        passages=tuple(chunk.text for chunk, _ in chosen),
        relevance=tuple(share for _, share in chosen),
        answerable=tuple(held),
        starts=tuple(start for start, _ in places),
        ends=tuple(end for _, end in places),
    )


def _covers(chunk: Chunk, span: Span) -> bool:
    """Return whether the chunk contains the piece of evidence, except for a few characters."""
    shared = min(chunk.end_char, span.end_char) - max(chunk.start_char, span.start_char)
    return chunk.doc_id == span.doc_id and shared >= _SURE * (span.end_char - span.start_char)


def _tells(answers: Sequence[str], text: str) -> bool:
    """Return whether the text contains the answer. Short numbers are ignored, because they occur anywhere."""
    return any(len(answer) > 3 and answer_recall(((answer,),), [text]) for answer in answers)


def place_of(
    chunk: Chunk, evidence: Sequence[Span], question: str, gold: Sequence[str], answers: Sequence[str]
) -> tuple[int, int] | None:
    """Return the range of the answer in the chunk, within its evidence, or None.

    An answer that is a whole sentence is located by those of its words that the question lacks.
    """
    for span in evidence:
        if span.doc_id != chunk.doc_id:
            continue
        start = max(0, span.start_char - chunk.start_char)
        text = chunk.text[: max(0, span.end_char - chunk.start_char)]
        for answer in answers:
            pattern = r"\s+".join(map(re.escape, answer.split()))
            match = re.compile(rf"(?<!\w){pattern}(?!\w)", re.IGNORECASE).search(text, start)
            if match is not None:
                return match.span()
        if not answers:
            for answer in gold:
                if (place := covering_span(text, start, question, answer)) is not None:
                    return place
    return None


_WORD: Final = re.compile(r"\d[\d.,]*\d|\w+")
_MOST_EXTRA: Final = 4  # project default
"""The most words of a range besides the wanted ones."""
_FEWEST: Final = 1


def covering_span(text: str, start: int, question: str, answer: str) -> tuple[int, int] | None:
    """Return the shortest range after ``start`` that has all words of the answer that the question lacks, or None."""
    wanted = set(words(answer)) - set(words(question)) - COMMON
    if not _FEWEST <= len(wanted) <= 20:
        return None
    tokens = [(match.start(), match.end(), frozenset(words(match[0]))) for match in _WORD.finditer(text, start)]
    best: tuple[int, int] | None = None
    for first, last in _windows([found & wanted for *_, found in tokens], wanted):
        if last - first + 1 <= len(wanted) * 2 + _MOST_EXTRA and (best is None or last - first < best[1] - best[0]):
            best = first, last
    return None if best is None else (tokens[best[0]][0], tokens[best[1]][1])


def _windows(found: Sequence[frozenset[str]], wanted: set[str]) -> Iterator[tuple[int, int]]:
    """Yield each minimal range of indexes (both ends included) whose words include all wanted words."""
    counts = dict.fromkeys(wanted, 0)
    left = 0
    for right, here in enumerate(found):
        for word in here:
            counts[word] += 1
        while all(counts.values()):
            if found[left]:
                yield left, right
            for word in found[left]:
                counts[word] -= 1
            left += 1
