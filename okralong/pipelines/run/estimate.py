"""What the questions of a run may cost: tokens and dollars, each with a range, from a thousand drawn runs.

What all calls of a run share makes the range of its cost: a generator that is wordy in one reply is so in all. So each
draw fixes those figures first (``GeneratorParameters``, of a ``Posterior``) and only then samples each question
(``Simulation``). Questions that were asked already, as a pilot, count as what they used; the others of their workflow
follow them (``Bootstrap``).
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.cost_model import (
    ANSWERS,
    ROLES,
    Forecast,
    LookUps,
    Priors,
    SharePrior,
    cacheable,
)
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import MILLION, Price
from okralong.pipelines.run.dry_run import AskedQuestion, Outlook

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SHARE: Final = 0.9
"""How much of the draws a range holds. Ours: what is asked for is that it holds the actual in 80 % of runs."""

DRAWS: Final = 1000
"""Possible runs that are drawn. Ours: the ends of a 90 % range are then known to about a percentile."""

MEAN_OF: Final = 200
"""Samples whose mean is what is expected of one question; ours. Its error averages out over a workflow."""


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


@dataclass(frozen=True, slots=True)
class Range:
    """The mean of the draws, and the ends of their middle ``SHARE``."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What ``questions`` questions use together. Tokens, the weighted ones input + 4 x output; US dollars in real time,
    for a batch and at the flex tier (None: the price knows none), and in real time where each prefix that prompts are
    sure to share is found in the endpoint's cache (``warm_usd``; None where they share none, and where it was seen how
    much is cached).
    """

    questions: int
    prompt_tokens: Range
    cached_tokens: Range
    completion_tokens: Range
    weighted_tokens: Range
    usd: Range
    batch_usd: Range | None
    flex_usd: Range | None = None
    warm_usd: Range | None = None


@dataclass(frozen=True, slots=True)
class StrategyEstimate:
    """One strategy. ``by_type`` and ``by_workflow`` group the questions as the method sorts them, whatever the strategy
    does with them. ``problems`` says by query_id which questions cannot be asked and why; they count as nothing.
    ``again`` is the part of ``total`` that is asked because a first answer is not trusted; None: nothing ever is.
    """

    total: Figures
    by_type: Mapping[str, Figures]
    by_workflow: Mapping[str, Figures]
    problems: Mapping[str, str]
    again: Figures | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Who is asked where an answer is not trusted: a stronger generator with this price, these longest replies, and
    priors of its own.
    """

    limit: Callable[[str], int]
    price: Price
    priors: Priors


@dataclass(frozen=True)
class Setting:
    """What is the same for all questions: the priors, the longest reply of each role in tokens, the price, the seed of
    the draws, and how many there are. ``stronger`` None: whatever is asked again is asked of the same generator.
    """

    priors: Priors
    limit: Callable[[str], int]
    price: Price
    seed: int = 0
    draws: int = DRAWS
    stronger: Again | None = None


def estimate(
    outlooks: Sequence[Outlook],
    strategies: Sequence[str],
    setting: Setting,
    asked: Mapping[str, AskedQuestion] | None = None,
) -> dict[str, StrategyEstimate]:
    """The estimate of each of ``strategies`` over all questions.

    How many answers will not be trusted nobody knows before some are there: without any asked by this strategy the
    ranges go from none to all of them, and what is expected has the prior's share.

    ``asked`` are questions that were asked already by the first of the strategies. Its own figures follow them; of the
    others the lengths of replies and the way of counting do.
    """
    known = asked or {}
    types = {outlook.query_id: outlook.type for outlook in outlooks}
    posterior = Posterior.before(setting.priors).after([known[each] for each in sorted(known)], types)
    second = posterior
    if setting.stronger is not None:
        priors = setting.stronger.priors
        second = Posterior.before(priors).after([known[each] for each in sorted(known)], types, again=True)
    return {
        name: _one(name, outlooks, setting, (posterior, second), known if name == strategies[0] else {})
        for name in strategies
    }


