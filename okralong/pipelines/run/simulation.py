"""Simulate the token use of questions from forecasts of their prompts and assumptions about replies.

All calls of a run share some unknowns: a generator that is wordy in one reply is wordy in all. Therefore each draw
samples first these unknowns (``GeneratorParameters``, from a ``Posterior``) and then each question (``Simulation``).
The use of a pilot's questions is extrapolated to other questions of the same workflow (``Bootstrap``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.cost_model import ANSWERS, Forecast, LookUps
from okralong.pipelines.core.types import Usage
from okralong.pipelines.run.observed import AskedQuestion
from okralong.pipelines.run.priors import ROLES, Priors, SharePrior

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
MEAN_OF: Final = 200  # project default
"""Samples per question for its expected use. Their error averages out over a workflow's questions."""


def columns(usages: Sequence[Usage]) -> Floats:
    """Return an array of prompt, cached and completion tokens, shape (3, usages)."""
    rows = [(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) for usage in usages]
    return np.array(rows, dtype=np.float64).reshape(-1, 3).T


@dataclass(frozen=True)
class Used:
    """The calls and tokens of questions; each field has the shape (questions,).

    The ``full_text_`` fields have the tokens of the call after "unanswerable", which the other token fields leave out.
    """

    calls: Floats
    prompt: Floats
    completion: Floats
    full_text_prompt: Floats
    full_text_completion: Floats


