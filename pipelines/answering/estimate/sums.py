"""Totals of a strategy, drawn many times: what is known of each question, and dice for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from okralong.pipelines.answering.estimate.beliefs import Beliefs, Floats
from okralong.pipelines.answering.estimate.forecast import Forecast
from okralong.pipelines.answering.estimate.observed import Asked
from okralong.pipelines.answering.estimate.simulate import Indices, Simulation
from okralong.pipelines.answering.estimate.urn import Ratios, Urn
from okralong.pipelines.core.types import Usage

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
