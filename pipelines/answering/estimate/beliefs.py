"""How sure one is of a generator's ways, before and after some of its replies; and a draw of what they may be.

What all calls of a run share is what makes the range of its cost: a generator that is wordy in one reply is so in all.
So a draw fixes these shared figures first, and only then rolls the dice for each question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.estimate.observed import Asked
from okralong.pipelines.answering.estimate.priors import ROLES, Priors, SharePrior

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ways:
    """One draw of what all calls of a run share. ``wordiness`` and ``counting`` are factors, the first by role, on the
    prior's mean reply and on our count of a prompt; ``sub_questions`` are the chances of the numbers that the priors
    name, in their order; the others are shares, as in ``Priors``.
    """

    wordiness: Mapping[str, float]
    counting: float
    sub_questions: Floats
    answers: float
    gives_up: float
    new_in_split: float
    new_in_step: float
    unanswerable: float


@dataclass(frozen=True)
class Beliefs:
    """``log_words`` and ``log_words_covariance`` are of the logarithms of the factors on each role's replies, in the
    order of ``ROLES``; ``log_counting`` is the mean and the standard deviation of that on our counts; ``unanswerable``
    are the two parameters of a beta distribution.
    """

    priors: Priors
    log_words: Floats
    log_words_covariance: Floats
    log_counting: tuple[float, float]
    unanswerable: tuple[float, float]

    @classmethod
    def before(cls, priors: Priors) -> Self:
        """What the priors say."""
        size = len(ROLES)
        shared = np.full((size, size), priors.wordiness**2)
        own = np.eye(size) * priors.role_wordiness**2
        # Less half the variance: the factor itself, not its logarithm, is 1 on average.
        mean = -np.diag(shared + own) / 2
        return cls(priors, mean, shared + own, (0.0, priors.counting), _beta(priors.unanswerable))

    def after(self, asked: Sequence[Asked], types: Mapping[str, str]) -> Self:
        """The same after some questions, whose ``types`` are by query_id.

        A role's mean reply against the prior's is one observation of its factor, the surer the more replies it is the
        mean of; the factors of other roles follow as far as they share it.
        """
        said: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for question in asked:
            for call in question.calls:
                expected = self.priors.reply(call.role, types.get(question.query_id, ""))
                said[call.role].append((call.usage.completion_tokens, expected))
        heard = [at for at, role in enumerate(ROLES) if said[role]]
        learned = self
        if heard:
            sums = np.array([np.sum(said[ROLES[at]], axis=0) for at in heard])
            observed = np.log(np.maximum(sums[:, 0], 1.0) / sums[:, 1])
            noise = np.diag([self._variance(said[ROLES[at]]) / len(said[ROLES[at]]) for at in heard])
            mean, covariance = self._conditioned(heard, observed, noise)
            learned = replace(self, log_words=mean, log_words_covariance=covariance)
        counted = [(call.usage.prompt_tokens, call.counted) for each in asked for call in each.calls if call.counted]
        if counted:
            charged, ours = np.sum(counted, axis=0)
            more = float(np.log(charged / ours))
            # Whether it counts more for each word or for each message is not known, and prompts differ in length.
            learned = replace(learned, log_counting=(more, abs(more) / 2))
        return learned

    def with_unanswerable(self, yes: int, no: int) -> Self:
        """The same after so many first answers that said "unanswerable", and so many that did not."""
        return replace(self, unanswerable=(self.unanswerable[0] + yes, self.unanswerable[1] + no))

    def draw(self, random: np.random.Generator) -> Ways:
        """One possible generator."""
        priors = self.priors
        words = np.exp(random.multivariate_normal(self.log_words, self.log_words_covariance, method="eigh"))
        weights = np.array(list(priors.sub_questions.values()))
        return Ways(
            wordiness=dict(zip(ROLES, words.tolist(), strict=True)),
            counting=float(np.exp(random.normal(*self.log_counting))),
            sub_questions=random.dirichlet(weights / weights.sum() * priors.sub_questions_worth),
            answers=random.beta(*_beta(priors.answers)),
            gives_up=random.beta(*_beta(priors.gives_up)),
            new_in_split=random.beta(*_beta(priors.new_in_split)),
            new_in_step=random.beta(*_beta(priors.new_in_step)),
            unanswerable=random.beta(*self.unanswerable),
        )

    def _variance(self, said: Sequence[tuple[float, float]]) -> float:
        """That of one reply's tokens over the expected ones: the prior's, and more and more what was seen."""
        ratios = np.array([tokens / expected for tokens, expected in said])
        seen = np.sum((ratios / ratios.mean() - 1) ** 2) if ratios.sum() else 0.0
        against = self.priors.pilot_against
        return float((against * self.priors.spread**2 + seen) / (against + max(len(said) - 1, 0)))

    def _conditioned(self, heard: Sequence[int], observed: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance of the normal distribution of all factors, given noisy observations of some."""
        across = self.log_words_covariance[:, heard]
        gain = across @ np.linalg.inv(across[heard, :] + noise)
        mean: Floats = self.log_words + gain @ (observed - self.log_words[heard])
        covariance: Floats = self.log_words_covariance - gain @ across.T
        return mean, covariance


def _beta(share: SharePrior) -> tuple[float, float]:
    return share.mean * share.worth, (1 - share.mean) * share.worth
