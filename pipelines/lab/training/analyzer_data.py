"""What models learn from: plain values, for a machine that has little but PyTorch."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Protocol

import pyarrow as pa
from pydantic import Field

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput
from okralong.pipelines.answering.analyzer import labels_by_generator
from okralong.pipelines.answering.citations import Ask
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import primary_retrieval
from okralong.pipelines.core.config import Settings, load_config
from okralong.pipelines.core.schemas import TRAINING_ROWS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    QUESTION_MARK,
    CallFailed,
    Candidates,
    EndpointError,
    InputError,
    Message,
    OverBudget,
    Pattern,
    Question,
    QuestionError,
    QuestionType,
    Reply,
    ReplyError,
    RetrieverScores,
)
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.lab.datasets.base import (
    Catalog,
    DataSet,
    Evidence,
    Item,
    Text,
    grounded,
    load_catalog,
    make_text,
    one_part,
)
from okralong.pipelines.lab.datasets.pooling import Pooled, PooledQuestion, whole
from okralong.pipelines.lab.datasets.registry import read_dataset
from okralong.pipelines.lab.encoder import cached_encoder
from okralong.pipelines.lab.evidence.bench import Bench, Retrievals, gold_labels
from okralong.pipelines.lab.evidence.config import SetChoice
from okralong.pipelines.lab.evidence.sets import Say, Shelf, drawn, measurable
from okralong.pipelines.lab.gold import Gold
from okralong.pipelines.lab.split import MANIFEST, SIDES, Side, Split, SplitRules, build_split, question_hash
from okralong.pipelines.llm.client import LlmClient
from okralong.pipelines.llm.config import ANALYZE
from okralong.pipelines.samples.questions import MINIMUM_WORDS, UNANSWERABLE, generate
from okralong.pipelines.sara.artifact import NONE

UNKNOWN: Final = -100
"""The index of a label that nobody knows: PyTorch's own sign for "not in the loss"."""


class Learned(Protocol):
    """What a training needs of an example to put batches together. Its repr tells it from others."""

    @property
    def length(self) -> int:
        """Characters that a model reads and writes of it."""

    @property
    def instructions(self) -> str:
        """What prompts share that may stand in one batch."""

    @property
    def context(self) -> str:
        """What prompts share beyond that; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its labels as indices into TYPES, PATTERNS and EVIDENCE, UNKNOWN where nobody knows."""

    asked: AnalysisInput
    labels: tuple[int, int, int]

    @property
    def length(self) -> int:
        """Characters that a model reads of it: what its tokens grow with."""
        return len(self.asked.question) + sum(map(len, self.asked.passages))

    @property
    def instructions(self) -> str:
        """What prompts share that may stand in one batch: an analyzer has but one."""
        return ""

    @property
    def context(self) -> str:
        """What prompts share beyond that: nothing."""
        return ""


@dataclass(frozen=True, slots=True)
class ReadingExample:
    """A prompt of the executor and the reply that is to be learned; ``instructions`` are its system message."""

    instructions: str
    user: str
    reply: str

    @property
    def context(self) -> str:
        """The passages, which prompts may share that ask of the same ones; empty where there are none."""
        return self.user[: max(0, self.user.rfind(QUESTION_MARK))]

    @property
    def length(self) -> int:
        """Characters that a model reads and writes of it."""
        return len(self.instructions) + len(self.user) + len(self.reply)


AnyExample = Example | ReadingExample


def example(asked: AnalysisInput, question_type: str | None, pattern: str | None, evidence: bool | None) -> Example:
    """An example from labels by name."""
    said = None if evidence is None else EVIDENCE[0 if evidence else 1]
    pairs: tuple[tuple[str | None, Sequence[str]], ...] = (
        (question_type, TYPES),
        (pattern, PATTERNS),
        (said, EVIDENCE),
    )
    kind, how, held = (UNKNOWN if label is None else labels.index(label) for label, labels in pairs)
    return Example(asked, (kind, how, held))


def write_examples(path: Path, examples: Sequence[AnyExample]) -> None:
    """One JSON object a line, for a machine without Parquet."""
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in examples), encoding="utf-8")


def read_examples(path: Path) -> list[AnyExample]:
    """What ``write_examples`` wrote."""
    found: list[AnyExample] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "reply" in row:
            found.append(ReadingExample(**row))
            continue
        asked = row["asked"]
        scores = RetrieverScores(**{name: tuple(values) for name, values in asked["scores"].items()})
        found.append(Example(AnalysisInput(asked["question"], tuple(asked["passages"]), scores), tuple(row["labels"])))
    return found


# --------
# What the analyzer learns from: a question with its primary chunks, what retrieval saw, and its labels.
#
# A label that nobody knows is None, and has no part in the loss.