class Simulation:
    """Samples the use of all questions under one strategy and policy."""

    def __init__(
        self, forecasts: Sequence[Forecast], types: Sequence[str], priors: Priors, limit: Callable[[str], int]
    ) -> None:
        """Take the ``types`` of the questions, in order; ``limit`` returns the most tokens of a reply for a role."""
        self._size = len(forecasts)
        self._types = list(types)
        self._priors = priors
        self._limit = limit
        self._means: dict[str, Floats] = {}
        self._certain: dict[str, tuple[Indices, Floats]] = {}
        calls = [(prompt.role, at, prompt.tokens) for at, each in enumerate(forecasts) for prompt in each.certain]
        for role in dict.fromkeys(role for role, _, _ in calls):
            own = [(at, tokens) for said, at, tokens in calls if said == role]
            self._certain[role] = np.array([at for at, _ in own], dtype=np.intp), _floats([size for _, size in own])
        self._split, self._step = _those_that(forecasts, "split"), _those_that(forecasts, "step")
        self._split_answers = _floats([forecasts[at].answer for at in self._split])
        self._step_answers = _floats([forecasts[at].answer for at in self._step])
        self._step_reasons = _floats([forecasts[at].reason for at in self._step])
        self._numbers = np.array(list(priors.sub_questions))
        self._full_text = _floats([each.full_text for each in forecasts])
        self._typed = np.array([each.typed for each in forecasts], dtype=bool)
        self._longest = _floats([np.inf if each.longest is None else each.longest for each in forecasts])

    def expected(self, posterior: Posterior, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return the expected prompt and completion tokens of each question, without the call after "unanswerable"."""
        prompt, completion = np.zeros(self._size), np.zeros(self._size)
        for _ in range(MEAN_OF):
            used = self.sample(posterior.draw(random), random)
            prompt += used.prompt / MEAN_OF
            completion += used.completion / MEAN_OF
        return prompt, completion

    def sample(self, parameters: GeneratorParameters, random: np.random.Generator) -> Used:
        """Sample the use of each question in one possible run."""
        calls, prompt, completion = np.zeros((3, self._size))

        def call(role: str, at: Indices, tokens: Floats) -> None:
            replies = self._replies(role, at, parameters, random)
            again = np.zeros(at.size)
            if role in ANSWERS:
                again, tokens, replies = self._repaired(at, tokens, replies, random)
            calls[:] += np.bincount(at, 1 + again, self._size)
            prompt[:] += np.bincount(at, tokens, self._size)
            completion[:] += np.bincount(at, replies, self._size)

        for role, (at, tokens) in self._certain.items():
            call(role, at, tokens)
        if self._split.size:
            asked = random.choice(self._numbers, self._split.size, p=parameters.sub_questions)
            look_ups = 1 + (np.minimum(asked, self._split_answers.shape[1]) - 1) * parameters.new_in_split
            call("generate", self._split, _grown(self._split_answers, look_ups))
        if self._step.size:
            self._sample_steps(call, parameters, random)
        full_text_prompt, full_text_completion = np.zeros(self._size), np.zeros(self._size)
        escalated = np.flatnonzero((random.random(self._size) < parameters.unanswerable) & (self._full_text > 0))
        replies = self._replies("full_text", escalated, parameters, random)
        again, shown, replies = self._repaired(escalated, self._full_text[escalated], replies, random)
        calls[escalated] += 1 + again
        full_text_prompt[escalated] = shown
        full_text_completion[escalated] = replies
        counting = parameters.counting
        return Used(calls, prompt * counting, completion, full_text_prompt * counting, full_text_completion)

    def _sample_steps(
        self,
        call: Callable[[str, Indices, Floats], None],
        parameters: GeneratorParameters,
        random: np.random.Generator,
    ) -> None:
        going = np.arange(self._step.size)
        steps = self._step_reasons.shape[1]

        def ask(role: str, growth: Floats, those: Indices, finds: int) -> None:
            look_ups = np.full(those.size, 1 + (finds - 1) * parameters.new_in_step)
            call(role, self._step[those], _grown(growth[those], look_ups))

        for number in range(1, steps + 1):
            ask("step", self._step_reasons, going, number)
            going = going[random.random(going.size) >= parameters.answers]
            stuck = random.random(going.size) < parameters.gives_up
            ask("generate", self._step_answers, going[stuck], number)
            going = going[~stuck]
        ask("generate", self._step_answers, going, steps + 1)

    def _repaired(
        self, at: Indices, tokens: Floats, replies: Floats, random: np.random.Generator
    ) -> tuple[Floats, Floats, Floats]:
        """Add the calls that repeat an invalid typed answer, with a prompt that shows the first reply.

        Return, per call, the number of repetitions, the prompt tokens and the reply tokens, repetitions included.
        """
        if not self._typed[at].any():
            return np.zeros(at.size), tokens, replies
        again = (self._typed[at] & (random.random(at.size) < self._priors.repaired)).astype(np.float64)
        return again, tokens + again * (tokens + replies), replies * (1 + again)

    def _replies(self, role: str, at: Indices, parameters: GeneratorParameters, random: np.random.Generator) -> Floats:
        """Sample reply lengths: log-normal about the mean for role and type, at most the role's limit."""
        if role not in self._means:
            self._means[role] = _floats([self._priors.reply(role, kind) for kind in self._types])
        variance = np.log1p(self._priors.spread**2)
        factors = np.exp(random.normal(-variance / 2, np.sqrt(variance), at.size))
        wordiness = parameters.wordiness.get(role, parameters.wordiness["generate"])
        longest = np.minimum(self._limit(role), self._longest[at] if role in ANSWERS else np.inf)
        return np.clip(self._means[role][at] * wordiness * factors, 1.0, longest)


def _those_that(forecasts: Sequence[Forecast], looks: LookUps) -> Indices:
    return np.array([at for at, forecast in enumerate(forecasts) if forecast.looks == looks], dtype=np.intp)


def _floats(values: Sequence[float] | Sequence[Sequence[float]]) -> Floats:
    return np.array(values, dtype=np.float64)


def _grown(growth: Floats, look_ups: Floats) -> Floats:
    """Interpolate the tokens of n prompts, each after a number of ``look_ups`` (at least 1, not always whole).

    ``growth`` has the tokens after 1, 2, ... look-ups in its columns, shape (n, most look-ups).
    """
    place = np.minimum(look_ups, growth.shape[1]) - 1
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, growth.shape[1] - 1)
    row = np.arange(len(growth))
    grown: Floats = growth[row, below] + (place - below) * (growth[row, above] - growth[row, below])
    return grown


