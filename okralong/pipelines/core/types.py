"""Plain, frozen values that pass through okralong, its errors and its exit codes.

Offsets are half-open character ranges ``[start_char, end_char)`` into a document's text in the ``documents`` table.
Token counts are o200k_base tokens unless a name says otherwise.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from okralong.pipelines.core.tables import Table

QuestionType = Literal["extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"]
"""The analyzer's question types (paper, section 3.2; the ACL version calls abstractive "summarizing")."""

Pattern = Literal["exact", "semantic", "same"]
"""How evidence is found: by exact match, by semantic match, or equally well by both (paper, section 3.2)."""

Workflow = Literal["linear", "extend", "split", "step", "documents"]
"""Paper, section 3.4: linear, extend (arithmetic), split (multi-source) and step (multi-bridge). ``documents`` asks
each of many documents separately. # project default"""

Status = Literal["answered", "unanswerable", "invalid_output", "over_budget", "failed"]
"""How a question ended. ``unanswerable``: the generator found no evidence. ``invalid_output``: the reply does not fit
the question's ``answer_type``."""

RetrieverName = Literal["exact", "semantic"]
"""The two retrievers, BM25 and dense vectors, by their names in configs and tables."""


@dataclass(frozen=True, slots=True)
class TableSpan:
    """A table found in running text: the range of its lines, including title and header."""

    table_id: str
    start_char: int
    end_char: int


SectionKind = Literal["page", "sheet", "slide", "heading", "attachment"]


@dataclass(frozen=True, slots=True)
class Section:
    """The beginning of a page, sheet, slide, section or attachment, which ends where the next one begins.

    ``name`` is the number of a page or slide (from 1), the name of a sheet or attachment, or the words of a heading.
    ``ocr`` means that the text up to the next section was read from an image.
    """

    kind: SectionKind
    name: str
    start_char: int
    ocr: bool = False

    def __str__(self) -> str:
        return self.name if self.kind == "heading" else f"{self.kind} {self.name}"


def section_at(sections: Sequence[Section], char: int) -> Section | None:
    """Return the last section that begins at or before ``char``; ``sections`` are sorted by ``start_char``."""
    found = bisect.bisect_right(sections, char, key=lambda section: section.start_char)
    return sections[found - 1] if found else None


NOT_READ: Final = "not_read"
"""Metadata key for what a file holds and its document does not, in words; reserved."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure or text of a document that is tagged in XBRL, at ``[start_char, end_char)``.

    ``value`` is the exact decimal value of a figure, "" for texts and for nil, with ``scale`` and ``sign`` applied;
    ``unit`` is "USD", "USD/shares" or the like. ``period_start`` is "" for an instant. ``dimensions`` are pairs of an
    axis and a member. A text in several pieces has a fact for each, with ``part`` from 0.
    """

    concept: str
    start_char: int
    end_char: int
    value: str = ""
    unit: str = ""
    scale: int = 0
    sign: str = ""
    decimals: str = ""
    context: str = ""
    entity: str = ""
    period_start: str = ""
    period_end: str = ""
    dimensions: tuple[tuple[str, str], ...] = ()
    part: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One version of a document. Scopes and citations name it by ``doc_id``; ``sections`` are sorted by their start.

    ``tables`` are the tables that were read, or None if none were looked for: ``statements.text_tables.tables_of``
    gives them in both cases. ``table_spans`` are stretches of text that look like a table, for chunking and recovery.
    ``facts`` are only there while a document is indexed; ``Archive.tagged_facts`` returns them later. ``language`` is
    "" if it was not detected.
    """

    doc_id: str
    text: str
    title: str = ""
    source_uri: str = ""
    sha256: str = ""
    n_tokens: int = 0
    table_spans: tuple[TableSpan, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()
    facts: tuple[Fact, ...] = ()
    tables: tuple[Table, ...] | None = None
    language: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document at one granularity (target size in tokens).

    The chunks of a document at one granularity tile it: every character is in exactly one chunk. ``chunk_id`` is stable
    (document hash, granularity, ordinal). ``table_id`` names the table that a boundary of the chunk splits, if any.
    """

    chunk_id: str
    doc_id: str
    granularity: int
    ordinal: int
    start_char: int
    end_char: int
    n_tokens: int
    text: str
    table_id: str | None = None


