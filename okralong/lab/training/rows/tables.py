"""Define the rows that each model learns from, their storage for each side of the split, and their data card.

There is a kind of row for analyzers, reader adapters, cross-encoders and token classifiers, each made by the module of
that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from okralong.lab.datasets.pooling import Span
from okralong.lab.datasets.split import SIDES, Side
from okralong.lab.training.recipe import ANSWERED, ASKED, Example, example
from okralong.lab.training.rows.schemas import KEEP_ROWS, RANKING_ROWS, READING_ROWS, TRAINING_ROWS
from okralong.pipelines.answering.analyzers.analysis import PATTERNS, TYPES, AnalysisInput
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import (
    InputError,
    Message,
    Passage,
    Pattern,
    QuestionType,
    RetrieverScores,
    ShownPart,
)
from okralong.pipelines.reporting.tables import markdown_table

LEARNED: Final[tuple[Side, ...]] = ("train", "validation")
"""Sides that may have rows from the sample archive and labels by a model.

Figures and tuned values are based only on real sets and their own annotation."""

MODEL_SIDES: Final[tuple[Side, ...]] = tuple(side for side in SIDES if side != "tune")
"""Sides of the rows of every model except the analyzer. "tune" is reserved for choosing values of the policy."""


class AnyRow(Protocol):
    """The fields of all rows. ``source`` is "set part"; figures cluster by ``documents``, those asked about."""

    @property
    def source(self) -> str: ...  # noqa: D102

    @property
    def documents(self) -> tuple[str, ...]: ...  # noqa: D102


R = TypeVar("R", bound=AnyRow)


@dataclass(frozen=True)
class RowTable(Generic[R]):
    """Stores a kind of row. ``make`` turns stored values into a row, ``counts`` has the columns of the card.

    ``missing`` is the end of the error message for a folder without such rows; ``head`` is the beginning of the card.
    """

    file: str
    schema: pa.Schema
    make: Callable[[dict[str, Any]], R]
    missing: str
    head: str
    counts: Callable[[Sequence[R]], dict[str, int]]

    def write(self, folder: Folder, side: Side, rows: Sequence[R]) -> None:
        """Write the rows of a side of the split, replacing earlier ones."""
        values: list[Any] = list(rows)  # dataclasses, which a protocol cannot express
        folder.at(f"side={side}").write_table(
            self.file, pa.Table.from_pylist([asdict(row) for row in values], schema=self.schema)
        )

    def read(self, folder: Folder, side: Side) -> list[R]:
        """Return the rows of a side, in the order in which they were written.

        Raises InputError if there are none, ArchiveError if another version of okralong wrote them.
        """
        table = folder.at(f"side={side}")
        found = table.read_tables(self.schema).to_pylist()
        if not found:
            raise InputError(f"{table.path} holds no {self.missing}")
        return [self.make({name: tuple(v) if isinstance(v, list) else v for name, v in row.items()}) for row in found]

    def card(self, rows: Mapping[Side, Sequence[R]], labeller: str | None = None) -> str:
        """Return the data card as Markdown: rows by side, set and class.

        ``labeller`` is the name of the model that added labels which the sets lack.
        """
        said = f"; what sets left open on train and validation was labelled by {labeller}" if labeller else ""
        explainer = f" that {labeller} wrote" if labeller else ""
        sections = [self.head.replace("{labeller}", said).replace("{explainer}", explainer)]
        for side, found in rows.items():
            documents = len({document for row in found for document in row.documents})
            sections.append(f"## {side}: {len(found):,} rows on {documents:,} documents")
            groups = {name: [row for row in found if row.source == name] for name in sorted({r.source for r in found})}
            lines = [
                [name, *(f"{count:,}" for count in (len(group), *self.counts(group).values()))]
                for name, group in {**groups, "all": list(found)}.items()
            ]
            sections.append(markdown_table(["source", "rows", *self.counts(())], lines))
        return "\n\n".join(sections) + "\n"


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A row for analyzers: a question with its primary chunks, the retrievers' scores and its labels.

    ``source`` is "set part"; ``documents`` are those asked about, by which figures cluster. ``passages`` has the texts
    of the primary chunks, best first; it is empty if the set has no documents. For the scores see ``RetrieverScores``.
    A label that is None is unknown and does not count in the loss. ``pattern`` and ``evidence`` (whether the passages
    contain everything needed) are None if the set has neither evidence nor a searchable answer, ``type`` until a
    question without a type is labeled.
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
        """The retrievers' scores in the form that the analyzer receives."""
        return RetrieverScores(self.exact_scores, self.semantic_scores, self.semantic_ranks)

    @property
    def example(self) -> Example:
        """The example that an analyzer learns from."""
        asked = AnalysisInput(self.question, self.passages, self.scores)
        return example(asked, self.type, self.pattern, self.evidence)

    @property
    def set_name(self) -> str:
        """The set's name without its part."""
        return self.source.split(" ", 1)[0]