@dataclass(frozen=True)
class Bootstrap:
    """A ratio estimator: scales the other questions by the ratio of actual to expected use in a pilot.

    A draw of the Bayesian bootstrap (Rubin 1981, "The Bayesian bootstrap") weights each question of the pilot by a
    random variate times its expected size; the priors weigh as much as ``against`` further questions. Each other
    question takes the ratios of one pilot question of its workflow, drawn by these weights. So the range also covers
    the variation among the other questions.

    Attributes:
        prompt: Expected prompt tokens of each question, shape (questions,).
        completion: Expected completion tokens of each question, shape (questions,).
        groups: For each workflow, the positions of its other questions, and the indexes of its asked questions.
        sizes: Expected prompt tokens of the asked questions, shape (asked,).
        prompt_ratios: Actual over expected prompt tokens, shape (asked,).
        completion_ratios: Actual over expected completion tokens, shape (asked,).
        cached: Share of the prompt tokens that the endpoint found in its cache, shape (asked,).
        against: Weight of the priors, in questions.
    """

    prompt: Floats
    completion: Floats
    groups: Sequence[tuple[Indices, Indices]]
    sizes: Floats
    prompt_ratios: Floats
    completion_ratios: Floats
    cached: Floats
    against: float

    @classmethod
    def of(
        cls,
        workflows: Sequence[str],
        expected: tuple[Floats, Floats],
        known: Sequence[int],
        actual: Sequence[Usage],
        against: float,
    ) -> Self | None:
        """Build from the asked questions (at the positions ``known``) and their use; None if none had prompts."""
        prompt, completion = expected
        kept = [place for place, at in enumerate(known) if prompt[at] > 0]
        if not kept:
            return None
        at = np.array([known[place] for place in kept], dtype=np.intp)
        used = columns([actual[place] for place in kept])
        names = np.array(workflows)
        asked = np.zeros(len(names), dtype=bool)
        asked[at] = True
        return cls(
            prompt=prompt,
            completion=completion,
            groups=[
                (np.flatnonzero((names == name) & ~asked), np.flatnonzero(names[at] == name))
                for name in np.unique(names[at])
            ],
            sizes=prompt[at],
            prompt_ratios=used[0] / prompt[at],
            completion_ratios=used[2] / completion[at],
            cached=used[1] / np.maximum(used[0], 1.0),
            against=against,
        )

    def resample(self, prompt: Floats, completion: Floats, random: np.random.Generator) -> Floats:
        """Scale ``prompt`` and ``completion`` in place, and return the cached tokens of each question.

        Asked questions, and those that draw the priors, keep their values.
        """
        share = np.zeros_like(prompt)
        for others, asked in self.groups:
            sizes = self.sizes[asked]
            weights = np.append(random.gamma(_gamma_shape(asked.size), size=asked.size) * sizes, 0.0)
            weights[-1] = random.gamma(self.against) * sizes.mean()
            drawn = random.choice(weights.size, others.size, p=weights / weights.sum())
            taking, taken = others[drawn < asked.size], asked[drawn[drawn < asked.size]]
            prompt[taking] = self.prompt[taking] * self.prompt_ratios[taken]
            completion[taking] = self.completion[taking] * self.completion_ratios[taken]
            share[others] = np.average(self.cached[asked], weights=sizes)
            share[taking] = self.cached[taken]
        return share * prompt


def _gamma_shape(asked: int) -> float:
    """Return the shape parameter of the gamma variates for a number of asked questions.

    Let s2 be the variance of n asked questions. With Rubin's shape of 1 the variance of the mean is s2 / (n + 1); with
    this shape it is s2 / (n - 1), which is right on average. Fewer than three questions show too little variance; for
    them the shape is a project default.
    """
    return max(asked - 2, 0.5) / asked


@dataclass(frozen=True, slots=True)
class GeneratorParameters:
    """One draw of the unknowns that all calls of a run share.

    ``wordiness`` has a factor for each role, on the mean length of its replies; ``counting`` is a factor on our count
    of a prompt's tokens. ``sub_questions`` has the probability of each number of sub-questions, in the order of the
    priors. The other fields are shares as in ``Priors``.
    """

    wordiness: Mapping[str, float]
    counting: float
    sub_questions: Floats
    answers: float
    gives_up: float
    new_in_split: float
    new_in_step: float
    unanswerable: float

    @classmethod
    def average(cls, priors: Priors) -> Self:
        """Return the means of the priors."""
        weights = np.array(list(priors.sub_questions.values()))
        return cls(
            wordiness=dict.fromkeys(ROLES, 1.0),
            counting=1.0,
            sub_questions=weights / weights.sum(),
            answers=priors.answers.mean,
            gives_up=priors.gives_up.mean,
            new_in_split=priors.new_in_split.mean,
            new_in_step=priors.new_in_step.mean,
            unanswerable=priors.unanswerable.mean,
        )


