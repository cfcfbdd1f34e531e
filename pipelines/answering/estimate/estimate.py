"""The estimate itself: every strategy side by side, as a whole, by question type and by workflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from okralong.pipelines.answering.estimate.beliefs import Beliefs, Floats
from okralong.pipelines.answering.estimate.figures import Figures, figures
from okralong.pipelines.answering.estimate.forecast import Outlook
from okralong.pipelines.answering.estimate.observed import Asked
from okralong.pipelines.answering.estimate.priors import Priors
from okralong.pipelines.answering.estimate.simulate import Simulation
from okralong.pipelines.answering.estimate.sums import DRAWS, Crowd, drawn_sums
from okralong.pipelines.llm.prices import Price


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
