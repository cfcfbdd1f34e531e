"""The pilot: which questions are answered for real before the others, so that they teach the most about them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.config import LATER_ROLES, CompletionLimits
from okralong.pipelines.llm.prices import Price
from okralong.pipelines.run.dry_run import Asked, Forecast, Looks, Outlook


def draw_pilot(outlooks: Sequence[Outlook], size: int, seed: int) -> list[str]:
    """The query_ids of ``size`` questions (all, if there are fewer): one of each workflow, then in proportion.

    A larger pilot of one seed holds the smaller ones, so that it pays only for what it adds.
    """
    workflows: dict[str, list[str]] = defaultdict(list)
    for outlook in outlooks:
        workflows[outlook.workflow].append(outlook.query_id)
    places: dict[str, tuple[bool, float, str]] = {}
    for members in workflows.values():
        members.sort(key=lambda query_id: hashlib.sha256(f"{seed}/{query_id}".encode()).digest())
        for rank, query_id in enumerate(members):
            places[query_id] = rank > 0, (rank + 0.5) / len(members), query_id
    return sorted(places, key=lambda query_id: places[query_id])[:size]


# --------
# What is believed of a generator before it is heard: ``configs/estimate.yaml``, which has each figure's source.

ROLES: Final = tuple(role for role in CompletionLimits.model_fields if role not in LATER_ROLES)
"""The roles of a generator: generate, split, step, full_text, analyze. Nothing is foreseen of a baseline's own."""

Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class ReplyPrior(Settings):
    """Completion tokens of a role's reply: the ``mean`` over all questions, or that ``by_type`` of question."""

    mean: Positive
    by_type: dict[str, Positive] = Field(default_factory=dict)


class SharePrior(Settings):
    """A share (its ``mean``), and how many questions the belief in it is ``worth``: a beta distribution of that mean
    and sum.
    """

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


# --------
# How sure one is of a generator's ways, before and after some of its replies; and a draw of what they may be.
#
# What all calls of a run share is what makes the range of its cost: a generator that is wordy in one reply is so in
# all. So a draw fixes these shared figures first, and only then rolls the dice for each question.

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


# --------
# From drawn sums to what a person reads: tokens and dollars, each with a range.

SHARE: Final = 0.9
"""How much of the draws a range holds. Ours: what is asked for is that it holds the actual in 80 % of runs."""


@dataclass(frozen=True, slots=True)
class Range:
    """The mean of the draws, and the ends of their middle ``SHARE``."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What ``questions`` questions use together. Tokens, the weighted ones input + 4 x output; US dollars in real time,
    and for a batch (None: the price knows none).
    """

    questions: int
    prompt_tokens: Range
    cached_tokens: Range
    completion_tokens: Range
    weighted_tokens: Range
    usd: Range
    batch_usd: Range | None


def figures(questions: int, sums: Floats, price: Price) -> Figures:
    """Figures from draws of prompt, cached and completion tokens, shape (draws, 3)."""
    prompt, cached, completion = sums.T
    # Prices are linear, so what one token of each kind costs is all there is to know.
    fresh, kept, out = (price.cost(usage) for usage in (Usage(1), Usage(1, 1), Usage(0, 0, 1)))
    batch = price.batch_cost(Usage(1)), price.batch_cost(Usage(0, 0, 1))
    return Figures(
        questions=questions,
        prompt_tokens=_range(prompt),
        cached_tokens=_range(cached),
        completion_tokens=_range(completion),
        weighted_tokens=_range(prompt + 4 * completion),
        usd=_range((prompt - cached) * fresh + cached * kept + completion * out),
        batch_usd=_range(prompt * batch[0] + completion * batch[1]) if price.batch_discount else None,
    )