_FILE: Final = "rows.parquet"
_LISTS: Final = ("documents", "passages", "exact_scores", "semantic_scores", "semantic_ranks")


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """One question. ``source`` is "set part"; ``documents`` are those that it asks about, by which figures cluster.

    ``passages`` are the texts of its primary chunks, best first, empty where its set gives no document;
    ``exact_scores``, ``semantic_scores`` and ``semantic_ranks`` are what ``RetrieverScores`` says.
    ``pattern`` and ``evidence`` (do the passages hold all that is needed) are None where the set marks neither evidence
    nor an answer to look for; ``type`` is None until somebody labels a question that came without one.
    """

    query_id: str
    source: str
    documents: tuple[str, ...]
    question: str
    passages: tuple[str, ...]
    exact_scores: tuple[float, ...]
    semantic_scores: tuple[float, ...]
    semantic_ranks: tuple[int, ...]
    type: QuestionType | None
    pattern: Pattern | None
    evidence: bool | None

    @property
    def scores(self) -> RetrieverScores:
        """What the analyzer is told of the retrievers."""
        return RetrieverScores(self.exact_scores, self.semantic_scores, self.semantic_ranks)

    @property
    def set_name(self) -> str:
        """The set's name without its part."""
        return self.source.split(" ", 1)[0]


def write_rows(folder: Folder, side: Side, rows: Sequence[TrainingRow]) -> None:
    """Write the rows of one side of the split; those that stood there are replaced."""
    _table(folder, side).write_table(_FILE, pa.Table.from_pylist([asdict(row) for row in rows], schema=TRAINING_ROWS))


def read_rows(folder: Folder, side: Side) -> list[TrainingRow]:
    """The rows of one side, in the order written.

    Raises InputError when there are none, ArchiveError when another version of okralong wrote them.
    """
    found = _table(folder, side).read_tables(TRAINING_ROWS).to_pylist()
    if not found:
        raise InputError(
            f"{_table(folder, side).path} holds no training rows. Make them with `okralong train-data DATA --out DIR`; "
            "questions that share a document stand on one side, so few documents may leave a side empty."
        )
    return [TrainingRow(**{**row, **{name: tuple(row[name]) for name in _LISTS}}) for row in found]


def without_sets(rows: Sequence[TrainingRow], sets: Sequence[str], must_be_there: bool = True) -> list[TrainingRow]:
    """The rows that come from none of the ``sets``, whatever their part. Raises InputError for a set without rows."""
    names = sorted({row.set_name for row in rows})
    for name in sets:
        if must_be_there and name not in names:
            raise InputError(
                f"No row comes from a set {name!r}, so it cannot be left out. There are {', '.join(names)}."
            )
    return [row for row in rows if row.set_name not in sets]


def _table(folder: Folder, side: Side) -> Folder:
    return folder.at(f"side={side}")


# --------
# As many rows of each type as of any other, dealt over the sources in turn.


def balanced(rows: Iterable[TrainingRow], per_type: int, seed: int) -> list[TrainingRow]:
    """At most ``per_type`` rows of each type, in a seeded order that does not depend on the order given.

    Rows without a type are left out.

    A source that has fewer rows of a type than its turn would give leaves its place to the others. Within a source,
    rows with passages go first: they teach all three labels.
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


# --------
# Training rows of a set: our own primary retrieval over its pooled documents, and the labels that follow from it.


@dataclass(frozen=True)
class _Lookup:
    """A ``Retriever`` for one question of a bench."""

    retrievals: Retrievals
    policy: Policy
    doc_ids: tuple[str, ...]

    async def retrieve(self, step: str, query: str, *, granularity: int, k: int) -> Candidates:
        """See ``Tools``."""
        return await self.retrievals.find(query, self.doc_ids, granularity, k)


async def rows_of(bench: Bench, policy: Policy) -> list[TrainingRow]:
    """A row for each question of a set that is indexed at the policy's chunk sizes."""
    return [await _row(bench, policy, question) for question in bench.pooled.questions]


def questions_only(source: str, items: Iterable[Item]) -> list[TrainingRow]:
    """Rows of questions whose set gives no document: the type is all that can be learned of them."""
    return [
        TrainingRow(
            query_id=item.gold.question.query_id,
            source=source,
            documents=item.documents,
            question=item.gold.question.question,
            passages=(),
            exact_scores=(),
            semantic_scores=(),
            semantic_ranks=(),
            type=_type(item.gold.question),
            pattern=None,
            evidence=None,
        )
        for item in items
    ]


