"""The values that travel through okralong, plain, frozen, without Ray and without files; its errors and exit codes.

Offsets are half-open character ranges ``[start_char, end_char)`` into the text of a document as it stands in the
``documents`` table. Token counts are tokens of the generator's family (o200k_base) unless a name says otherwise.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

QuestionType = Literal["extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"]
"""The analyzer's five question types (paper section 3.2; the ACL version says "summarizing" for abstractive)."""

Pattern = Literal["exact", "semantic", "same"]
"""How the evidence is found: by exact match, by semantic match, or by both alike (paper section 3.2)."""

Workflow = Literal["linear", "extend", "split", "step", "documents"]
"""Paper section 3.4: linear; arithmetic adds context extension; multi-source splits; multi-bridge goes step by step.
Ours: of many documents each is asked by itself."""

Status = Literal["answered", "unanswerable", "invalid_output", "over_budget", "failed"]
"""How a question ended. ``unanswerable``: the generator found no evidence; ``invalid_output``: a reply does not fit the
question's ``answer_type``."""

RetrieverName = Literal["exact", "semantic"]
"""The two retrievers by their names in configs and tables: BM25 and dense vectors."""


@dataclass(frozen=True, slots=True)
class TableSpan:
    """A table found in running text: the character range of its lines, title line and header included."""

    table_id: str
    start_char: int
    end_char: int


SectionKind = Literal["page", "sheet", "slide", "heading", "attachment"]


@dataclass(frozen=True, slots=True)
class Section:
    """Where a page, sheet, slide, section or attachment begins in a document's text; it ends where the next begins.

    ``name`` is what a reader of the file looks for: the number of a page or slide (from 1), the name of a sheet or
    attachment, the words of a heading. ``ocr`` says that the text up to the next section was read from an image.
    """

    kind: SectionKind
    name: str
    start_char: int
    ocr: bool = False

    def __str__(self) -> str:
        return self.name if self.kind == "heading" else f"{self.kind} {self.name}"


def section_at(sections: Sequence[Section], char: int) -> Section | None:
    """The last of the sections, which are in order of ``start_char``, that begins at or before ``char``."""
    found = bisect.bisect_right(sections, char, key=lambda section: section.start_char)
    return sections[found - 1] if found else None


