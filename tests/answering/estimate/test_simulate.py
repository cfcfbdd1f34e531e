"""Sampled runs: what they use on average is what can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from okralong.pipelines.answering.cost_model import Forecast, Prompt
from okralong.pipelines.core.config import load_config
from okralong.pipelines.run.priors import Priors
from okralong.pipelines.run.simulation import GeneratorParameters, Simulation, Used

PRIORS = load_config(Priors, "estimate.yaml")
MANY = 4_000
PARAMETERS = GeneratorParameters(
    wordiness=dict.fromkeys(PRIORS.replies, 1.0),
    counting=1.0,
    sub_questions=np.array([0.0, 1.0, 0.0, 0.0]),
    answers=0.5,
    gives_up=0.0,
    new_in_split=1.0,
    new_in_step=1.0,
    unanswerable=0.0,
)


def sample(forecast: Forecast, limit: int = 10_000, kind: str = "extractive", **changed: Any) -> Used:
    """Many questions of one forecast."""
    simulation = Simulation([forecast] * MANY, [kind] * MANY, PRIORS, lambda role: limit)
    return simulation.sample(replace(PARAMETERS, **changed), np.random.default_rng(1))


def test_a_certain_prompt_is_certain_and_its_reply_as_long_as_its_type_has_it() -> None:
    used = sample(Forecast((Prompt("generate", 900),)), counting=1.01)
    assert set(used.prompt.tolist()) == {900 * 1.01}
    assert used.completion.mean() == pytest.approx(40, rel=0.05)
    assert used.completion.std() / used.completion.mean() == pytest.approx(PRIORS.spread, rel=0.1)
    wordy = sample(Forecast((Prompt("generate", 900),)), wordiness={**PARAMETERS.wordiness, "generate": 2.0})
    assert wordy.completion.mean() == pytest.approx(80, rel=0.05)


def test_no_reply_is_longer_than_its_limit() -> None:
    used = sample(Forecast((Prompt("generate", 900),)), limit=45)
    assert used.completion.max() == 45
    assert used.completion.mean() < 40


def test_a_split_shows_what_its_sub_questions_find() -> None:
    split = Forecast((Prompt("split", 100),), "split", answer=(500, 900, 1200, 1400))
    assert set(sample(split).prompt.tolist()) == {100 + 900}
    assert set(sample(split, new_in_split=0.5).prompt.tolist()) == {100 + 700}
    four = sample(split, sub_questions=np.array([0.0, 0.0, 0.0, 1.0]))
    assert set(four.prompt.tolist()) == {100 + 1400}
    assert four.completion.mean() == pytest.approx(25 + 40, rel=0.05)


def test_steps_go_on_until_one_answers_gives_up_or_is_the_last() -> None:
    step = Forecast(looks="step", answer=(10, 20, 30), reason=(100, 200))
    assert set(sample(step, answers=1.0).prompt.tolist()) == {100}
    assert set(sample(step, answers=0.0, gives_up=1.0).prompt.tolist()) == {100 + 10}
    assert set(sample(step, answers=0.0, gives_up=0.0).prompt.tolist()) == {100 + 200 + 30}
    half = sample(step, answers=0.5, gives_up=0.0)
    assert set(half.prompt.tolist()) == {100, 300, 330}
    assert np.mean(half.prompt == 100) == pytest.approx(0.5, abs=0.03)
    assert sample(step, answers=1.0).completion.mean() == pytest.approx(50, rel=0.05)


def test_the_full_text_is_read_as_often_as_the_first_answer_is_none() -> None:
    precise = Forecast((Prompt("generate", 900),), full_text=50_000)
    used = sample(precise, unanswerable=0.25)
    assert used.full_text_prompt.mean() == pytest.approx(0.25 * 50_000, rel=0.1)
    assert np.array_equal(used.full_text_completion > 0, used.full_text_prompt > 0)
    assert set(used.prompt.tolist()) == {900}
    assert sample(Forecast((Prompt("generate", 900),)), unanswerable=1.0).full_text_prompt.sum() == 0


def test_a_share_of_typed_answers_is_asked_for_once_more_with_the_first_reply_shown() -> None:
    plain = Forecast((Prompt("split", 100), Prompt("generate", 900)), full_text=5_000)
    once, more = (sample(replace(plain, typed=typed), unanswerable=1.0) for typed in (False, True))
    assert set(once.prompt.tolist()) == {1_000}
    again = more.prompt > 1_000
    assert again.mean() == pytest.approx(PRIORS.repaired, rel=0.2)
    assert (more.prompt[again] - 1_900).mean() == pytest.approx(40, rel=0.15), "the reply is shown"
    assert (more.full_text_prompt > 5_000).mean() == pytest.approx(PRIORS.repaired, rel=0.2)
    assert more.completion[again].mean() == pytest.approx(25 + 2 * 40, rel=0.15)