def _range(draws: Floats) -> Range:
    low, high = np.quantile(draws, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Range(float(low), float(draws.mean()), float(high))


# --------
# Rolling the dice for every question of a strategy: what it would use if the generator had certain ways.

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Used:
    """Tokens by question, each of shape (questions,). ``full_text_`` are those of the call after "unanswerable", which
    are not in the others.
    """

    prompt: Floats
    completion: Floats
    full_text_prompt: Floats
    full_text_completion: Floats


class Simulation:
    """All questions of one strategy, under one policy. ``types`` are theirs, in the same order; ``limit`` gives the
    longest reply of a role, in tokens.
    """

    def __init__(
        self, forecasts: Sequence[Forecast], types: Sequence[str], priors: Priors, limit: Callable[[str], int]
    ) -> None:
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

    def roll(self, ways: Ways, random: np.random.Generator) -> Used:
        """What each question uses, in one throw."""
        prompt, completion = np.zeros(self._size), np.zeros(self._size)

        def call(role: str, at: Indices, tokens: Floats) -> None:
            prompt[:] += np.bincount(at, tokens, self._size)
            completion[:] += np.bincount(at, self._replies(role, at, ways, random), self._size)

        for role, (at, tokens) in self._certain.items():
            call(role, at, tokens)
        if self._split.size:
            asked = random.choice(self._numbers, self._split.size, p=ways.sub_questions)
            looked_up = 1 + (np.minimum(asked, self._split_answers.shape[1]) - 1) * ways.new_in_split
            call("generate", self._split, _climbed(self._split_answers, looked_up))
        if self._step.size:
            self._roll_steps(call, ways, random)
        full_text_prompt, full_text_completion = np.zeros(self._size), np.zeros(self._size)
        escalated = np.flatnonzero((random.random(self._size) < ways.unanswerable) & (self._full_text > 0))
        full_text_prompt[escalated] = self._full_text[escalated]
        full_text_completion[escalated] = self._replies("full_text", escalated, ways, random)
        return Used(prompt * ways.counting, completion, full_text_prompt * ways.counting, full_text_completion)

    def _roll_steps(
        self, call: Callable[[str, Indices, Floats], None], ways: Ways, random: np.random.Generator
    ) -> None:
        going = np.arange(self._step.size)
        steps = self._step_reasons.shape[1]

        def answer(those: Indices, finds: int) -> None:
            looked_up = np.full(those.size, 1 + (finds - 1) * ways.new_in_step)
            call("generate", self._step[those], _climbed(self._step_answers[those], looked_up))

        for number in range(1, steps + 1):
            looked_up = np.full(going.size, 1 + (number - 1) * ways.new_in_step)
            call("step", self._step[going], _climbed(self._step_reasons[going], looked_up))
            going = going[random.random(going.size) >= ways.answers]
            stuck = random.random(going.size) < ways.gives_up
            answer(going[stuck], number)
            going = going[~stuck]
        answer(going, steps + 1)

    def _replies(self, role: str, at: Indices, ways: Ways, random: np.random.Generator) -> Floats:
        """Lengths of replies: log-normal about the mean of the role and the type, cut at the role's limit."""
        if role not in self._means:
            self._means[role] = _floats([self._priors.reply(role, kind) for kind in self._types])
        variance = np.log1p(self._priors.spread**2)
        factors = np.exp(random.normal(-variance / 2, np.sqrt(variance), at.size))
        lengths: Floats = self._means[role][at] * ways.wordiness.get(role, ways.wordiness["generate"]) * factors
        return np.clip(lengths, 1.0, self._limit(role))


def _those_that(forecasts: Sequence[Forecast], looks: Looks) -> Indices:
    return np.array([at for at, forecast in enumerate(forecasts) if forecast.looks == looks], dtype=np.intp)


def _floats(values: Sequence[float] | Sequence[Sequence[float]]) -> Floats:
    return np.array(values, dtype=np.float64)


def _climbed(ladders: Floats, looked_up: Floats) -> Floats:
    """The tokens at ``looked_up`` look-ups (from 1 on, shape (n,)), between the rungs of ``ladders`` (n, rungs)."""
    rung = np.minimum(looked_up, ladders.shape[1]) - 1
    below = np.floor(rung).astype(np.intp)
    above = np.minimum(below + 1, ladders.shape[1] - 1)
    row = np.arange(len(ladders))
    climbed: Floats = ladders[row, below] + (rung - below) * (ladders[row, above] - ladders[row, below])
    return climbed


# --------
# The ratio estimator of a pilot: what the questions not asked will use, by how the asked ones of their workflow did.
#
# A draw of the Bayesian bootstrap (Rubin 1981, "The Bayesian bootstrap") weighs the pilot's questions anew, each by a
# random variate times the size expected of it; the priors take part as if they were some questions more. Without a
# pilot the priors alone speak, with a large one hardly. Each question not asked then takes the ratios of one question
# of the pilot, drawn by these weights, so that the range covers also what chance makes of the rest.


@dataclass(frozen=True)
class Ratios:
    """What questions used against what was expected of them, each of shape (asked,).

    ``at`` are their places among all questions, ``sizes`` the prompt tokens that were expected; ``prompt`` and
    ``completion`` are ratios to what was expected, ``cached`` is the share of the prompt that the endpoint had cached.
    """

    at: Indices
    sizes: Floats
    prompt: Floats
    completion: Floats
    cached: Floats


class Urn:
    """Draws for all questions of a strategy, each of a workflow. The priors weigh as much as ``against`` questions.

    ``prompt`` and ``completion`` are the tokens that are expected of each question, of shape (questions,).
    """

    def __init__(
        self, workflows: Sequence[str], prompt: Floats, completion: Floats, ratios: Ratios, against: float
    ) -> None:
        self._prompt, self._completion = prompt, completion
        self._ratios = ratios
        self._against = against
        names = np.array(workflows)
        asked = np.zeros(len(names), dtype=bool)
        asked[ratios.at] = True
        self._groups = [
            (np.flatnonzero((names == name) & ~asked), np.flatnonzero(names[ratios.at] == name))
            for name in np.unique(names[ratios.at])
        ]

    def mix(self, prompt: Floats, completion: Floats, random: np.random.Generator) -> Floats:
        """The cached tokens of each question, while ``prompt`` and ``completion``, a throw by the priors, are changed
        where a question takes the ratios of one that was asked. Those of the asked ones are left as they are.
        """
        share = np.zeros_like(prompt)
        ratios = self._ratios
        for others, asked in self._groups:
            sizes = ratios.sizes[asked]
            weights = np.append(random.gamma(_shape(asked.size), size=asked.size) * sizes, 0.0)
            weights[-1] = random.gamma(self._against) * sizes.mean()
            drawn = random.choice(weights.size, others.size, p=weights / weights.sum())
            taking, taken = others[drawn < asked.size], asked[drawn[drawn < asked.size]]
            prompt[taking] = self._prompt[taking] * ratios.prompt[taken]
            completion[taking] = self._completion[taking] * ratios.completion[taken]
            share[others] = np.average(ratios.cached[asked], weights=sizes)
            share[taking] = ratios.cached[taken]
        return share * prompt


def _shape(asked: int) -> float:
    """The shape of the gamma variates. Rubin's is 1, whose mean has a variance of s2 / (n + 1), with s2 as it is among
    the asked; this one has s2 / (n - 1), which is right on average. Ours below three questions, which show no variance.
    """
    return max(asked - 2, 0.5) / asked


# --------
# Totals of a strategy, drawn many times: what is known of each question, and dice for the rest.

DRAWS: Final = 1000
"""Possible runs that are drawn. Ours: the ends of a 90 % range are then known to about a percentile."""

MEAN_OF: Final = 200
"""Throws whose mean is what is expected of one question; ours. Its error averages out over a workflow."""


@dataclass(frozen=True)
class Crowd:
    """The questions of a strategy, in one order: their ids, workflows and forecasts, and to which of ``groups`` groups
    each belongs (``group``, of shape (questions,)).
    """

    query_ids: Sequence[str]
    workflows: Sequence[str]
    forecasts: Sequence[Forecast]
    group: Indices
    groups: int


def drawn_sums(
    crowd: Crowd, simulation: Simulation, beliefs: Beliefs, asked: Mapping[str, Asked], seed: int, draws: int
) -> Floats:
    """Prompt, cached and completion tokens of each group in each draw, shape (draws, groups, 3).

    ``asked`` are questions of this strategy that were asked already: they count as what they used, and the others
    follow them as far as they are of one workflow.
    """
    random = np.random.default_rng(seed)
    known = [at for at, query_id in enumerate(crowd.query_ids) if query_id in asked]
    actual = [_actual(crowd.forecasts[at], asked[crowd.query_ids[at]]) for at in known]
    escalated = [
        after is not None for at, (_, after) in zip(known, actual, strict=True) if crowd.forecasts[at].full_text
    ]
    beliefs = beliefs.with_unanswerable(sum(escalated), len(escalated) - sum(escalated))
    urn = _urn(crowd, simulation, beliefs, known, [first for first, _ in actual], random) if known else None
    whole = [first + (after or Usage()) for first, after in actual]
    told = _figures(whole)
    sums = np.zeros((draws, crowd.groups, 3))
    for draw in range(draws):
        used = simulation.roll(beliefs.draw(random), random)
        prompt, completion = used.prompt, used.completion
        cached = urn.mix(prompt, completion, random) if urn else np.zeros_like(prompt)
        rows = np.stack([prompt + used.full_text_prompt, cached, completion + used.full_text_completion])
        rows[:, known] = told
        for figure, row in enumerate(rows):
            sums[draw, :, figure] = np.bincount(crowd.group, row, crowd.groups)
    return sums


def _actual(forecast: Forecast, asked: Asked) -> tuple[Usage, Usage | None]:
    """What a question used, and apart from it what its call after "unanswerable" did (None: there was no such call)."""
    after = asked.usage(full_text=True)
    if not forecast.full_text:
        return asked.usage(full_text=False) + after, None
    return asked.usage(full_text=False), after if after.prompt_tokens else None


def _urn(
    crowd: Crowd,
    simulation: Simulation,
    beliefs: Beliefs,
    known: Sequence[int],
    actual: Sequence[Usage],
    random: np.random.Generator,
) -> Urn | None:
    prompt, completion = np.zeros(len(crowd.forecasts)), np.zeros(len(crowd.forecasts))
    for _ in range(MEAN_OF):
        used = simulation.roll(beliefs.draw(random), random)
        prompt += used.prompt / MEAN_OF
        completion += used.completion / MEAN_OF
    asked = [place for place, at in enumerate(known) if prompt[at] > 0]
    if not asked:
        return None
    at = np.array([known[place] for place in asked], dtype=np.intp)
    told = _figures([actual[place] for place in asked])
    ratios = Ratios(
        at=at,
        sizes=prompt[at],
        prompt=told[0] / prompt[at],
        completion=told[2] / completion[at],
        cached=told[1] / np.maximum(told[0], 1.0),
    )
    return Urn(crowd.workflows, prompt, completion, ratios, beliefs.priors.pilot_against)


def _figures(usages: Sequence[Usage]) -> Floats:
    """Prompt, cached and completion tokens, shape (3, usages)."""
    rows = [(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) for usage in usages]
    return np.array(rows, dtype=np.float64).reshape(-1, 3).T


# --------
# The estimate itself: every strategy side by side, as a whole, by question type and by workflow.


@dataclass(frozen=True, slots=True)
class StrategyEstimate:
    """One strategy. ``by_type`` and ``by_workflow`` group the questions as the method sorts them, whatever the strategy
    does with them. ``problems`` says by query_id which questions cannot be asked and why; they count as nothing.
    """

    total: Figures
    by_type: Mapping[str, Figures]
    by_workflow: Mapping[str, Figures]
    problems: Mapping[str, str]


@dataclass(frozen=True)
class Setting:
    """What is the same for all questions: what is believed before anything is heard, the longest reply of each role in
    tokens, the price, the seed of the dice, and how many possible runs are drawn.
    """

    priors: Priors
    limit: Callable[[str], int]
    price: Price
    seed: int = 0
    draws: int = DRAWS


def estimate(
    outlooks: Sequence[Outlook], strategies: Sequence[str], setting: Setting, asked: Mapping[str, Asked] | None = None
) -> dict[str, StrategyEstimate]:
    """The estimate of each of ``strategies`` over all questions.

    ``asked`` are questions that were asked already by the first of the strategies. Its own figures follow them; of the
    others the lengths of replies and the way of counting do.
    """
    known = asked or {}
    types = {outlook.query_id: outlook.type for outlook in outlooks}
    beliefs = Beliefs.before(setting.priors).after([known[each] for each in sorted(known)], types)
    return {name: _one(name, outlooks, setting, beliefs, known if name == strategies[0] else {}) for name in strategies}


def _one(
    name: str, outlooks: Sequence[Outlook], setting: Setting, beliefs: Beliefs, asked: Mapping[str, Asked]
) -> StrategyEstimate:
    able = [outlook for outlook in outlooks if name in outlook.forecasts]
    cells = list(dict.fromkeys((outlook.type, outlook.workflow) for outlook in able))
    places = {cell: number for number, cell in enumerate(cells)}
    group = np.array([places[outlook.type, outlook.workflow] for outlook in able], dtype=np.intp)
    forecasts = [outlook.forecasts[name] for outlook in able]
    crowd = Crowd(
        query_ids=[outlook.query_id for outlook in able],
        workflows=[outlook.workflow for outlook in able],
        forecasts=forecasts,
        group=group,
        groups=len(cells),
    )
    simulation = Simulation(forecasts, [outlook.type for outlook in able], setting.priors, setting.limit)
    sums = drawn_sums(crowd, simulation, beliefs, asked, setting.seed, setting.draws)
    counts = np.bincount(group, minlength=len(cells))

    def of(chosen: Sequence[bool]) -> Figures:
        return figures(int(counts[list(chosen)].sum()), _summed(sums, chosen), setting.price)

    return StrategyEstimate(
        total=of([True] * len(cells)),
        by_type={kind: of([cell[0] == kind for cell in cells]) for kind in sorted({cell[0] for cell in cells})},
        by_workflow={way: of([cell[1] == way for cell in cells]) for way in sorted({cell[1] for cell in cells})},
        problems={each.query_id: each.problems[name] for each in outlooks if name in each.problems},
    )


def _summed(sums: Floats, chosen: Sequence[bool]) -> Floats:
    summed: Floats = sums[:, list(chosen), :].sum(axis=1)
    return summed
