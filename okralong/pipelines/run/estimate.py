"""Estimate the cost of a run: tokens and dollars, each as a range over a thousand simulated runs.

Questions that were already asked, such as a pilot's, count with their actual use. ``simulation.py`` describes how they
also inform the estimate of the others.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from okralong.pipelines.answering.cost_model import Forecast
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import MILLION, Price
from okralong.pipelines.llm.request import cacheable
from okralong.pipelines.run.dry_run import Outlook
from okralong.pipelines.run.observed import AskedQuestion
from okralong.pipelines.run.priors import Priors
from okralong.pipelines.run.simulation import Bootstrap, Floats, Indices, Posterior, Simulation, columns

SHARE: Final = 0.9  # project default
"""Share of the simulated runs that a range covers. The goal is that it contains the actual figure in 80 % of runs."""

DRAWS: Final = 1000  # project default
"""Number of simulated runs. With 1,000, the ends of a 90 % range are accurate to about one percentile."""


def draw_pilot(outlooks: Sequence[Outlook], size: int, seed: int) -> list[str]:
    """Sample the query_ids of up to ``size`` questions: one per workflow, the rest in proportion to their numbers.

    A larger pilot with the same seed contains the smaller ones, so that only its additional questions cost money.
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
    """The mean over the simulated runs, and the bounds of the middle ``SHARE`` of them."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The total use of some questions in tokens and US dollars; a weighted token count is input + 4 x output.

    ``batch_usd`` and ``flex_usd`` are None if the price has no such rate. ``warm_usd`` is the real-time cost if the
    endpoint finds every shared prefix in its cache; None if no prompts share a prefix, or if cached tokens were
    observed.
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
    """The estimate of one strategy.

    ``by_type`` and ``by_workflow`` group the questions as okralong's own method classifies them, for every strategy.
    ``problems`` maps the query_id of a question that cannot be asked to the reason; such questions count as zero.
    ``again`` is the part of ``total`` for escalations, or None if the policy does not escalate.
    """

    total: Figures
    by_type: Mapping[str, Figures]
    by_workflow: Mapping[str, Figures]
    problems: Mapping[str, str]
    again: Figures | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Settings of the stronger generator, to which answers are escalated."""

    limit: Callable[[str], int]
    price: Price
    priors: Priors


@dataclass(frozen=True)
class Setting:
    """Settings of an estimate. ``limit`` returns the most tokens of a reply for a role.

    Without a ``stronger`` generator, answers are escalated to the same one.
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
    """Return the estimate of each of ``strategies`` over all questions.

    ``asked`` has the questions that were already asked with the first strategy. Their actual use informs that
    strategy's figures. For the other strategies, only their reply lengths and the endpoint's way of counting tokens are
    used, too. If there are none, the ranges extend from no escalation to escalating every answer, and the expected
    figure uses the prior's share.
    """
    known = asked or {}
    types = {outlook.query_id: outlook.type for outlook in outlooks}
    posterior = Posterior.before(setting.priors).after([known[each] for each in sorted(known)], types)
    second = posterior
    if setting.stronger is not None:
        priors = setting.stronger.priors
        second = Posterior.before(priors).after([known[each] for each in sorted(known)], types, again=True)
    return {
        name: _estimate_strategy(name, outlooks, setting, (posterior, second), known if name == strategies[0] else {})
        for name in strategies
    }


def _estimate_strategy(
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
    longer, shared = _certain_costs(name, able, setting.price, group, len(cells))
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


def _certain_costs(
    name: str, outlooks: Sequence[Outlook], price: Price, group: Indices, cells: int
) -> tuple[Floats, Floats]:
    """Return what is known about the prompts that are certain to be sent, per group of questions.

    This is the surcharge for long prompts in US dollars, and the number of cached tokens if each shared prefix stays in
    the endpoint's cache.
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
    """Add the surcharge and the savings by cached tokens that ``_certain_costs`` returns (``longer``, ``shared``)."""

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
    """Return the figures for ``sums``, shape (draws, 9).

    The columns are the prompt, cached and completion tokens of first answers, then of escalations, then of escalations
    if every answer were escalated. ``known`` means that the escalated share was observed. If ``first`` is false, only
    escalations count.
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

    # The stronger generator is always called in real time.
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
    """Return the dollars for prompt, cached and completion tokens, shape (3, draws), without surcharges."""
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
    """Yield the tokens of each question in each draw, shape (9, questions).

    The rows are as the columns in ``_figures``. ``posteriors`` are those of the generator and of the one for
    escalations. Questions in ``asked`` count with their actual use, which also scales the others of their workflow.
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
    asked_again = columns([asked[outlooks[at].query_id].usage_again() for at in known])
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
    told = columns([first + (after or Usage()) for first, after in actual])
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
            if setting.stronger is None:  # an answer from the full text is not escalated to the full text
                every[:, used.full_text_prompt > 0] = 0.0
            every[:, known] = asked_again
            mask = random.random(len(may)) < random.beta(*posterior.escalated)
            mask[known] = True
        yield np.concatenate([rows, every * mask, every])


def _actual(forecast: Forecast, asked: AskedQuestion) -> tuple[Usage, Usage | None]:
    """Return the use of a question's first answer, and of its call after "unanswerable" (None if there was none)."""
    after = asked.usage(full_text=True)
    if not forecast.full_text:
        return asked.usage(full_text=False) + after, None
    return asked.usage(full_text=False), after if after.prompt_tokens else None
