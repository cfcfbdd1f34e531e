"""What is believed of a generator before it is heard: ``configs/estimate.yaml``, which has each figure's source."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.llm.config import LATER_ROLES, CompletionLimits

ROLES: Final = tuple(role for role in CompletionLimits.model_fields if role not in LATER_ROLES)
"""The roles of a generator: generate, split, step, full_text, analyze. Nothing is foreseen of a baseline's own."""

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class ReplyPrior(Settings):
    """Completion tokens of a role's reply: the ``mean`` over all questions, or that ``by_type`` of question."""

    mean: Positive
    by_type: dict[str, Positive] = Field(default_factory=dict)


class SharePrior(Settings):
    """A share, and how many questions the belief in it is ``worth``: a beta distribution of that mean and sum."""

    mean: Annotated[float, Field(gt=0, lt=1)]
    worth: Positive


class Priors(Settings):
    """``replies`` has an entry for each role.

    ``spread`` is the coefficient of variation of one reply; ``wordiness`` the standard deviation of the logarithm of a
    factor on all replies of a generator, ``role_wordiness`` that of a role's own factor beside it; ``counting`` the
    same of the tokens that the endpoint counts in a prompt. ``sub_questions`` gives weights to numbers of
    sub-questions, worth ``sub_questions_worth`` questions; ``answers`` is the share of reasoning steps that answer,
    ``gives_up`` of the others the share that look up nothing new; ``new_in_split`` and ``new_in_step`` the share of a
    further look-up's chunks that no earlier one found. ``unanswerable`` is the share of such answers before the full
    text is read. ``pilot_against`` is how many of a pilot's questions of one workflow weigh as much as all of this.
    """

    replies: dict[str, ReplyPrior]
    spread: Positive
    wordiness: Positive
    role_wordiness: Positive
    counting: Positive
    sub_questions: dict[int, Positive]
    sub_questions_worth: Positive
    answers: SharePrior
    gives_up: SharePrior
    new_in_split: SharePrior
    new_in_step: SharePrior
    unanswerable: SharePrior
    pilot_against: Positive

    @model_validator(mode="after")
    def _every_role(self) -> Self:
        if missing := set(ROLES) - set(self.replies):
            raise ValueError(f"replies has no entry for {', '.join(sorted(missing))}")
        if not self.sub_questions or min(self.sub_questions) < 1:
            raise ValueError("sub_questions gives weights to numbers from 1 on")
        return self

    def reply(self, role: str, kind: str) -> float:
        """The mean tokens of a reply of ``role`` to a question of type ``kind``; "generate" for a role of one's own."""
        known = self.replies.get(role, self.replies["generate"])
        return known.by_type.get(kind, known.mean)