async def _row(bench: Bench, policy: Policy, question: PooledQuestion) -> TrainingRow:
    asked = question.item.gold.question
    tools = _Lookup(bench.retrievals, policy, question.doc_ids)
    chunks, scores = await primary_retrieval(tools, "primary/retrieve", asked.question)
    granularity = policy.primary.granularity
    labels = await gold_labels(bench.retrievals, bench.texts, question, granularity, chunks)
    pattern, evidence = labels or (None, None)
    return TrainingRow(
        query_id=asked.query_id,
        source=bench.name,
        documents=question.item.documents or question.doc_ids,
        question=asked.question,
        passages=tuple(hit.chunk.text for hit in chunks),
        exact_scores=scores.exact,
        semantic_scores=scores.semantic,
        semantic_ranks=scores.semantic_ranks,
        type=_type(asked),
        pattern=pattern,
        evidence=evidence,
    )


def _type(asked: Question) -> QuestionType | None:
    return asked.type if asked.type in TYPES else None


# --------
# Labels by a generator, for rows that their set leaves unlabelled: paid for once, within the cap, in a ledger.

PATH = "train-data/analyze"
"""The step under which labels stand in journal and ledger."""


@dataclass(frozen=True)
class Labelled:
    """Rows in their order, labelled where it could be done; ``counts`` of "labelled", "over_budget", "failed"."""

    rows: list[TrainingRow]
    counts: dict[str, int]


def is_unlabelled(row: TrainingRow) -> bool:
    """Whether a generator could say more of a row than its set does; without passages only the type can be said."""
    return row.type is None or bool(row.passages and (row.pattern is None or row.evidence is None))


async def label_rows(rows: Sequence[TrainingRow], client: LlmClient, at_once: int) -> Labelled:
    """Ask for what is missing, ``at_once`` rows at a time. What a set says itself is never overwritten.

    A reply of no use, a call that failed and a cap that is reached leave a row as it is. Raises EndpointError when the
    endpoint is gone, once the calls in flight have ended; what was labelled until then is in the journal, and costs
    nothing the next time.
    """
    counts: Counter[str] = Counter()
    places = asyncio.Semaphore(at_once)
    gone: list[EndpointError] = []

    async def one(row: TrainingRow) -> TrainingRow:
        if not is_unlabelled(row):
            return row
        ask: Ask = partial(_ask, client, f"{row.source}/{row.query_id}")
        async with places:
            if gone:
                return row
            try:
                said = await labels_by_generator(ask, PATH, AnalysisInput(row.question, row.passages))
            except EndpointError as error:
                gone.append(error)
                return row
            except OverBudget:
                counts["over_budget"] += 1
                return row
            except (ReplyError, CallFailed, QuestionError):
                counts["failed"] += 1
                return row
        counts["labelled"] += 1
        if not row.passages:
            return replace(row, type=said.type)
        return replace(
            row,
            type=row.type or said.type,
            pattern=row.pattern or said.pattern,
            evidence=said.evidence if row.evidence is None else row.evidence,
        )

    found = list(await asyncio.gather(*map(one, rows)))
    if gone:
        raise gone[0]
    return Labelled(found, dict(counts))


async def _ask(client: LlmClient, query_id: str, step: str, messages: Sequence[Message]) -> Reply:
    return await client.complete(query_id, step, ANALYZE, messages)


# --------
# The data card of the training rows: how many there are, by set, class and field, and where they come from.

_HEAD = """# Training rows of the analyzer

Made by `okralong train-data`; do not edit. The rows hold the sets' own texts, under the sets' own licences; those of
`sample` are made up.

*type* follows from the set's own annotation (`question_types.yaml`){labeller}. *pattern* says whether the first five
chunks of BM25 or those of the dense retriever hold more of the gold evidence, *evidence* whether the primary chunks
hold all of it: both by our own retrieval over documents pooled to the length that the config says. "unknown" has no
part in the loss. The train side is balanced by type.
"""


def rows_card(rows: Mapping[Side, Sequence[TrainingRow]], labeller: str | None = None) -> str:
    """The card as Markdown. ``labeller`` names the model that labelled what the sets leave open, if one did."""
    said = "" if labeller is None else f"; what sets left open on train and validation was labelled by {labeller}"
    parts = [_HEAD.strip().replace("{labeller}", said)]
    for side, found in rows.items():
        documents = len({document for row in found for document in row.documents})
        parts.append(f"## {side}: {len(found):,} rows on {documents:,} documents")
        parts.append(_table_rows_card(found))
    return "\n\n".join(parts) + "\n"


