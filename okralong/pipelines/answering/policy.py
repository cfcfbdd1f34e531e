"""The policy: all constants of OkraLong's decisions, and a section for each of the other methods.

``configs/policy/paper.yaml`` is the paper's own policy and names the source of each value. A baseline's section is
defined in its own file; ``methods.registry.FullPolicy`` has all sections.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError, QuestionType, RetrieverName, Workflow

Tokens = Annotated[int, Field(ge=16, le=8192)]
Count = Annotated[int, Field(ge=1, le=1000)]
Rounds = Annotated[int, Field(ge=1, le=64)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=100)]
Budget = Annotated[int, Field(ge=16, le=1_000_000)]


class MethodSection(Settings):
    """Base class of a method's own section of the policy; ``KEY`` is its key in a policy file.

    Every field has a default, so that a policy file can omit the section.
    """

    KEY: ClassVar[str]


Section = TypeVar("Section", bound=MethodSection)


class PrimaryPolicy(Settings):
    """Primary retrieval, before the analysis: ``count`` chunks of ``granularity`` tokens.

    ``exact_weight`` and ``semantic_weight`` are the weights of BM25 and dense vectors.
    """

    count: Count
    granularity: Tokens
    exact_weight: Weight
    semantic_weight: Weight


class ScopePolicy(Settings):
    """How much text to show for one class of questions.

    ``count`` chunks are shown, of ``granularity_present`` tokens if the primary chunks have the evidence, else of
    ``granularity_absent``. ``tokens``, if set, limits the total of one retrieval. ``neighbours`` is the weight with
    which the score of the better adjacent chunk is added to a chunk's score.
    """

    count: Count
    granularity_present: Tokens
    granularity_absent: Tokens
    tokens: Budget | None = None
    neighbours: Weight = 0.0


class SurroundingsPolicy(Settings):
    """Raise the score of small chunks whose surroundings fit the query. Not in the paper.

    The fused score of the larger chunks (of ``granularity`` tokens) around a small chunk, times ``weight``, is added to
    its score.
    """

    granularity: Tokens
    weight: Annotated[float, Field(gt=0, le=100)]


NEAR: Final = 0.8
"""Documents that a query names match it at least this share as well as the best. # project default"""
MOST_NAMED: Final = 16
"""A query that names more documents names none in particular. # project default"""


class NamedPolicy(Settings):
    """A second retrieval in the documents that the query names (``DocumentNames``). Not in the paper.

    If the scope has several documents, the named ones are searched. A chunk's fused score there, times ``weight`` and
    the document's share, is added to its score.
    """

    weight: Annotated[float, Field(gt=0, le=100)]


SAME_WEIGHT: Final = 1.0
"""The weight of both retrievers for the pattern "same", "1:1" in the paper's appendix B.3."""


class FusionPolicy(Settings):
    """The assembled retriever, which fuses the ``candidates`` best chunks of each retriever.

    The retriever that suits the question's pattern has the weight ``preferred_weight``, the other one ``other_weight``;
    for the pattern "same" both have the same. Chunks below ``threshold`` times the best score are dropped.
    ``surroundings`` and ``named`` are off if null; ``only`` names the one retriever to use.
    """

    candidates: Count
    preferred_weight: Weight
    other_weight: Weight
    threshold: Share
    surroundings: SurroundingsPolicy | None = None
    named: NamedPolicy | None = None
    only: RetrieverName | None = None

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.preferred_weight + self.other_weight == 0:
            raise ValueError("preferred_weight + other_weight must be above 0: otherwise no chunk could be ranked")
        return self


class RerankPolicy(Settings):
    """Reranking by a cross-encoder. Not in the paper.

    The first ``candidates`` fused chunks of every retrieval (0: none) are reordered by a score: the cross-encoder's
    score with the weight ``weight``, and the fused score with the rest, both scaled to 0..1. The others follow.
    Retrievals of chunk sizes above ``largest`` tokens are not reranked, because the shipped model was trained on small
    chunks. After the first ``follow`` chunks (0: none), up to as many are inserted whose heading is a name that those
    contain but the query does not; this helps with two-step questions.
    """

    candidates: Annotated[int, Field(ge=0, le=500)] = 0
    weight: Share = 1.0
    largest: Tokens = 256
    follow: Annotated[int, Field(ge=0, le=10)] = 0