def _one(
    name: str,
    outlooks: Sequence[Outlook],
    setting: Setting,
    posteriors: tuple[Posterior, Posterior],
    asked: Mapping[str, AskedQuestion],
) -> StrategyEstimate:
    able = [outlook for outlook in outlooks if name in outlook.forecasts]
    cells = list(dict.fromkeys((outlook.type, outlook.workflow) for outlook in able))
    group = np.array([cells.index((outlook.type, outlook.workflow)) for outlook in able], dtype=np.intp)
    sums = np.zeros((setting.draws, len(cells), 9))
    for draw, used in enumerate(_draws(name, able, setting, posteriors, asked)):
        for figure, row in enumerate(used):
            sums[draw, :, figure] = np.bincount(group, row, len(cells))
    counts = np.bincount(group, minlength=len(cells))
    longer, shared = _sure(name, able, setting.price, group, len(cells))
    known = any(outlook.query_id in asked for outlook in able)

    def of(chosen: Sequence[bool], first: bool = True) -> Figures:
        which = list(chosen)
        figures = _figures(int(counts[which].sum()), sums[:, which, :].sum(axis=1), setting, known, first)
        return (
            _with_prompts(figures, longer[which].sum(), shared[which].sum(), setting.price, known) if first else figures
        )

    return StrategyEstimate(
        again=of([True] * len(cells), first=False) if any(each.forecasts[name].again for each in able) else None,
        total=of([True] * len(cells)),
        by_type={kind: of([cell[0] == kind for cell in cells]) for kind in sorted({cell[0] for cell in cells})},
        by_workflow={way: of([cell[1] == way for cell in cells]) for way in sorted({cell[1] for cell in cells})},
        problems={each.query_id: each.problems[name] for each in outlooks if name in each.problems},
    )


def _sure(name: str, outlooks: Sequence[Outlook], price: Price, group: Indices, cells: int) -> tuple[Floats, Floats]:
    """By cell: US dollars that the prompts that are sure to be sent cost beyond the rates of short ones, and their
    tokens that are cached where each prefix is read once.
    """
    longer, shared = np.zeros(len(outlooks)), np.zeros(len(outlooks))
    seen: set[str] = set()
    for at, outlook in enumerate(outlooks):
        for prompt in outlook.forecasts[name].certain:
            longer[at] += price.cost(Usage(prompt.tokens)) - prompt.tokens * price.input / MILLION
            if prompt.prefix is not None:
                shared[at] += cacheable(prompt.prefix[1]) if prompt.prefix[0] in seen else 0
                seen.add(prompt.prefix[0])
    more, kept = np.zeros(cells), np.zeros(cells)
    more[:], kept[:] = np.bincount(group, longer, cells), np.bincount(group, shared, cells)
    return more, kept


def _with_prompts(figures: Figures, longer: float, shared: float, price: Price, known: bool) -> Figures:
    """The same with what is known of the prompts themselves (see ``_sure``)."""

    def more(each: Range | None, usd: float) -> Range | None:
        return None if each is None else Range(each.low + usd, each.expected + usd, each.high + usd)

    usd = more(figures.usd, longer) or figures.usd
    spared = shared * (price.input - price.cached_input) / MILLION
    return replace(
        figures,
        usd=usd,
        batch_usd=more(figures.batch_usd, longer * (1 - price.batch_discount)),
        flex_usd=more(figures.flex_usd, longer * (1 - price.flex_discount)),
        warm_usd=more(usd, -spared) if spared > 0 and not known else None,
    )


def _figures(questions: int, sums: Floats, setting: Setting, known: bool, first: bool) -> Figures:
    """Figures from draws of prompt, cached and completion tokens: of first answers, of those that are asked for again,
    and of all if all were, shape (draws, 9). ``known``: how many are was seen; ``first`` False leaves out the first.
    """
    answers, again, every = sums[:, :3], sums[:, 3:6], sums[:, 6:]
    answers = answers if first else np.zeros_like(answers)
    price, other = setting.price, setting.stronger.price if setting.stronger else setting.price

    def ranged(own: Callable[[Floats], Floats], second: Callable[[Floats], Floats] | None = None) -> Range:
        second = second or own
        expected = own(answers.T) + second(again.T)
        lowest, highest = (expected, expected) if known else (own(answers.T), own(answers.T) + second(every.T))
        return Range(
            float(np.quantile(lowest, (1 - SHARE) / 2)),
            float(expected.mean()),
            float(np.quantile(highest, (1 + SHARE) / 2)),
        )

    # The stronger generator is asked in real time, whatever the mode.
    late = partial(_usd, price=other) if setting.stronger else partial(_usd, price=price.in_batch())
    flexible = other if setting.stronger else price.in_flex()
    return Figures(
        questions=questions,
        prompt_tokens=ranged(lambda tokens: tokens[0]),
        cached_tokens=ranged(lambda tokens: tokens[1]),
        completion_tokens=ranged(lambda tokens: tokens[2]),
        weighted_tokens=ranged(lambda tokens: tokens[0] + 4 * tokens[2]),
        usd=ranged(partial(_usd, price=price), partial(_usd, price=other)),
        batch_usd=ranged(partial(_usd, price=price.in_batch()), late) if price.batch_discount else None,
        flex_usd=ranged(partial(_usd, price=price.in_flex()), partial(_usd, price=flexible))
        if price.flex_discount
        else None,
    )


