"""The ratio estimator of a pilot: what the questions not asked will use, by how the asked ones of their workflow did.

A draw of the Bayesian bootstrap (Rubin 1981, "The Bayesian bootstrap") weighs the pilot's questions anew, each by a
random variate times the size expected of it; the priors take part as if they were some questions more. Without a pilot
the priors alone speak, with a large one hardly. Each question not asked then takes the ratios of one question of the
pilot, drawn by these weights, so that the range covers also what chance makes of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from okralong.pipelines.answering.estimate.beliefs import Floats
from okralong.pipelines.answering.estimate.simulate import Indices


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