class ReadPolicy(Settings):
    """Answering without the generator, if the run lets the cross-encoder answer (``reranker.answers``).

    Not in the paper. Questions of ``types`` are answered from the passages: after one retrieval (abstractive ones by
    the best sentence), by comparing a value of two things (workflow "split"), or by successive retrievals
    (multi-bridge). If no passage contains the answer with at least the probability ``threshold``, the question is
    unanswerable. With ``calculations``, code also computes plainly worded calculations in questions of any type
    (``statements/arithmetic.py``).
    """

    types: list[QuestionType] = Field(default_factory=list)
    threshold: Share = 0.3
    calculations: bool = False


class LineItemsPolicy(Settings):
    """Showing rows of tables that questions need. Not in the paper.

    For questions of the types ``rows``, the rows of line items and other rows that code finds in the named documents
    replace the last chunks (``needed_rows.py``).
    """

    rows: list[QuestionType] = Field(default_factory=list)


class OverDocumentsPolicy(Settings):
    """Questions over many documents, each asked separately. Not in the paper.

    The strategy ``okralong`` does this for questions of ``types`` whose scope has more than ``more_than`` documents
    (null: never) and at most ``most``; the latter also applies to the strategy ``over_documents``. If an amount is
    wanted, at most ``count`` chunks of each document are shown (null: as planned) and, with ``rows``, the row or
    sentence in which code finds the amount.
    """

    more_than: Count | None = None
    most: Count = 100
    types: list[QuestionType] = Field(default=["multi-source"])
    count: Count | None = None
    rows: bool = False


class EscalatePolicy(Settings):
    """A second attempt at answers with a confidence below ``under``. Not in the paper.

    If ``to`` is "stronger", the plan is followed again with the stronger generator (``llm.stronger``); if it is
    "precise", the same generator reads the full text. The second answer replaces the first. "unanswerable" also has a
    confidence (``confidence.with_confidence``).
    """

    under: Annotated[float, Field(gt=0, le=1)]
    to: Literal["stronger", "precise"]


TABLE_TOKENS: Final = 600
"""Tokens up to which a table that a passage cuts is completed; a longer one is shown in part. # project default"""


class ContextPolicy(Settings):
    """The context processor.

    The workflow "extend" adds ``extension_tokens`` on each side of a passage. ``recover_tables`` completes tables that
    a passage cuts, up to ``TABLE_TOKENS``.
    """

    extension_tokens: Annotated[int, Field(ge=0, le=4096)]
    recover_tables: bool


class SplitPolicy(Settings):
    """The question splitter: at most ``max_sub_questions``, with ``count`` chunks and ``tokens`` tokens each."""

    max_sub_questions: Annotated[int, Field(ge=2, le=16)]
    count: Count
    tokens: Budget | None = None


class StepPolicy(Settings):
    """The step-wise reasoner: at most ``max_steps``, with ``count`` chunks per retrieval (null: the scope's count)."""

    max_steps: Annotated[int, Field(ge=1, le=16)]
    count: Count | None = None


FALLBACK_GRANULARITY: Final = 512
FALLBACK_COUNT: Final = 200
"""What long context and precise mode show if the full text exceeds the window: as many as fit of "the top 200 most
relevant text chunks" (paper appendix B.2), which have 512 tokens (project default)."""
CONTEXTUAL_TYPES: Final[frozenset[QuestionType]] = frozenset(("abstractive",))
"""The types of questions to which ``contextual`` applies (paper appendix B.3); ``factoid`` applies to the others."""


_FORMER: Final[dict[str, Any]] = {
    "contextual_types": ["abstractive"],
    "context.table_tokens": TABLE_TOKENS,
    "full_text": {"fallback_granularity": FALLBACK_GRANULARITY, "fallback_count": FALLBACK_COUNT},
    "fusion.named.near": NEAR,
    "fusion.named.documents": MOST_NAMED,
    "fusion.surroundings.most_documents": None,
    "fusion.method": "minmax",
    "fusion.rank_constant": 60.0,
    "fusion.same_weight": 1.0,
    "selection": {
        "method": "none",
        "pool": 10,
        "trade_off": 0.0,
        "condition_on_question": False,
        "space": "encoder",
    },
    "doubt": {"below": 0.0, "workflow": "linear"},
    "line_items.types": [],
    "line_items.count": 2,
    "step.carry": "passages",
}
"""Values of removed keys (``core.config.REMOVED_KEYS``) that fingerprints include, so that these stay the same."""