def _usd(tokens: Floats, price: Price) -> Floats:
    """Dollars for prompt, cached and completion tokens, shape (3, draws). Prices are linear, so what one token of each
    kind costs is all there is to know.
    """
    fresh, kept, out = (price.cost(usage) for usage in (Usage(1), Usage(1, 1), Usage(0, 0, 1)))
    usd: Floats = (tokens[0] - tokens[1]) * fresh + tokens[1] * kept + tokens[2] * out
    return usd


def _draws(
    name: str,
    outlooks: Sequence[Outlook],
    setting: Setting,
    posteriors: tuple[Posterior, Posterior],
    asked: Mapping[str, AskedQuestion],
) -> Iterator[Floats]:
    """Prompt, cached and completion tokens of each question in each draw, each of shape (9, questions): three rows for
    the first answer, three for one that is asked for again, three for that if all were.

    ``posteriors`` are of the generator, and of the one that is asked again. ``asked`` are questions
    of this strategy that were asked already: they count as what they used, and the others follow them as far as they
    are of one workflow.
    """
    random = np.random.default_rng(setting.seed)
    forecasts = [outlook.forecasts[name] for outlook in outlooks]
    simulation = Simulation(forecasts, [outlook.type for outlook in outlooks], setting.priors, setting.limit)
    known = [at for at, outlook in enumerate(outlooks) if outlook.query_id in asked]
    actual = [_actual(forecasts[at], asked[outlooks[at].query_id]) for at in known]
    escalated = [after is not None for at, (_, after) in zip(known, actual, strict=True) if forecasts[at].full_text]
    posterior, second = posteriors
    posterior = posterior.with_unanswerable(sum(escalated), len(escalated) - sum(escalated))
    may = np.array([forecast.again is not None for forecast in forecasts], dtype=bool)
    asked_again = _columns([asked[outlooks[at].query_id].usage_again() for at in known])
    seen = int(np.count_nonzero(asked_again[0][may[known]])) if known else 0
    posterior = posterior.with_escalated(seen, int(may[known].sum()) - seen if known else 0)
    limit = setting.stronger.limit if setting.stronger else setting.limit
    others = [forecast.again or Forecast() for forecast in forecasts]
    priors = setting.stronger.priors if setting.stronger else setting.priors
    again = Simulation(others, [outlook.type for outlook in outlooks], priors, limit)
    bootstrap: Bootstrap | None = None
    if known:
        workflows = [outlook.workflow for outlook in outlooks]
        expected = simulation.expected(posterior, random)
        bootstrap = Bootstrap.of(
            workflows, expected, known, [first for first, _ in actual], setting.priors.pilot_against
        )
    told = _columns([first + (after or Usage()) for first, after in actual])
    for _ in range(setting.draws):
        parameters = posterior.draw(random)
        used = simulation.sample(parameters, random)
        prompt, completion = used.prompt, used.completion
        cached = bootstrap.resample(prompt, completion, random) if bootstrap else np.zeros_like(prompt)
        rows = np.stack([prompt + used.full_text_prompt, cached, completion + used.full_text_completion])
        rows[:, known] = told
        every, mask = np.zeros_like(rows), np.zeros(len(may), dtype=bool)
        if may.any():
            own = parameters if setting.stronger is None else second.draw(random)
            more = again.sample(own, random)
            every[0] = more.prompt + more.full_text_prompt
            every[2] = more.completion + more.full_text_completion
            if setting.stronger is None:  # nobody reads the full text twice
                every[:, used.full_text_prompt > 0] = 0.0
            every[:, known] = asked_again
            mask = random.random(len(may)) < random.beta(*posterior.escalated)
            mask[known] = True
        yield np.concatenate([rows, every * mask, every])


