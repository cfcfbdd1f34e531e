"""The organizer's policy: every constant of the method, read from a YAML file that names each one's source.

The paper's own policy is ``configs/policy/paper.yaml``. The models below say what may stand there and refuse the rest.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from okralong.pipelines.settings import Settings
from okralong.pipelines.values import QuestionType, Workflow

Tokens = Annotated[int, Field(ge=16, le=8192)]
Count = Annotated[int, Field(ge=1, le=1000)]
Weight = Annotated[float, Field(ge=0, le=100)]

GRANULARITIES = (150, 256, 400, 512)
"""Chunk sizes that an archive is indexed at: 150, 256 and 400 (paper B.3) and 512 for Std-RAG (paper 4.2)."""


class PrimaryPolicy(Settings):
    """Retrieval before the analysis."""

    count: Count
    granularity: Tokens
    exact_weight: Weight
    semantic_weight: Weight


class ScopePolicy(Settings):
    """How much is shown for one class of questions: chunks, and their size by whether evidence was at hand."""

    count: Count
    granularity_present: Tokens
    granularity_absent: Tokens


class FusionPolicy(Settings):
    """The assembled retriever."""

    candidates: Count
    preferred_weight: Weight
    other_weight: Weight
    same_weight: Weight
    threshold: Annotated[float, Field(ge=0, le=1)]

    @model_validator(mode="after")
    def _some_weight(self) -> Self:
        if self.preferred_weight + self.other_weight == 0 or self.same_weight == 0:
            raise ValueError("the fusion weights of a side are all zero, so nothing could be ranked")
        return self


class ContextPolicy(Settings):
    """The context processor."""

    extension_tokens: Annotated[int, Field(ge=0, le=4096)]
    recover_tables: bool
    table_tokens: Tokens


class SplitPolicy(Settings):
    """The question splitter."""

    max_sub_questions: Annotated[int, Field(ge=2, le=16)]
    count: Count


class StepPolicy(Settings):
    """The step-wise reasoner."""

    max_steps: Annotated[int, Field(ge=1, le=16)]


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
    context: ContextPolicy
    split: SplitPolicy
    step: StepPolicy
    full_text: FullTextPolicy
    std_rag: StdRagPolicy

    @model_validator(mode="after")
    def _every_type(self) -> Self:
        missing = {"extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"} - set(self.workflow)
        if missing:
            raise ValueError(f"workflow has no entry for {', '.join(sorted(missing))}")
        return self

    def granularities(self) -> list[int]:
        """Chunk sizes, in tokens, that an archive must hold for this policy."""
        return sorted(
            {
                self.primary.granularity,
                self.contextual.granularity_present,
                self.contextual.granularity_absent,
                self.factoid.granularity_present,
                self.factoid.granularity_absent,
            }
        )
