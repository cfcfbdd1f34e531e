"""Assumptions about a generator of which no reply has been observed yet (``configs/estimate.yaml``)."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings

ROLES: Final = ("generate", "split", "step", "full_text", "analyze")
"""The roles that have priors. Roles that only baselines use have none."""
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class ReplyPrior(Settings):
    """The mean completion tokens of a role's reply: ``mean`` over all questions, ``by_type`` for some types."""

    mean: Positive
    by_type: dict[str, Positive] = Field(default_factory=dict)


class SharePrior(Settings):
    """A beta distribution of a share: its ``mean``, and the number of observed questions that it is ``worth``."""

    mean: Annotated[float, Field(gt=0, lt=1)]
    worth: Positive


class Priors(Settings):
    """Assumptions about replies that have not been observed.

    - ``replies``: the length of replies, for each role.
    - ``spread``: the coefficient of variation of a reply's length about its mean.
    - ``wordiness``: how much generators differ: each has a factor on the length of all its replies, and this is the
      standard deviation of the factor's logarithm.
    - ``role_wordiness``: the same for a further factor on the replies of each role.
    - ``counting``: the same for a factor on our count of a prompt's tokens, since endpoints count differently.
    - ``sub_questions``: the weights of 1, 2, ... sub-questions; together they count as ``sub_questions_worth`` observed
      questions.
    - ``answers``: the share of reasoning steps that end with an answer.
    - ``gives_up``: the share of the other steps that ask for no new look-up.
    - ``new_in_split``, ``new_in_step``: the share of a further look-up's chunks that no earlier look-up found.
    - ``unanswerable``: the share of questions answered "unanswerable" before the full text is read.
    - ``escalated``: the share of answers that are escalated, if the policy escalates.
    - ``repaired``: the share of typed answers that are requested once more.
    - ``pilot_against``: how many pilot questions of one workflow weigh as much as these priors.
    - ``thought``: the mean number of reasoning tokens before a reply, by ``reasoning_effort``. ``thought_spread`` and
      ``thought_wordiness`` replace ``spread`` and ``wordiness`` for a generator that reasons first.
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
    escalated: SharePrior
    repaired: Share
    pilot_against: Positive
    thought: dict[str, Positive]
    thought_spread: Positive
    thought_wordiness: Positive

    @model_validator(mode="after")
    def _every_role(self) -> Self:
        if missing := set(ROLES) - set(self.replies):
            raise ValueError(f"replies has no entry for {', '.join(sorted(missing))}")
        if not self.sub_questions or min(self.sub_questions) < 1:
            raise ValueError("sub_questions must have weights for numbers from 1 up")
        return self

    def thinking(self, effort: str | None, room: int) -> Priors:
        """Return the priors of a generator that may produce reasoning tokens before each reply.

        Args:
            effort: Its ``reasoning_effort``; None (the generator's default) counts as medium.
            room: The most reasoning tokens; 0 for a generator without reasoning.
        """
        thought = min(self.thought.get(effort or "medium", 0.0), room)
        if not thought:
            return self
        replies = {
            role: ReplyPrior(
                mean=each.mean + thought, by_type={kind: mean + thought for kind, mean in each.by_type.items()}
            )
            for role, each in self.replies.items()
        }
        spreads = {"spread": self.thought_spread, "wordiness": self.thought_wordiness}
        return self.model_copy(update={"replies": replies, **spreads})

    def reply(self, role: str, kind: str) -> float:
        """Return the mean tokens of a reply of ``role`` to a question of type ``kind``.

        Roles without a prior use that of "generate".
        """
        known = self.replies.get(role, self.replies["generate"])
        return known.by_type.get(kind, known.mean)