def _actual(forecast: Forecast, asked: AskedQuestion) -> tuple[Usage, Usage | None]:
    """What a question used, and apart from it what its call after "unanswerable" did (None: there was no such call)."""
    after = asked.usage(full_text=True)
    if not forecast.full_text:
        return asked.usage(full_text=False) + after, None
    return asked.usage(full_text=False), after if after.prompt_tokens else None


def _columns(usages: Sequence[Usage]) -> Floats:
    """Prompt, cached and completion tokens, shape (3, usages)."""
    rows = [(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) for usage in usages]
    return np.array(rows, dtype=np.float64).reshape(-1, 3).T


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
        self._typed = np.array([each.typed for each in forecasts], dtype=bool)

    def expected(self, posterior: Posterior, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Prompt and completion tokens that are expected of each question, without the full text."""
        prompt, completion = np.zeros(self._size), np.zeros(self._size)
        for _ in range(MEAN_OF):
            used = self.sample(posterior.draw(random), random)
            prompt += used.prompt / MEAN_OF
            completion += used.completion / MEAN_OF
        return prompt, completion

    def sample(self, parameters: GeneratorParameters, random: np.random.Generator) -> Used:
        """What each question uses in one possible run."""
        prompt, completion = np.zeros(self._size), np.zeros(self._size)

        def call(role: str, at: Indices, tokens: Floats) -> None:
            replies = self._replies(role, at, parameters, random)
            if role in ANSWERS:
                tokens, replies = self._repaired(at, tokens, replies, random)
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
        shown, replies = self._repaired(escalated, self._full_text[escalated], replies, random)
        full_text_prompt[escalated] = shown
        full_text_completion[escalated] = replies
        counting = parameters.counting
        return Used(prompt * counting, completion, full_text_prompt * counting, full_text_completion)

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
    ) -> tuple[Floats, Floats]:
        """Prompts and replies of answers with those of the calls that ask once more for some of the typed ones, which
        show the first reply.
        """
        if not self._typed[at].any():
            return tokens, replies
        again = self._typed[at] & (random.random(at.size) < self._priors.repaired)
        return tokens + again * (tokens + replies), replies * (1 + again)

    def _replies(self, role: str, at: Indices, parameters: GeneratorParameters, random: np.random.Generator) -> Floats:
        """Lengths of replies: log-normal about the mean of the role and the type, cut at the role's limit."""
        if role not in self._means:
            self._means[role] = _floats([self._priors.reply(role, kind) for kind in self._types])
        variance = np.log1p(self._priors.spread**2)
        factors = np.exp(random.normal(-variance / 2, np.sqrt(variance), at.size))
        wordiness = parameters.wordiness.get(role, parameters.wordiness["generate"])
        return np.clip(self._means[role][at] * wordiness * factors, 1.0, self._limit(role))


def _those_that(forecasts: Sequence[Forecast], looks: LookUps) -> Indices:
    return np.array([at for at, forecast in enumerate(forecasts) if forecast.looks == looks], dtype=np.intp)


def _floats(values: Sequence[float] | Sequence[Sequence[float]]) -> Floats:
    return np.array(values, dtype=np.float64)


def _grown(growth: Floats, look_ups: Floats) -> Floats:
    """The tokens of prompts at ``look_ups`` look-ups (from 1 on, shape (n,)), between those of ``growth``, which has a
    column for each whole number of look-ups (n, look-ups).
    """
    place = np.minimum(look_ups, growth.shape[1]) - 1
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, growth.shape[1] - 1)
    row = np.arange(len(growth))
    grown: Floats = growth[row, below] + (place - below) * (growth[row, above] - growth[row, below])
    return grown


