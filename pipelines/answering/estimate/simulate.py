"""Rolling the dice for every question of a strategy: what it would use if the generator had certain ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from okralong.pipelines.answering.estimate.beliefs import Floats, Ways
from okralong.pipelines.answering.estimate.forecast import Forecast, Looks
from okralong.pipelines.answering.estimate.priors import Priors

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