@dataclass(slots=True, unsafe_hash=True)  # immutable by convention: freezing it doubles the time to create one
class Hit:
    """A chunk with its score; lists of hits are sorted by descending score, ties by chunk_id."""

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A cross-encoder's output for one passage and query.

    ``relevance`` orders the passages of one query on the model's own scale. ``answerable`` is the probability that the
    passage holds the answer; ``start`` and ``end`` (exclusive) are the most probable characters of the answer, and
    ``span`` is their probability given that the answer is in the passage. ``others`` are the next most probable spans
    that do not overlap it, as (start, end, probability). Outputs that a model lacks are None, or -1 for ``start`` and
    ``end``.
    """

    relevance: float
    answerable: float | None = None
    start: int = -1
    end: int = -1
    span: float | None = None
    others: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class WordKept:
    """A word of a text, characters ``[start, end)``, with the probability that a compression keeps it."""

    start: int
    end: int
    probability: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """The hits of each retriever, merged over the shards but not fused."""

    exact: tuple[Hit, ...]
    semantic: tuple[Hit, ...]


SCORES_KEPT: Final = 20  # of each retriever, for the analyzer: as many as the paper fuses (appendix B.3)


@dataclass(frozen=True, slots=True)
class RetrieverScores:
    """Scores of the first chunks of primary retrieval, best first: BM25 scores and cosines.

    ``semantic_ranks`` holds, for each chunk of the exact retriever, its rank (from 0) in the semantic retriever's list,
    or -1 if it is not there.
    """

    exact: tuple[float, ...] = ()
    semantic: tuple[float, ...] = ()
    semantic_ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Candidates) -> RetrieverScores:
        """Return the first ``SCORES_KEPT`` scores of both lists."""
        first, other = found.exact[:SCORES_KEPT], found.semantic[:SCORES_KEPT]
        ranks = {hit.chunk.chunk_id: rank for rank, hit in enumerate(other)}
        return cls(
            tuple(hit.score for hit in first),
            tuple(hit.score for hit in other),
            tuple(ranks.get(hit.chunk.chunk_id, -1) for hit in first),
        )


NO_SCORES: Final = RetrieverScores()


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Text of a prompt that stands for ``[start_char, end_char)`` of a document: that text itself, or another form."""

    text: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document as shown to the generator, made of one or more chunks.

    ``origin`` is "retrieved", "merged", "extended", "table" (a cut table completed), "rows" (rows that code chose) or
    "full". ``chunk_ids`` are the retrieved chunks in it, best first. ``text`` is the document's text in the range.
    ``shown`` is what prompts show in its place, with tables in their compact form; () if they show ``text``.
    ``n_tokens`` counts what is shown.
    """

    doc_id: str
    start_char: int
    end_char: int
    text: str
    n_tokens: int
    score: float
    chunk_ids: tuple[str, ...] = ()
    origin: str = "retrieved"
    shown: tuple[ShownPart, ...] = ()

    @property
    def shown_text(self) -> str:
        """The text that prompts show."""
        return "".join(part.text for part in self.shown) or self.text

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """The ranges of the document that are shown."""
        return tuple((part.start_char, part.end_char) for part in self.shown) or ((self.start_char, self.end_char),)

    def shown_at(self, char: int) -> int:
        """Return where ``shown_text`` begins to show the document from ``char`` on."""
        at = 0
        for part in self.shown:
            if part.start_char <= char < part.end_char:
                return at + (char - part.start_char if len(part.text) > char - part.start_char else 0)
            at += len(part.text)
        return 0 if self.shown else char - self.start_char

    def span_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the range of ``text`` that the characters ``start:end`` of ``shown_text`` stand for.

        A part in another form than the document's text stands for its range as a whole. Return None if no part lies
        within ``text``, as the heads of a table that begins before the passage.
        """
        if not self.shown:
            return start, end
        found: list[tuple[int, int]] = []
        at = 0
        for part in self.shown:
            first, last = part.start_char - self.start_char, part.end_char - self.start_char
            if at < end and at + len(part.text) > start and 0 <= first < last <= len(self.text):
                if self.text[first:last] == part.text:
                    first, last = max(first, first + start - at), min(last, first + end - at)
                found.append((first, last))
            at += len(part.text)
        return (min(first for first, _ in found), max(last for _, last in found)) if found else None