def _analyzer_counts(rows: Sequence[TrainingRow]) -> dict[str, int]:
    types, patterns = Counter(row.type for row in rows), Counter(row.pattern for row in rows)
    evidence = Counter(row.evidence for row in rows)
    return {
        **{each: types[each] for each in TYPES},
        **{each: patterns[each] for each in PATTERNS},
        "pattern unknown": patterns[None],
        "holds evidence": evidence[True],
        "does not": evidence[False],
        "evidence unknown": evidence[None],
    }


ANALYZER_ROWS: Final = RowTable[TrainingRow](
    "rows.parquet",
    TRAINING_ROWS,
    lambda values: TrainingRow(**values),
    "training rows. Make them with `okralong train-data DATA --out DIR`; questions that share a document stand on one "
    "side, so a side may be empty if there are few documents.",
    """# Training rows of the analyzer

Made by `okralong train-data`; do not edit. The rows hold the sets' own texts, under the sets' own licences; those of
`sample` are made up.

*type* follows from the set's own annotation (`question_types.yaml`){labeller}. *pattern* says whether the first five
chunks of BM25 or those of the dense retriever hold more of the gold evidence, *evidence* whether the primary chunks
hold all of it: both by our own retrieval over documents pooled to the length that the config says. "unknown" has no
part in the loss. The train side is balanced by type.""",
    _analyzer_counts,
)


RATIONALE: Final = "rationale"


