"""The organizer's policy: every constant of the method, read from a YAML file that names each one's source.

The paper's own policy is ``configs/policy/paper.yaml``. The models below say what may stand there and refuse the rest.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.answering.baselines import (
    AdaptiveRagPolicy,
    BudgetRagPolicy,
    CompactPolicy,
    Count,
    FlarePolicy,
    LongLlmLinguaPolicy,
    RaptorPolicy,
    SaraPolicy,
    Share,
    Tokens,
)
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import QuestionType, Side, Workflow

Weight = Annotated[float, Field(ge=0, le=100)]
Budget = Annotated[int, Field(ge=16, le=1_000_000)]

GRANULARITIES = (150, 256, 400, 512)
"""Chunk sizes that an archive is indexed at: 150, 256 and 400 (paper B.3) and 512 for Std-RAG (paper 4.2)."""

BASELINES: Final = ("adaptive_rag", "flare", "longllmlingua", "compact", "raptor", "sara", "budget_rag")
"""Sections that one strategy each reads, under its own name."""


class PrimaryPolicy(Settings):
    """Retrieval before the analysis."""

    count: Count
    granularity: Tokens
    exact_weight: Weight
    semantic_weight: Weight


class ScopePolicy(Settings):
    """How much is shown for one class of questions: chunks, and their size by whether evidence was at hand.

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
    smaller chunk is added to its own with ``weight``.
    """

    granularity: Tokens
    weight: Annotated[float, Field(gt=0, le=100)]


class FusionPolicy(Settings):
    """The assembled retriever. ``rank_constant`` is of use to ``method: reciprocal_rank`` only; ``surroundings`` null
    ranks each chunk by itself; ``only`` takes one retriever and leaves the other out (null: both, as the pattern says).
    """

    method: Literal["minmax", "reciprocal_rank"]
    rank_constant: Annotated[float, Field(ge=0, le=10_000)]
    candidates: Count
    preferred_weight: Weight
    other_weight: Weight
    same_weight: Weight
    threshold: Share
    surroundings: SurroundingsPolicy | None = None
    only: Side | None = None

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.preferred_weight + self.other_weight == 0 or self.same_weight == 0:
            raise ValueError("the fusion weights of a side are all zero, so nothing could be ranked")
        return self


class SelectionPolicy(Settings):
    """Which of the fused candidates are shown: the best ones ("none"), or a choice made one by one for what each adds.

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
    """The context processor."""

    extension_tokens: Annotated[int, Field(ge=0, le=4096)]
    recover_tables: bool
    table_tokens: Tokens


class SplitPolicy(Settings):
    """The question splitter. ``count`` and ``tokens`` bound the chunks of each sub-question."""

    max_sub_questions: Annotated[int, Field(ge=2, le=16)]
    count: Count
    tokens: Budget | None = None


class StepPolicy(Settings):
    """The step-wise reasoner. ``count`` is that of each look-up; null: the scope's."""

    max_steps: Annotated[int, Field(ge=1, le=16)]
    count: Count | None = None


class DoubtPolicy(Settings):
    """What is done when the analyzer is not sure of the type: with a probability ``below`` this, ``workflow``."""

    below: Share = 0.0
    workflow: Workflow = "linear"


class FullTextPolicy(Settings):
    """Long context and precise mode."""

    fallback_granularity: Tokens
    fallback_count: Count


class StdRagPolicy(Settings):
    """The standard baseline."""

    granularity: Tokens
    count: Count


class Policy(Settings):
    """Everything the organizer decides by. ``workflow`` has one entry for each question type."""

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
    std_rag: StdRagPolicy
    doubt: DoubtPolicy = DoubtPolicy()
    adaptive_rag: AdaptiveRagPolicy = AdaptiveRagPolicy()
    flare: FlarePolicy = FlarePolicy()
    longllmlingua: LongLlmLinguaPolicy = LongLlmLinguaPolicy()
    compact: CompactPolicy = CompactPolicy()
    raptor: RaptorPolicy = RaptorPolicy()
    sara: SaraPolicy = SaraPolicy()
    budget_rag: BudgetRagPolicy = BudgetRagPolicy()

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
    def needs_compressor(self) -> bool:
        """Whether the run must have SARA's compressor to choose by."""
        return self.selection.method == "novelty" and self.selection.space == "compressor"

    def identity(self) -> dict[str, Any]:
        """What tells this policy from another. A baseline's section with nothing changed is left out, and what of
        ``fusion`` and ``selection`` is not said: runs that began before there was one go on.
        """
        plain: dict[str, Any] = {name: True for name in BASELINES if getattr(self, name) == type(getattr(self, name))()}
        if self.fusion.only is None:
            plain["fusion"] = {"only"}
        if self.selection.space == "encoder":
            plain["selection"] = {"space"}
        return self.model_dump(exclude=plain)

    def granularities(self) -> list[int]:
        """Chunk sizes, in tokens, that an archive must hold for this policy."""
        return sorted(
            {
                self.primary.granularity,
                self.contextual.granularity_present,
                self.contextual.granularity_absent,
                self.factoid.granularity_present,
                self.factoid.granularity_absent,
                *((self.fusion.surroundings.granularity,) if self.fusion.surroundings else ()),
            }
        )
