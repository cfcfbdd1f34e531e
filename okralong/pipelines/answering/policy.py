"""The policy: every constant that OkraLong decides by, and the sections of the other methods.

``configs/policy/paper.yaml`` is the paper's own policy and names the source of each value. The section of a baseline is
defined in the baseline's file; ``methods.registry.FullPolicy`` is the policy with all of them.
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
    """Base of a method's own section of the policy, which stands under ``KEY`` in a policy file.

    Every field has a default, so that a policy file need not name the section.
    """

    KEY: ClassVar[str]


Section = TypeVar("Section", bound=MethodSection)


class PrimaryPolicy(Settings):
    """Retrieval before the analysis: ``count`` chunks of ``granularity`` tokens; BM25's scores weigh ``exact_weight``,
    those of dense vectors ``semantic_weight``.
    """

    count: Count
    granularity: Tokens
    exact_weight: Weight
    semantic_weight: Weight


class ScopePolicy(Settings):
    """How much is shown for one class of questions: ``count`` chunks, of ``granularity_present`` tokens where the
    primary chunks held the evidence and of ``granularity_absent`` where they did not.

    ``tokens``, where given, bounds the chunks of one retrieval together; ``count`` stays the most that are shown.
    ``neighbours`` is the weight with which the better of a chunk's two neighbours is added to its score.
    """

    count: Count
    granularity_present: Tokens
    granularity_absent: Tokens
    tokens: Budget | None = None
    neighbours: Weight = 0.0


class SurroundingsPolicy(Settings):
    """Ranking small chunks in their surroundings: the fused score of the chunks of ``granularity`` tokens around a
    smaller chunk is added to its own with ``weight``, where the scope has at most ``most_documents`` (null: always).
    """

    granularity: Tokens
    weight: Annotated[float, Field(gt=0, le=100)]
    most_documents: Count | None = None


class NamedPolicy(Settings):
    """Looking once more in the documents that the query names (``DocumentNames``), where the scope has several: those
    with at least the share ``near`` of the best one's, unless they are more than ``documents``. A chunk found there has
    its fused score there added to its own, times ``weight`` and its document's share. Ours, not in the paper.
    """

    weight: Annotated[float, Field(gt=0, le=100)]
    near: Share = 0.8
    documents: Count = 16


class FusionPolicy(Settings):
    """The assembled retriever: the ``candidates`` best chunks of each retriever, joined by ``method``. The retriever
    that the pattern prefers has ``preferred_weight``, the other ``other_weight``, both ``same_weight`` where it prefers
    none; chunks under ``threshold`` times the best score are dropped. ``rank_constant`` is of use to ``method:
    reciprocal_rank`` only; ``surroundings`` null ranks each chunk by itself, ``named`` null looks once, over the whole
    scope; ``only`` takes one retriever and leaves the other out (null: both, as the pattern says).
    """

    method: Literal["minmax", "reciprocal_rank"]
    rank_constant: Annotated[float, Field(ge=0, le=10_000)]
    candidates: Count
    preferred_weight: Weight
    other_weight: Weight
    same_weight: Weight
    threshold: Share
    surroundings: SurroundingsPolicy | None = None
    named: NamedPolicy | None = None
    only: RetrieverName | None = None

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.preferred_weight + self.other_weight == 0 or self.same_weight == 0:
            raise ValueError(
                "preferred_weight + other_weight and same_weight must each be above 0: otherwise no chunk could be "
                "ranked"
            )
        return self


class RerankPolicy(Settings):
    """Ranking by a cross-encoder: the first ``candidates`` fused chunks of every retrieval are read with its query and
    ordered anew; the others stand behind them. 0: none are read, and the order stays. ``weight`` is the share of the
    cross-encoder's scores in the new ones, of the fused scores the rest, both stretched to 0..1. Chunks of more than
    ``largest`` tokens are not read: the shipped one has learned on small ones. Behind the first ``follow`` chunks stand
    as many of those whose heading is a name that these have and the query has not (0: none): the second half of a
    question in two steps. Ours, not in the paper.
    """

    candidates: Annotated[int, Field(ge=0, le=500)] = 0
    weight: Share = 1.0
    largest: Tokens = 256
    follow: Annotated[int, Field(ge=0, le=10)] = 0


class ReadPolicy(Settings):
    """Answers without the generator, where the run's config lets the cross-encoder answer (``reranker.answers``). It
    reads those to questions of ``types`` off the passages: where one retrieval is made (an abstractive one by the best
    sentence), where a split one compares two things by a value, and a multi-bridge one by one look-up after the other
    where its words say what to look up (``bridge_questions.py``); where no passage holds the answer with at least the
    probability ``threshold``, the question is unanswerable. With ``calculations`` code works out what a question of any
    type says in plain words (``statements/arithmetic.py``). Ours, not in the paper.
    """

    types: list[QuestionType] = Field(default_factory=list)
    threshold: Share = 0.3
    calculations: bool = False


class LineItemsPolicy(Settings):
    """Rows for line items of financial statements. Not in the paper.

    A question of the types ``rows`` is shown the row of a statement for each line item that it needs, in the place of a
    chunk, if code finds the row in the document that the question names (``statement_reading.line_item_rows``).
    """

    rows: list[QuestionType] = Field(default_factory=list)


class OverDocumentsPolicy(Settings):
    """Questions over many documents, each of which is asked by itself (``answering/over_documents.py``). The method
    goes this way with questions of ``types`` whose scope has more than ``more_than`` documents (null: never), and not
    more than ``most``, which also bounds the strategy ``over_documents``. A document that is asked for an amount shows
    at most ``count`` chunks (null: as many as its plan says), and with ``rows`` the row or sentence that code finds for
    the amount (``statement_reading.py``) with the lines around it. Ours, not in the paper.
    """

    more_than: Count | None = None
    most: Count = 100
    types: list[QuestionType] = Field(default=["multi-source"])
    count: Count | None = None
    rows: bool = False


class EscalatePolicy(Settings):
    """Asking again where an answer is not trusted: with a confidence ``under`` this (``confidence.with_confidence``;
    also of "unanswerable"), ``to`` stronger: the plan is followed once more by the stronger generator
    (``llm.stronger``), or ``to`` precise: the full text is read by the same one. The second answer stands. Ours, not in
    the paper.
    """

    under: Annotated[float, Field(gt=0, le=1)]
    to: Literal["stronger", "precise"]


class SelectionPolicy(Settings):
    """Which of the fused candidates are shown, by ``method``: the best ones ("none"), or a choice made one by one for
    what each adds.

    "novelty" judges by embeddings, "csi" by the conditional self-information that a local language model sees, which
    the run's config must name (``scorer``). ``pool`` fused candidates are offered; ``trade_off`` is the share of
    relevance in the judgement, against novelty; ``condition_on_question`` puts the question before the chosen chunks
    when self-information is measured. Novelty is judged by the archive's own vectors, or in the ``space`` of SARA's
    compressor, which the run then needs.
    """

    method: Literal["none", "novelty", "csi"]
    pool: Count
    trade_off: Share
    condition_on_question: bool
    space: Literal["encoder", "compressor"] = "encoder"


class ContextPolicy(Settings):
    """The context processor: an extension adds ``extension_tokens`` around each passage, ``recover_tables`` shows cut
    tables whole again, up to ``table_tokens``.
    """

    extension_tokens: Annotated[int, Field(ge=0, le=4096)]
    recover_tables: bool
    table_tokens: Tokens


class SplitPolicy(Settings):
    """The question splitter: at most ``max_sub_questions``. ``count`` and ``tokens`` bound the chunks of each
    sub-question.
    """

    max_sub_questions: Annotated[int, Field(ge=2, le=16)]
    count: Count
    tokens: Budget | None = None


class StepPolicy(Settings):
    """The step-wise reasoner: at most ``max_steps``, with ``count`` chunks a look-up (null: the scope's count)."""

    max_steps: Annotated[int, Field(ge=1, le=16)]
    count: Count | None = None


class FullTextPolicy(Settings):
    """Long context and precise mode: where the text does not fit the window, the best chunks of
    ``fallback_granularity`` tokens that fit, at most ``fallback_count``.
    """

    fallback_granularity: Tokens
    fallback_count: Count


REMOVED: Final[dict[str, Any]] = {
    "doubt": {"below": 0.0, "workflow": "linear"},
    "line_items.types": [],
    "line_items.count": 2,
    "step.carry": "passages",
}
"""Keys that a policy file may no longer set: off in every shipped policy, and without a gain where they were measured
(``docs/results.md``). A run's fingerprint still has them, at these values, so that it is the same as before."""


class Policy(Settings):
    """Everything the organizer decides by.

    ``name`` is what the policy is called in plans and tables. ``workflow`` has one entry for each question type; the
    ``contextual_types`` are shown as much as ``contextual`` says, the others as much as ``factoid`` says. ``plugins``
    holds the sections of methods that do not ship with okralong, by their keys.
    """

    name: str
    primary: PrimaryPolicy
    workflow: dict[QuestionType, Workflow]
    contextual_types: list[QuestionType]
    contextual: ScopePolicy
    factoid: ScopePolicy
    fusion: FusionPolicy
    selection: SelectionPolicy
    context: ContextPolicy
    split: SplitPolicy
    step: StepPolicy
    full_text: FullTextPolicy
    rerank: RerankPolicy = RerankPolicy()
    read: ReadPolicy = ReadPolicy()
    line_items: LineItemsPolicy = LineItemsPolicy()
    over_documents: OverDocumentsPolicy = OverDocumentsPolicy()
    escalate: EscalatePolicy | None = None
    plugins: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=lambda sections: not sections)

    def section(self, model: type[Section]) -> Section:
        """Return a method's own section; if the policy does not name it, its defaults.

        Raises:
            ConfigError: The section stands under ``plugins`` and cannot be used.
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
        """Return what a run's fingerprint holds of the policy."""
        content = self.model_dump(mode="json")
        for key, value in REMOVED.items():
            section, _, name = key.partition(".")
            content[section] = content[section] | {name: value} if name else value
        return content

    @model_validator(mode="before")
    @classmethod
    def _refuse_removed(cls, content: Any) -> Any:
        for key in REMOVED if isinstance(content, dict) else ():
            section, _, name = key.partition(".")
            if section in content and (not name or name in (content[section] or {})):
                raise ConfigError(f"{key} was removed, because it gained nothing. Delete it from the policy.")
        return content

    @model_validator(mode="after")
    def _every_type(self) -> Self:
        missing = {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"} - set(self.workflow)
        if missing:
            raise ValueError(f"workflow has no entry for {', '.join(sorted(missing))}")
        return self

    @property
    def needs_scorer(self) -> bool:
        """Whether the run must have a local language model that measures likelihoods."""
        return self.selection.method == "csi"

    @property
    def needs_reranker(self) -> bool:
        """Whether the run must have a cross-encoder: to rank by, to read answers off, or to judge them."""
        return self.rerank.candidates > 0 or bool(self.read.types) or self.escalate is not None

    @property
    def needs_compressor(self) -> bool:
        """Whether the run must have SARA's compressor to choose by."""
        return self.selection.method == "novelty" and self.selection.space == "compressor"

    @property
    def needs_vectors(self) -> bool:
        """Whether the archive must have dense vectors to choose evidence by, or to retrieve by alone."""
        return self.selection.method == "novelty" or self.fusion.only == "semantic"

    def granularities(self) -> list[int]:
        """Return the chunk sizes, in tokens, that an archive must hold for this policy."""
        sizes = {self.primary.granularity}
        for scope in (self.contextual, self.factoid):
            sizes |= {scope.granularity_present, scope.granularity_absent}
        if self.fusion.surroundings:
            sizes.add(self.fusion.surroundings.granularity)
        return sorted(sizes)