@dataclass(frozen=True, slots=True)
class ReadingRow:
    """A row for reader adapters: a prompt as in a run, and the perfect reply.

    ``source`` is "set part"; figures cluster by ``documents``. ``role`` is "generate", "split", "step" or "rationale"
    (InstructRAG's, see ``labels``). ``passages`` are those of the prompt, ``evidence`` the gold spans, ``answers`` the
    gold wordings. If the evidence was held back, ``answerable`` is false and the answer is "unanswerable".
    ``calculator`` is true if the prompt asks for the expression of a calculation.
    """

    query_id: str
    source: str
    documents: tuple[str, ...]
    role: str
    type: str
    question: str
    system: str
    user: str
    reply: str
    answers: tuple[str, ...]
    answerable: bool
    calculator: bool
    passages: tuple[Passage, ...] = ()
    evidence: tuple[Span, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """The prompt."""
        return [Message("system", self.system), Message("user", self.user)]


def _reading_row(values: dict[str, Any]) -> ReadingRow:
    passages = tuple(
        Passage(**{**each, "shown": tuple(ShownPart(**part) for part in each["shown"] or ())}, n_tokens=0, score=0.0)
        for each in values["passages"]
    )
    evidence = tuple(Span(**each) for each in values["evidence"])
    return ReadingRow(**{**values, "passages": passages, "evidence": evidence})


def _reader_counts(rows: Sequence[ReadingRow]) -> dict[str, int]:
    answers = [row for row in rows if row.role in ("generate", RATIONALE)]
    types, roles = Counter(row.type for row in answers if row.answerable), Counter(row.role for row in rows)
    return {
        **{each: types[each] for each in TYPES},
        "held back": sum(not row.answerable for row in answers),
        "expressions": sum(row.calculator and row.answerable for row in answers),
        "split": roles["split"],
        "step": roles["step"],
        "rationales": roles[RATIONALE],
    }


READER_ROWS: Final = RowTable[ReadingRow](
    "reading.parquet",
    READING_ROWS,
    _reading_row,
    "reading rows. Make them with `okralong train-data DATA --config training/reading.yaml --out DIR`.",
    """# Reading rows

Made by `okralong train-data --for reader`; do not edit. The rows are not in the repository: they hold the sets' own
texts, under the sets' own licences; those of `sample` are made up. Contexts are our own retrieval's, prompts the
executor's, replies follow from the sets' annotation. *held back*: the passages do not hold the answer, and the reply
says so. *expressions*: the prompt asks for a calculation's expression, which the executor evaluates. *rationales*: the
prompt is InstructRAG's, and the reply begins with an explanation{explainer}.""",
    _reader_counts,
)


@dataclass(frozen=True, slots=True)
class RankingRow:
    """A row for cross-encoders: a question with passages, those with evidence first.

    ``source`` is "set part"; ``documents`` are those asked about. Each passage has a ``relevance`` (the share of a
    piece of evidence in it, 0 to 1), an ``answerable`` label (1, 0, or -100 if unknown), and the range of the answer in
    ``starts`` and ``ends`` (-1 if unknown or absent).
    """

    query_id: str
    source: str
    documents: tuple[str, ...]
    question: str
    passages: tuple[str, ...]
    relevance: tuple[float, ...]
    answerable: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def _ranking_counts(rows: Sequence[RankingRow]) -> dict[str, int]:
    held = Counter(value for row in rows for value in row.answerable)
    return {
        "passages": sum(len(row.passages) for row in rows),
        "relevant": sum(value > 0 for row in rows for value in row.relevance),
        "hold the answer": held[1],
        "do not": held[0],
        "with its place": sum(start >= 0 for row in rows for start in row.starts),
    }


RANKING: Final = RowTable[RankingRow](
    "ranking.parquet",
    RANKING_ROWS,
    lambda values: RankingRow(**values),
    "ranking rows. Make them with `okralong train-data DATA --for cross_encoder --out DIR`.",
    """# Rows of the cross-encoder

Made by `okralong train-data --for cross_encoder`; do not edit. The rows are not in the repository: they hold the sets'
own texts, under the sets' own licences; those of `sample` are made up. Passages are our own chunks, those without
evidence what our own retrievers rank high. An answer's place is where its words stand within the evidence; of an answer
in sentences, where the words stand that the question does not have. Questions of sources that begin with *written* are
those of a question writer about a passage of the sets' documents, which is their evidence.""",
    _ranking_counts,
)


@dataclass(frozen=True, slots=True)
class KeepRow:
    """A row for token classifiers: a passage with evidence, and a label for each of its words.

    A word (see ``words_in``) in a question's evidence has the label 1 if the question names it and 2 if an answer does;
    all others have the label 0. ``source`` is "set part"; ``documents`` has the document of the passage.
    """

    source: str
    documents: tuple[str, ...]
    text: str
    labels: tuple[int, ...]


def _keep_counts(rows: Sequence[KeepRow]) -> dict[str, int]:
    labels = Counter(label for row in rows for label in row.labels)
    return {"words": labels.total(), "named by questions": labels[ASKED], "by answers": labels[ANSWERED]}


KEEP: Final = RowTable[KeepRow](
    "keep.parquet",
    KEEP_ROWS,
    lambda values: KeepRow(**values),
    "rows of words to keep. Make them with `okralong train-data DATA --for token_classifier --out DIR`.",
    """# Rows of the token classifier

Made by `okralong train-data --for token_classifier`; do not edit. The rows are not in the repository: they hold the
sets' own texts, under the sets' own licences. Passages are our own chunks that hold gold evidence. A word is to be kept
where it stands in the evidence of a question and that question or its gold answers have it; articles, prepositions and
their like are kept within a short answer alone. No model has labelled anything.""",
    _keep_counts,
)


def without_sets(rows: Sequence[TrainingRow], sets: Sequence[str], must_be_there: bool = True) -> list[TrainingRow]:
    """Return the rows that are from none of the ``sets``. Raises InputError for a set without rows."""
    names = sorted({row.set_name for row in rows})
    for name in sets:
        if must_be_there and name not in names:
            raise InputError(
                f"No row comes from a set {name!r}, so it cannot be left out. There are {', '.join(names)}."
            )
    return [row for row in rows if row.set_name not in sets]