def with_former_keys(content: dict[str, Any]) -> dict[str, Any]:
    """Fill the removed keys that the content of a policy lacks, so that it equals that of earlier releases."""
    for key, value in _FORMER.items():
        *path, name = key.split(".")
        section: Any = content
        for each in path:
            section = section and section.get(each)  # a section that is off is None
        if section is not None:
            section.setdefault(name, value)
    return content


class Policy(Settings):
    """All constants of the organizer's decisions.

    ``name`` is the policy's name in plans and tables. ``workflow`` has one entry for each question type; ``contextual``
    applies to the ``CONTEXTUAL_TYPES``, ``factoid`` to the others. ``plugins`` has the sections of third-party methods,
    by key.
    """

    name: str
    primary: PrimaryPolicy
    workflow: dict[QuestionType, Workflow]
    contextual: ScopePolicy
    factoid: ScopePolicy
    fusion: FusionPolicy
    context: ContextPolicy
    split: SplitPolicy
    step: StepPolicy
    rerank: RerankPolicy = RerankPolicy()
    read: ReadPolicy = ReadPolicy()
    line_items: LineItemsPolicy = LineItemsPolicy()
    over_documents: OverDocumentsPolicy = OverDocumentsPolicy()
    escalate: EscalatePolicy | None = None
    plugins: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=lambda sections: not sections)

    def section(self, model: type[Section]) -> Section:
        """Return a method's own section; its defaults if the policy does not have the section.

        Raises:
            ConfigError: The section is in ``plugins`` and is invalid.
        """
        found = getattr(self, model.KEY, None)
        if isinstance(found, model):
            return found
        try:
            return model.model_validate(self.plugins.get(model.KEY, {}))
        except ValidationError as error:
            told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise ConfigError(f"plugins.{model.KEY} of the policy cannot be used: {told}. Nothing was run.") from error

    def identity(self) -> dict[str, Any]:
        """Return the parts of the policy that a run's fingerprint includes."""
        return with_former_keys(self.model_dump(mode="json"))

    @model_validator(mode="after")
    def _every_type(self) -> Self:
        missing = {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"} - set(self.workflow)
        if missing:
            raise ValueError(f"workflow has no entry for {', '.join(sorted(missing))}")
        return self

    @property
    def uses_pattern(self) -> bool:
        """True if the analyzer's pattern can change a plan: if it decides the weights of the two retrievers."""
        fusion = self.fusion
        return fusion.only is None and not fusion.preferred_weight == fusion.other_weight == SAME_WEIGHT

    @property
    def uses_evidence(self) -> bool:
        """True if the analyzer's evidence label can change a plan: if it decides a chunk size."""
        return any(each.granularity_present != each.granularity_absent for each in (self.contextual, self.factoid))

    @property
    def needs_reranker(self) -> bool:
        """True if the run needs a cross-encoder: to rerank, to answer, or to score answers."""
        return self.rerank.candidates > 0 or bool(self.read.types) or self.escalate is not None

    @property
    def needs_vectors(self) -> bool:
        """True if the archive needs dense vectors, because they are the only retriever."""
        return self.fusion.only == "semantic"

    def granularities(self) -> list[int]:
        """Return the chunk sizes, in tokens, that an archive must have for this policy."""
        sizes = {self.primary.granularity}
        for scope in (self.contextual, self.factoid):
            sizes |= {scope.granularity_present, scope.granularity_absent}
        if self.fusion.surroundings:
            sizes.add(self.fusion.surroundings.granularity)
        return sorted(sizes)


def in_other_language(policy: Policy, encodes: bool, ranks: bool) -> Policy:
    """Return the policy for a question in another language than English.

    Over Chinese sample reports BM25 found 0.91 of the evidence, both retrievers 0.31 and the shipped cross-encoder
    after them 0.34; over German ones 0.93, 0.87 and 0.88 (``benchmarks.local_samples``).

    Args:
        policy: The policy of the run.
        encodes: Whether the archive's encoder knows other languages. If not, BM25 alone retrieves.
        ranks: Whether the cross-encoder knows other languages. If not, it ranks nothing.
    """
    changes: dict[str, Any] = {}
    if not encodes and policy.fusion.only is None:
        changes["fusion"] = policy.fusion.model_copy(update={"only": "exact"})
        changes["primary"] = policy.primary.model_copy(update={"exact_weight": 1.0, "semantic_weight": 0.0})
    if not ranks and policy.rerank.candidates:
        changes["rerank"] = policy.rerank.model_copy(update={"candidates": 0})
    return policy.model_copy(update=changes) if changes else policy