@dataclass(frozen=True, slots=True)
class Document:
    """A document version. ``doc_id`` is what scopes and citations name; ``sections`` are in order of their start."""

    doc_id: str
    text: str
    title: str = ""
    source_uri: str = ""
    sha256: str = ""
    n_tokens: int = 0
    tables: tuple[TableSpan, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document at one granularity (target size in tokens).

    The chunks of a document at one granularity tile it: every character is in exactly one chunk.
    ``chunk_id`` is stable: document hash, granularity, ordinal. ``table_id`` names the table that a boundary of this
    chunk cuts, and is None where no boundary falls inside a table.
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


@dataclass(slots=True, unsafe_hash=True)
class Hit:
    """A chunk with the score that ranked it. Lists of hits are sorted by falling score, ties by chunk_id.

    Nobody changes one. It is not frozen because that would make it take twice as long to make, and a search makes some
    eighty of them.
    """

    chunk: Chunk
    score: float


@dataclass(frozen=True, slots=True)
class Reading:
    """What a cross-encoder says of one passage for one query.

    ``relevance`` orders the passages of one query; its scale is the model's own. ``answerable`` is the probability that
    the passage holds the answer, ``start`` and ``end`` (exclusive) the characters of the passage where it most
    probably stands, ``span`` the probability of that place among all others, given that it stands there. A model that
    does not say one of these gives None, and -1 for both places.
    """

    relevance: float
    answerable: float | None = None
    start: int = -1
    end: int = -1
    span: float | None = None


@dataclass(frozen=True, slots=True)
class WordKept:
    """A word of a text, its characters ``[start, end)``, with the probability that a compression keeps it."""

    start: int
    end: int
    probability: float


@dataclass(frozen=True, slots=True)
class Candidates:
    """What each retriever found on its own, already merged over the shards, not yet fused."""

    exact: tuple[Hit, ...]
    semantic: tuple[Hit, ...]


SCORES_KEPT: Final = 20
"""Scores of each retriever that the analyzer is told: as many as the paper fuses (appendix B.3)."""


@dataclass(frozen=True, slots=True)
class RetrieverScores:
    """What the retrievers themselves gave the first chunks of primary retrieval, best first: BM25, and cosines.

    ``semantic_ranks`` says of each of the exact retriever's chunks which rank, from 0, it has among the semantic
    retriever's, and -1 where it is not among them: how far the two agree.
    """

    exact: tuple[float, ...] = ()
    semantic: tuple[float, ...] = ()
    semantic_ranks: tuple[int, ...] = ()

    @classmethod
    def of(cls, found: Candidates) -> RetrieverScores:
        """The first scores of both lists."""
        first, other = found.exact[:SCORES_KEPT], found.semantic[:SCORES_KEPT]
        ranks = {hit.chunk.chunk_id: rank for rank, hit in enumerate(other)}
        return cls(
            tuple(hit.score for hit in first),
            tuple(hit.score for hit in other),
            tuple(ranks.get(hit.chunk.chunk_id, -1) for hit in first),
        )


NO_SCORES: Final = RetrieverScores()


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a document as shown to the generator, made of one or more chunks.

    ``origin`` says how it came to be: "retrieved", "merged", "extended", "table" (a cut table made whole) or "full".
    ``chunk_ids`` are the retrieved chunks that it holds, best first.
    """

    doc_id: str
    start_char: int
    end_char: int
    text: str
    n_tokens: int
    score: float
    chunk_ids: tuple[str, ...] = ()
    origin: str = "retrieved"


@dataclass(frozen=True, slots=True)
class Citation:
    """A source span that the reply named and that was found in the context shown. ``quote`` is the document's text."""

    doc_id: str
    start_char: int
    end_char: int
    quote: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its scope. ``doc_ids`` holds document ids or globs; empty means the whole archive. ``where`` is a
    filter over the documents' metadata, which narrows that; empty means none.

    With ``for_each``, ids or globs, it is asked of each of these documents by itself. Each such pair is a cell: a
    question of its own, whose ``asked_id`` is the query_id of this one, and whose ``doc_ids`` hold its document.

    ``answers``, ``evidence`` and ``type`` are gold, used by evaluation only and never by a strategy. ``carried`` are
    columns of the question's row that go along into the answer's, by name. ``answer_type`` says of which kind the
    answer must be, as ``answering/answer_types.py`` writes it: "" is text, else "money", "list of date", a JSON schema.
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


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the analyzer says of a question and its primary chunks (paper section 3.2).

    ``evidence`` is True when the primary chunks already hold the evidence. Probabilities sum to 1 per field;
    ``evidence_probability`` is that of True. ``analyzer`` names who spoke, e.g. "keyword-rules".
    """

    type: QuestionType
    pattern: Pattern
    evidence: bool
    type_probabilities: Mapping[str, float]
    pattern_probabilities: Mapping[str, float]
    evidence_probability: float
    analyzer: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What the organizer decided, with the reasons in words. Sizes in o200k tokens, counts in chunks.

    ``granularity`` and ``count`` say how much is shown; ``candidates`` how many each retriever offers to the fusion;
    ``threshold`` is relative to the best fused score; ``extension_tokens`` widens each passage on both sides;
    ``max_sub_questions``, ``sub_question_count`` and ``max_steps`` bound the split and step workflows (of "documents"
    the first is how many are asked); ``escalate`` allows precise mode (full text after "unanswerable"); an answer whose
    confidence is less than ``escalate_under`` is asked for again as ``escalate_to`` says (None: never). ``max_tokens``
    bounds the chunks of one retrieval together, ``sub_question_tokens`` those of one sub-question; None leaves it to
    the counts.
    ``neighbour_weight`` is that of a chunk's better neighbour in its score. ``most`` is the most that a method can use
    whose calls the fields above do not tell; None where they do.
    """

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


QUESTION_MARK: Final = "\n\nQuestion: "
"""Stands between the passages of a prompt and its question."""

VECTORS_PLACE: Final = "\ue0c5"
"""Stands in a message's content where vectors stand: a private-use character, which prompts take out of other texts."""


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Vectors that stand in a message in the place of tokens: ``rows`` input embeddings of the generator, one after the
    other in little-endian float32. Only a generator whose input embeddings are at hand can read them.
    """

    data: bytes
    rows: int


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. ``role`` is "system", "user" or "assistant".

    With ``vectors``, ``content`` has a ``VECTORS_PLACE`` for each of them, in order.
    """

    role: str
    content: str
    vectors: tuple[TokenVectors, ...] = ()

    @property
    def vector_rows(self) -> int:
        """How many vectors it holds, each of which counts as one token."""
        return sum(each.rows for each in self.vectors)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counted them.

    ``cached_tokens`` were read from its cache and ``cache_write_tokens`` written to it; both are part of
    ``prompt_tokens``. ``reasoning_tokens`` went into thought that the reply does not show; they are part of
    ``completion_tokens``.
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
    """A reply of the generator. ``token_logprobs`` is empty unless asked for, and so are ``tokens``, their texts.

    ``model`` and ``system_fingerprint`` are the snapshot and the make of the server, as the server names them.
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
    """An answer as the value of its type (see ``statements/values.py``).

    ``value`` is its one written form: an exact decimal of the amount in full ("-234495000"), an ISO 8601 date, which
    may end after the year or the month, a period ("year to 2023-06-30", "Q3 2024", "FY2023"), "yes" or "no", one of the
    choices, or JSON of a list or of a schema's object. ``number`` is the amount, where it is one; percent are per
    hundred. ``unit`` is "%", or the word for what is counted; ``scale`` the word by which the source multiplies
    ("thousand"); ``currency`` the code of ISO 4217; ``period`` the time that an amount belongs to. "" is not known.
    """

    value: str
    number: float | None = None
    unit: str = ""
    scale: str = ""
    currency: str = ""
    period: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy returns. ``context`` are the passages of the last prompt, in the order shown, ``confidence``
    the probability that the answer is right (see ``answering/reading.py``); None: nobody said. ``value`` is the answer
    to a question with an ``answer_type``, None for text. Of an answer that took the place of one that was not trusted,
    ``escalated`` says whose it is ("precise", or the stronger generator's name), ``first_confidence`` how probably the
    first one was right. ``replied_by`` are the models that gave the answer, each as its reply names it; () leaves it to
    the ledger, which knows the question's last reply.
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


# Errors that a person reads, and the exit codes that a scheduler reads. Every message is one paragraph that names the
# file, the row or key, and the remedy.

GO_ON: Final = "What was finished is kept; run the same command again to go on."
"""How a run that has to stop ends what it says."""

EXIT_OK: Final = 0
EXIT_FAILURES: Final = 1
"""The run finished, but some documents or questions are in ``failures``."""
EXIT_USAGE: Final = 2
"""Bad command line, config, questions or archive; nothing was spent."""
EXIT_OVER_BUDGET: Final = 3
"""``budget_usd`` was reached; everything finished is kept, raise the cap and run the same command again."""
EXIT_ENDPOINT: Final = 4
"""The LLM endpoint is down, the key is wrong, or the quota is used up; put it right, run the same command again."""
EXIT_LOCKED: Final = 5
"""Another process writes this archive or run."""
EXIT_BROKEN: Final = 6
"""A part of okralong failed (an actor died, storage went away or is full, a bug); run the same command again."""
EXIT_CHANGED: Final = 7
"""Of ``okralong diff`` and ``okralong nightly``: all went well, and an answer changed in a way that matters."""
EXIT_STOPPED: Final = 130
"""Ctrl-C or SIGTERM. What was finished is kept; the same command goes on."""


class OkraError(Exception):
    """A problem that the user can correct. ``exit_code`` is what the command line returns for it."""

    exit_code: int = EXIT_USAGE


class ConfigError(OkraError):
    """A config file has an unknown key, a wrong unit or an impossible value."""


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Around the imports of packages that only ``pip install 'okralong[extra]'`` brings.

    Raises ConfigError that says so when one of them is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ConfigError(
            f"The Python package {package} is not installed. It belongs to the extra {extra!r} of okralong: "
            f"pip install 'okralong[{extra}]'."
        ) from error


class InputError(OkraError):
    """A file of documents or questions is missing or malformed."""


class ArchiveError(OkraError):
    """An archive is missing, incomplete, or of another schema version."""


class LockedError(OkraError):
    """Another process is writing to the same archive or run."""

    exit_code = EXIT_LOCKED


class EndpointError(OkraError):
    """The LLM endpoint cannot be used: down, wrong key, unknown model, no quota. Stops the run."""

    exit_code = EXIT_ENDPOINT


class BrokenError(OkraError):
    """A part that the run needs is gone (an actor, the storage). Stops the run; what is finished is kept."""

    exit_code = EXIT_BROKEN


class StoppedError(BrokenError):
    """The user asked the run to stop, and no further call is sent."""

    exit_code = EXIT_STOPPED


class MetricError(OkraError):
    """A metric of an evaluation cannot be worked out. Nothing is left out for it: the evaluation stops."""

    exit_code = EXIT_BROKEN


class OverBudget(OkraError):
    """A call or a question would pass ``budget_usd``."""

    exit_code = EXIT_OVER_BUDGET


class DocumentError(Exception):
    """A document that cannot be read. Lands in ``failures``; the job goes on."""


class QuestionError(Exception):
    """A question that cannot be answered as posed. Lands in ``failures``; the run goes on."""


class ReplyError(Exception):
    """The generator's reply broke its output contract (kept raw in the journal, so a rerun meets it again).

    ``raw`` is the reply's whole text where it is known, for the failures table.
    """

    def __init__(self, message: str, raw: str = "") -> None:
        super().__init__(message)
        self.raw = raw


class CutShort(ReplyError):
    """The reply ran into its limit before it said anything of use."""


class NobodyAsked(ReplyError):
    """There is no generator to ask, or to ask once more (an estimate, a bench): an operator goes on without a reply."""


class CallFailed(Exception):
    """The endpoint gave no reply after all attempts, or refused the request. Nothing is in the journal that a rerun
    would meet again, so no operator may go on without the reply: the question fails.
    """