@dataclass(frozen=True)
class Posterior:
    """Probability distributions over a generator's parameters, updated with observed replies.

    Attributes:
        log_words: Mean logarithm of the factor on each role's replies, in the order of ``ROLES``.
        log_words_covariance: Covariance of these logarithms.
        log_counting: Mean and standard deviation of the logarithm of the factor on our token counts.
        unanswerable: Parameters of a beta distribution.
        escalated: Parameters of a beta distribution.
    """

    priors: Priors
    log_words: Floats
    log_words_covariance: Floats
    log_counting: tuple[float, float]
    unanswerable: tuple[float, float]
    escalated: tuple[float, float]

    @classmethod
    def before(cls, priors: Priors) -> Self:
        """Return the distributions before any observation."""
        size = len(ROLES)
        shared = np.full((size, size), priors.wordiness**2)
        own = np.eye(size) * priors.role_wordiness**2
        # With this mean, the factor itself, not its logarithm, is 1 on average.
        mean = -np.diag(shared + own) / 2
        shares = _beta(priors.unanswerable), _beta(priors.escalated)
        return cls(priors, mean, shared + own, (0.0, priors.counting), *shares)

    def after(self, asked: Sequence[AskedQuestion], types: Mapping[str, str], *, again: bool = False) -> Self:
        """Return the posterior given the calls of some questions: of first answers or, with ``again``, of escalations.

        The mean reply of a role, divided by the prior's mean, is one observation of the role's factor. It is more
        certain with more replies, and the correlated factors of other roles change with it. ``types`` has the question
        types by query_id.
        """
        replies: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for question in asked:
            for call in question.calls:
                if call.again is not again:
                    continue
                expected = self.priors.reply(call.role, types.get(question.query_id, ""))
                replies[call.role].append((call.usage.completion_tokens, expected))
        seen = [at for at, role in enumerate(ROLES) if replies[role]]
        learned = self
        if seen:
            sums = np.array([np.sum(replies[ROLES[at]], axis=0) for at in seen])
            observed = np.log(np.maximum(sums[:, 0], 1.0) / sums[:, 1])
            noise = np.diag([self._variance(replies[ROLES[at]]) / len(replies[ROLES[at]]) for at in seen])
            # Condition the normal distribution of all factors on noisy observations of some.
            across = self.log_words_covariance[:, seen]
            gain = across @ np.linalg.inv(across[seen, :] + noise)
            mean = self.log_words + gain @ (observed - self.log_words[seen])
            covariance = self.log_words_covariance - gain @ across.T
            learned = replace(self, log_words=mean, log_words_covariance=covariance)
        calls = [call for each in asked for call in each.calls if call.counted and call.again is again]
        counted = [(call.usage.prompt_tokens, call.counted) for call in calls]
        if counted:
            charged, ours = np.sum(counted, axis=0)
            more = float(np.log(charged / ours))
            # The uncertainty grows with the difference: whether it is per word or per message is unknown, and prompts
            # differ in length.
            learned = replace(learned, log_counting=(more, abs(more) / 2))
        return learned

    def with_unanswerable(self, yes: int, no: int) -> Self:
        """Return the posterior after ``yes`` first answers that said "unanswerable", and ``no`` that did not."""
        return replace(self, unanswerable=(self.unanswerable[0] + yes, self.unanswerable[1] + no))

    def with_escalated(self, yes: int, no: int) -> Self:
        """Return the posterior after ``yes`` answers that were escalated, and ``no`` that were not."""
        return replace(self, escalated=(self.escalated[0] + yes, self.escalated[1] + no))

    def draw(self, random: np.random.Generator) -> GeneratorParameters:
        """Sample one possible generator."""
        priors = self.priors
        words = np.exp(random.multivariate_normal(self.log_words, self.log_words_covariance, method="eigh"))
        weights = np.array(list(priors.sub_questions.values()))
        return GeneratorParameters(
            wordiness=dict(zip(ROLES, words.tolist(), strict=True)),
            counting=float(np.exp(random.normal(*self.log_counting))),
            sub_questions=random.dirichlet(weights / weights.sum() * priors.sub_questions_worth),
            answers=random.beta(*_beta(priors.answers)),
            gives_up=random.beta(*_beta(priors.gives_up)),
            new_in_split=random.beta(*_beta(priors.new_in_split)),
            new_in_step=random.beta(*_beta(priors.new_in_step)),
            unanswerable=random.beta(*self.unanswerable),
        )

    def _variance(self, replies: Sequence[tuple[float, float]]) -> float:
        """Return the variance of actual over expected reply tokens: a weighted mean of prior and observed variance."""
        ratios = np.array([tokens / expected for tokens, expected in replies])
        seen = np.sum((ratios / ratios.mean() - 1) ** 2) if ratios.sum() else 0.0
        against = self.priors.pilot_against
        return float((against * self.priors.spread**2 + seen) / (against + max(len(replies) - 1, 0)))


def _beta(share: SharePrior) -> tuple[float, float]:
    return share.mean * share.worth, (1 - share.mean) * share.worth