@dataclass(frozen=True, slots=True)
class Citation:
    """A source span that the reply cites and that was found in the context shown. ``quote`` is the document's text."""

    doc_id: str
    start_char: int
    end_char: int
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its scope.

    ``doc_ids`` holds document ids or globs; empty means the whole archive. ``where`` narrows the scope by a filter over
    the documents' metadata. With ``for_each`` (ids or globs) each of these documents gets the question separately: each
    pair is a cell, a question with the original's query_id as ``asked_id`` and its document in ``doc_ids``.

    ``answers``, ``evidence`` and ``type`` are gold values for evaluation; strategies never use them. ``carried`` holds
    columns of the question's row that are copied to the answer's row. ``answer_type`` is "" for text, otherwise a kind
    as in ``answering/answer_types.py``: "money", "list of date", a JSON schema. ``language`` is a code of ISO 639-1, ""
    until the run that asks it detects the language.
    """

    query_id: str
    question: str
    doc_ids: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    type: str = ""
    carried: Mapping[str, str] = field(default_factory=dict, hash=False)
    where: str = ""
    answer_type: str = ""
    for_each: tuple[str, ...] = ()
    asked_id: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analyzer's judgment of a question and its primary chunks (paper, section 3.2).

    ``evidence`` is True if the primary chunks already hold the evidence, with ``evidence_probability``. Probabilities
    sum to 1 per field. A pattern or evidence that the policy does not use (``Policy.uses_pattern``) is not computed: it
    is None, without probabilities. ``analyzer`` names the analyzer, e.g. "keyword-rules".
    """

    type: QuestionType
    pattern: Pattern | None
    evidence: bool | None
    type_probabilities: Mapping[str, float]
    pattern_probabilities: Mapping[str, float]
    evidence_probability: float | None
    analyzer: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The organizer's decisions and its reasons in words. Sizes are in o200k tokens, counts in chunks.

    ``granularity`` and ``count`` determine what is shown, ``candidates`` how many hits each retriever offers to the
    fusion. ``threshold`` is relative to the best fused score. ``extension_tokens`` widens each passage on both sides.
    ``neighbour_weight`` is the weight of a chunk's better neighbor in its score. ``max_tokens`` limits the chunks of
    one retrieval together, ``sub_question_tokens`` those of one sub-question; None leaves it to the counts.

    ``max_sub_questions``, ``sub_question_count`` and ``max_steps`` limit the split and step workflows; in the workflow
    "documents" the first is the number of documents. ``escalate`` allows precise mode (full text after "unanswerable").
    ``escalate_to`` says how to retry an answer with a confidence below ``escalate_under``; None means never. ``most``
    is the maximum usage of a method whose calls do not follow from the other fields, else None.
    """

    __pydantic_config__: ClassVar = {"extra": "ignore"}  # journals of earlier releases have a field ``sections``

    workflow: Workflow
    granularity: int
    count: int
    candidates: int
    exact_weight: float
    semantic_weight: float
    threshold: float
    extension_tokens: int
    recover_tables: bool
    max_sub_questions: int
    sub_question_count: int
    max_steps: int
    escalate: bool
    reasons: tuple[str, ...] = ()
    max_tokens: int | None = None
    sub_question_tokens: int | None = None
    neighbour_weight: float = 0.0
    most: Usage | None = None
    escalate_under: float = 0.0
    escalate_to: Literal["stronger", "precise"] | None = None


QUESTION_MARK: Final = "\n\nQuestion: "  # separates the passages of a prompt from its question

VECTORS_PLACE: Final = "\ue0c5"
"""Marks the place of vectors in a message: a private-use character, which prompts remove from other texts."""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Input embeddings of the generator in place of tokens of a message: ``rows`` vectors in little-endian float32."""

    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message; ``content`` has one ``VECTORS_PLACE`` for each of ``vectors``, in order."""

    role: str  # "system", "user" or "assistant"
    content: str
    vectors: tuple[TokenVectors, ...] = ()

    @property
    def vector_rows(self) -> int:
        """Number of vectors in the message; each counts as one token."""
        return sum(each.rows for each in self.vectors)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counted them.

    ``cached_tokens`` (read from the endpoint's cache) and ``cache_write_tokens`` are part of ``prompt_tokens``.
    ``reasoning_tokens``, which the reply does not show, are part of ``completion_tokens``.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def weighted_tokens(self) -> int:
        """Input + 4 x output tokens: the paper's cost measure (section 4.2)."""
        return self.prompt_tokens + 4 * self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.completion_tokens + other.completion_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the generator. ``tokens`` (their texts) and ``token_logprobs`` are empty unless requested.

    ``model`` and ``system_fingerprint`` are the server's own names for the snapshot and its build.
    """

    text: str
    model: str
    usage: Usage
    finish_reason: str
    cost_usd: float
    latency_s: float = 0.0
    queue_s: float = 0.0
    token_logprobs: tuple[float, ...] = ()
    system_fingerprint: str = ""
    tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedValue:
    """An answer as a value of its type (see ``statements/values.py``).

    ``value`` is its canonical form: an exact decimal in full ("-234495000"), an ISO 8601 date, which may end after the
    year or month, a period ("year to 2023-06-30", "Q3 2024", "FY2023"), "yes" or "no", one of the choices, or the JSON
    of a list or of a schema's object. ``number`` is the amount, percent per hundred, or None. ``unit`` is "%" or the
    thing counted, ``scale`` the source's multiplier ("thousand"), ``currency`` an ISO 4217 code, ``period`` the time
    that an amount belongs to. "" means unknown, but a scale of "" is an amount in full: a table's amount without a
    known scale has the scale "unknown", the number as printed, and no place in calculations with others.
    """

    value: str
    number: float | None = None
    unit: str = ""
    scale: str = ""
    currency: str = ""
    period: str = ""


Way = Literal[
    "cell",
    "row",
    "stated",
    "value",
    "span",
    "sentence",
    "calculation",
    "bridge",
    "comparison",
    "documents",
    "generated",
    "full_text",
    "blank",
    "ambiguous",
]
"""How an answer was found: in a ``cell`` of a document's tables, or of a ``row`` in the retrieved passages; ``stated``
in a sentence or on the cover; as a typed ``value`` in a span; as a ``span`` or ``sentence``; by ``calculation``,
``bridge`` or ``comparison``; from the values of several ``documents``; ``generated`` from passages or from the
``full_text``. A refusal has the way of the part that refused: also a ``blank`` cell, or ``ambiguous`` ones."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a strategy.

    ``context`` holds the passages of the last prompt in the order shown. ``confidence`` is the probability that the
    answer is right (see ``answering/confidence.py``). ``value`` is set for questions with an ``answer_type``. If the
    answer replaced one with low confidence, ``escalated`` is "precise" or the stronger generator's name, and
    ``first_confidence`` the confidence of the replaced answer. ``replied_by`` names the models that gave the answer, as
    their replies do; () means the model of the question's last reply in the ledger. ``way`` is "" for methods that do
    not say how an answer was found; ``signals`` are what the run knows about it (``answering/signals.py``).
    """

    status: Status
    answer: str
    citations: tuple[Citation, ...] = ()
    analysis: Analysis | None = None
    plan: Plan | None = None
    context: tuple[Passage, ...] = ()
    error: str = ""
    confidence: float | None = None
    value: TypedValue | None = None
    escalated: str = ""
    first_confidence: float | None = None
    replied_by: tuple[str, ...] = ()
    way: Way | Literal[""] = ""
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)


# Errors for people and exit codes for schedulers. Every message names the file, the row or key, and the remedy.

GO_ON: Final = "Finished work is kept; run the same command again to resume."

# Exit codes. After 3 to 6 and 130, fix the cause and run the same command again: finished work is kept.
EXIT_OK: Final = 0
EXIT_FAILURES: Final = 1  # the run finished, but ``failures`` lists documents or questions
EXIT_USAGE: Final = 2  # invalid command line, config, questions or archive; no money was spent
EXIT_OVER_BUDGET: Final = 3  # ``budget_usd`` was reached
EXIT_ENDPOINT: Final = 4  # the LLM endpoint is down, the key is wrong, or the quota is used up
EXIT_LOCKED: Final = 5  # another process is writing to this archive or run
EXIT_BROKEN: Final = 6  # a part of okralong failed: an actor died, storage is gone or full, a bug
EXIT_CHANGED: Final = 7  # ``okralong diff`` or ``nightly`` succeeded, and an answer changed in a way that matters
EXIT_CANARIES: Final = 8  # ``okralong nightly``: too few canaries were right, so nothing else was asked
EXIT_STOPPED: Final = 130  # Ctrl-C or SIGTERM


class OkraError(Exception):
    """A problem that the user can correct. ``exit_code`` is the exit code of the command."""

    exit_code: int = EXIT_USAGE


class ConfigError(OkraError):
    """A config file has an unknown key, a wrong unit or an impossible value."""


class InputError(OkraError):
    """A file of documents or questions is missing or malformed."""


class ArchiveError(OkraError):
    """An archive is missing, incomplete, or has another schema version."""


class LockedError(OkraError):
    """Another process is writing to the same archive or run."""

    exit_code = EXIT_LOCKED


class EndpointError(OkraError):
    """The LLM endpoint cannot be used: down, wrong key, unknown model, no quota. The run stops."""

    exit_code = EXIT_ENDPOINT


class BrokenError(OkraError):
    """Something that the run needs is gone (an actor, the storage). The run stops and keeps finished work."""

    exit_code = EXIT_BROKEN


class StoppedError(BrokenError):
    """The user stopped the run; no further call is sent."""

    exit_code = EXIT_STOPPED


class MetricError(OkraError):
    """A metric cannot be computed. The evaluation stops instead of omitting questions."""

    exit_code = EXIT_BROKEN


class OverBudget(OkraError):
    """A call or a question would exceed ``budget_usd``."""

    exit_code = EXIT_OVER_BUDGET


class CanariesFailed(OkraError):
    """Too few of a night's canaries were answered right. The night has ended."""

    exit_code = EXIT_CANARIES


class DocumentError(Exception):
    """A document that cannot be read. It is recorded in ``failures`` and the job goes on."""


class QuestionError(Exception):
    """A question that cannot be answered as posed. It is recorded in ``failures`` and the run goes on."""


class ReplyError(Exception):
    """The generator's reply violates its output contract. The journal keeps it, and ``raw`` is its text if known."""

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class CutShort(ReplyError):
    """The reply reached its length limit before it said anything useful."""


class NobodyAsked(ReplyError):
    """No generator is available (an estimate, a bench); an operator goes on without a reply."""


class CallFailed(Exception):
    """The endpoint gave no reply, so no operator may go on: the question fails and a rerun sends the call again."""