@dataclass(frozen=True)
class Bootstrap:
    """The ratio estimator of a pilot: what the questions not asked will use, by how those of their workflow did.

    A draw of the Bayesian bootstrap (Rubin 1981, "The Bayesian bootstrap") weighs the pilot's questions anew, each by a
    random variate times the size expected of it; the priors take part as if they were ``against`` questions more. Each
    question not asked then takes the ratios of one question of the pilot, drawn by these weights, so that the range
    covers also what chance makes of the rest.

    ``prompt`` and ``completion`` are the tokens that are expected of each question, of shape (questions,). ``groups``
    has for each workflow the places of the questions not asked, and which of the asked ones are its own. Of the asked
    ones ``sizes`` are the expected prompt tokens, ``prompt_ratios`` and ``completion_ratios`` what they used against
    what was expected, ``cached`` the share of the prompt that the endpoint had cached, each of shape (asked,).
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
        """From the questions at the places ``known`` and what they used; None where nothing was expected of any."""
        prompt, completion = expected
        kept = [place for place, at in enumerate(known) if prompt[at] > 0]
        if not kept:
            return None
        at = np.array([known[place] for place in kept], dtype=np.intp)
        told = _columns([actual[place] for place in kept])
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
            prompt_ratios=told[0] / prompt[at],
            completion_ratios=told[2] / completion[at],
            cached=told[1] / np.maximum(told[0], 1.0),
            against=against,
        )

    def resample(self, prompt: Floats, completion: Floats, random: np.random.Generator) -> Floats:
        """The cached tokens of each question, while ``prompt`` and ``completion``, sampled by the priors, are changed
        where a question takes the ratios of one that was asked. Those of the asked ones are left as they are.
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
    """The shape of the gamma variates. Rubin's is 1, whose mean has a variance of s2 / (n + 1), with s2 as it is among
    the asked; this one has s2 / (n - 1), which is right on average. Ours below three questions, which show no variance.
    """
    return max(asked - 2, 0.5) / asked


@dataclass(frozen=True, slots=True)
class GeneratorParameters:
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
class Posterior:
    """What is known of a generator, before and after some of its replies.

    ``log_words`` and ``log_words_covariance`` are of the logarithms of the factors on each role's replies, in the order
    of ``ROLES``; ``log_counting`` is the mean and the standard deviation of that on our counts; ``unanswerable`` and
    ``escalated`` are the two parameters of a beta distribution each.
    """

    priors: Priors
    log_words: Floats
    log_words_covariance: Floats
    log_counting: tuple[float, float]
    unanswerable: tuple[float, float]
    escalated: tuple[float, float]

    @classmethod
    def before(cls, priors: Priors) -> Self:
        """What the priors say."""
        size = len(ROLES)
        shared = np.full((size, size), priors.wordiness**2)
        own = np.eye(size) * priors.role_wordiness**2
        # Less half the variance: the factor itself, not its logarithm, is 1 on average.
        mean = -np.diag(shared + own) / 2
        shares = _beta(priors.unanswerable), _beta(priors.escalated)
        return cls(priors, mean, shared + own, (0.0, priors.counting), *shares)

    def after(self, asked: Sequence[AskedQuestion], types: Mapping[str, str], *, again: bool = False) -> Self:
        """The same after some questions, whose ``types`` are by query_id: by their calls for a first answer, or by
        those that were made ``again``.

        A role's mean reply against the prior's is one observation of its factor, the surer the more replies it is the
        mean of; the factors of other roles follow as far as they share it.
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
            # Mean and covariance of the normal distribution of all factors, given noisy observations of some.
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
            # Whether it counts more for each word or for each message is not known, and prompts differ in length.
            learned = replace(learned, log_counting=(more, abs(more) / 2))
        return learned

    def with_unanswerable(self, yes: int, no: int) -> Self:
        """The same after so many first answers that said "unanswerable", and so many that did not."""
        return replace(self, unanswerable=(self.unanswerable[0] + yes, self.unanswerable[1] + no))

    def with_escalated(self, yes: int, no: int) -> Self:
        """The same after so many answers that were not trusted, and so many that were."""
        return replace(self, escalated=(self.escalated[0] + yes, self.escalated[1] + no))

    def draw(self, random: np.random.Generator) -> GeneratorParameters:
        """One possible generator."""
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
        """That of one reply's tokens over the expected ones: the prior's, and more and more what was seen."""
        ratios = np.array([tokens / expected for tokens, expected in replies])
        seen = np.sum((ratios / ratios.mean() - 1) ** 2) if ratios.sum() else 0.0
        against = self.priors.pilot_against
        return float((against * self.priors.spread**2 + seen) / (against + max(len(replies) - 1, 0)))


def _beta(share: SharePrior) -> tuple[float, float]:
    return share.mean * share.worth, (1 - share.mean) * share.worth
