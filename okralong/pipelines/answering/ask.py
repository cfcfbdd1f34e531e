"""``Ask``: a question while the method processes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.answering.workflows.scope import Scope
from okralong.pipelines.core.types import NO_SCORES, Analysis, Hit, Plan, RetrieverScores

Finds = Sequence[tuple[str, Sequence[Hit]]]
"""The queries made for a question, each with the chunks it found, most important first."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question with everything that its workflow and its readers need.

    Attributes:
        question: The question's text.
        tools: The tools of this question; a stronger generator gets different ones.
        plan: The recorded plan.
        analysis: The analyzer's result; None if no chunks were retrieved.
        cell: Whether the answer is one cell of a table over many documents.
        scope: The documents to ask separately; None for workflows that search all of them together.
        scores: The scores of primary retrieval.
    """

    question: str
    tools: Tools
    plan: Plan
    analysis: Analysis | None = None
    cell: bool = False
    scope: Scope | None = None
    scores: RetrieverScores = NO_SCORES

    @property
    def wanted(self) -> AnswerType:
        """The type of the answer."""
        return AnswerType.of(self.tools.answer_type)

    def is_one_of(self, types: Sequence[str]) -> bool:
        """Return whether the analyzer assigned one of these question types."""
        return self.analysis is not None and self.analysis.type in types