def _table_rows_card(rows: Sequence[TrainingRow]) -> str:
    head = ["source", "rows", *TYPES, *PATTERNS, "pattern unknown", "holds evidence", "does not", "evidence unknown"]
    sources = [*dict.fromkeys(row.source for row in rows)]
    lines = [_line(source, [row for row in rows if row.source == source]) for source in sources]
    lines.append(_line("all", rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def _line(name: str, rows: Sequence[TrainingRow]) -> list[str]:
    types = Counter(row.type for row in rows)
    patterns = Counter(row.pattern for row in rows)
    evidence = Counter(row.evidence for row in rows)
    counts = [len(rows), *(types[t] for t in TYPES), *(patterns[p] for p in (*PATTERNS, None))]
    return [name, *(f"{count:,}" for count in (*counts, evidence[True], evidence[False], evidence[None]))]


# --------
# What ``configs/training/rows.yaml`` may say: of which sets the analyzer's training rows are made.

Limit = Annotated[int, Field(ge=1)]


class QuestionsOnly(Settings):
    """A set that gives no documents, or whose documents are left aside: only the type is learned. ``limit`` a side."""

    name: str
    part: str
    limit: Limit | None = None


class SampleRows(Settings):
    """Rows from the sample archive, for types of which the sets hold few; for train and validation alone."""

    reports: Annotated[int, Field(ge=2)]
    questions: Limit
    words: Annotated[int, Field(ge=MINIMUM_WORDS)]
    seed: int = 1000


class RowsConfig(Settings):
    """All rows of all sides.

    ``policy`` is the one whose primary retrieval finds the passages. ``per_type`` caps the rows of a type on the train
    side, dealt over its sources in turn, so that neither a type nor a set drowns the others. ``limit`` of a set counts
    for each side. With ``every`` questions of which neither evidence nor answer is known have a row, too: they teach
    the type. ``split`` is a manifest as `okralong split` writes it, or the rules by which the ``sets`` are split here.
    """

    seed: int = 7
    policy: str = "policy/default.yaml"
    sets: list[SetChoice] = Field(min_length=1)
    questions_only: list[QuestionsOnly] = Field(default_factory=list)
    sample: SampleRows | None = None
    per_type: Limit
    every: bool = False
    catalog: str = "datasets.yaml"
    split: str | SplitRules = MANIFEST


# --------
# The sample archive as a data set, for rows of which the public sets hold few.

NAME = "sample"


def sample_set(config: SampleRows, seed: int) -> DataSet:
    """Fictional reports and their answerable questions. Raises InputError when so many cannot be had."""
    sample = generate(config.reports, config.questions, seed, config.words)
    texts = {document.doc_id: make_text(document.doc_id, document.text) for document in sample.documents}
    asked = [
        (question, draft.calculation)
        for question, draft in zip(sample.questions, sample.drafts, strict=True)
        if not question.query_id.endswith(UNANSWERABLE)
    ]
    items = tuple(_item(question, calculation, texts, seed) for question, calculation in asked)
    return DataSet(NAME, str(seed), {text.text_id: text for text in texts.values()}, items)


def _item(question: Question, calculation: str, texts: dict[str, Text], seed: int) -> Item:
    evidence = []
    for place in question.evidence:
        doc_id, start, end = place.rsplit(":", 2)
        evidence.append(Evidence(texts[doc_id].text_id, int(start), int(end)))
    context = [texts[doc_id].text for doc_id in question.doc_ids]
    named = Question(
        f"sample-{seed}-{question.query_id}", question.question, answers=question.answers, type=question.type
    )
    gold = Gold(named, NAME, question.type, grounded(one_part(question.answers), context))
    own = tuple(texts[doc_id].text_id for doc_id in question.doc_ids)
    return Item(gold, question.doc_ids, own, tuple(evidence), calculation=calculation)


# --------
# From data sets to training rows, side by side of the split. Nothing is paid; what was embedded before is kept.

LEARNED: Final[tuple[Side, ...]] = ("train", "validation")
"""Sides that take rows of the sample archive and labels of a model: figures, and what is tuned, rest on real sets and
their own annotation alone."""

LabelRows = Callable[[list[TrainingRow]], list[TrainingRow]]


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


def build_rows(
    config: RowsConfig, data: Path, work: Path, say: Say, label: LabelRows | None = None
) -> dict[Side, list[TrainingRow]]:
    """The rows of every side; those of train balanced by type. Archives and vectors are kept below ``work``.

    ``label`` may say more of the rows that models learn from; then questions without evidence or answer have a row,
    too. Rows whose type nobody knows are left out. Raises ConfigError or InputError naming what cannot be read.
    """
    policy = load_config(Policy, config.policy)
    catalog, encoder = load_catalog(config.catalog), cached_encoder(work)
    split = _split(config, catalog, data)
    rows: dict[Side, list[TrainingRow]] = {}
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
    return rows


def _split(config: RowsConfig, catalog: Catalog, data: Path) -> Split:
    if isinstance(config.split, str):
        return Split.load(config.split)
    named = [(choice.name, choice.part) for choice in config.sets]
    named += [(choice.name, choice.part) for choice in config.questions_only]
    sources = [source for source in catalog.sources if (source.name, source.part) in named]
    split, _ = build_split([read_dataset(source, data) for source in sources], config.split)
    return split


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
