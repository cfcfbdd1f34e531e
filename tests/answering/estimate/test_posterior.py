"""What replies teach: the more of them the surer, and one role's replies tell something of the others'."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.pipelines.core.config import load_config, parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError, Usage
from okralong.pipelines.run.observed import AskedQuestion, ObservedCall
from okralong.pipelines.run.priors import Priors
from okralong.pipelines.run.simulation import Posterior

PRIORS = load_config(Priors, "estimate.yaml")
BEFORE = Posterior.before(PRIORS)


def replies_of(tokens: list[int], role: str = "generate", counted: int = 0) -> list[AskedQuestion]:
    """A question for each reply of so many tokens."""
    return [
        AskedQuestion(f"q{number}", (ObservedCall(role, Usage(1_000, 0, each), counted),), 0.0)
        for number, each in enumerate(tokens)
    ]


def factors(posterior: Posterior, role: str) -> tuple[float, float]:
    """Mean and coefficient of variation of what a role's replies are multiplied by."""
    random = np.random.default_rng(1)
    drawn = np.array([posterior.draw(random).wordiness[role] for _ in range(3_000)])
    return float(drawn.mean()), float(drawn.std() / drawn.mean())


def test_before_any_reply_the_priors_hold_on_average() -> None:
    mean, variation = factors(BEFORE, "generate")
    assert mean == pytest.approx(1.0, abs=0.05)
    assert variation > 0.35
    ways = [BEFORE.draw(np.random.default_rng(seed)) for seed in range(2_000)]
    assert np.mean([way.answers for way in ways]) == pytest.approx(PRIORS.answers.mean, abs=0.03)
    assert np.mean([way.unanswerable for way in ways]) == pytest.approx(PRIORS.unanswerable.mean, abs=0.03)
    two = list(PRIORS.sub_questions).index(2)
    assert np.mean([way.sub_questions[two] for way in ways]) == pytest.approx(0.65, abs=0.03)


def test_replies_shift_and_narrow_what_is_believed_of_their_role_and_less_of_the_others() -> None:
    expected = PRIORS.reply("generate", "")
    few, many = (BEFORE.after(replies_of([round(2 * expected)] * count), {}) for count in (2, 60))
    before, after_few, after_many = (factors(each, "generate") for each in (BEFORE, few, many))
    assert before[0] < after_few[0] < after_many[0] == pytest.approx(2.0, rel=0.05)
    assert before[1] > after_few[1] > after_many[1]
    other, variation = factors(many, "split")
    assert 1.2 < other < after_many[0]
    assert after_many[1] < variation < before[1]


def test_replies_that_differ_much_teach_less() -> None:
    even, uneven = (BEFORE.after(replies_of(tokens), {}) for tokens in ([47] * 8, [5, 5, 5, 5, 5, 5, 5, 341]))
    assert factors(even, "generate")[1] < factors(uneven, "generate")[1]


def test_an_answers_length_is_held_against_its_type() -> None:
    long = replies_of([76] * 40)
    as_source = BEFORE.after(long, {each.query_id: "multi-source" for each in long})
    assert factors(as_source, "generate")[0] == pytest.approx(1.0, rel=0.05)
    assert factors(BEFORE.after(long, {}), "generate")[0] > 1.3


def test_the_endpoints_way_of_counting_is_learned() -> None:
    learned = BEFORE.after(replies_of([47], counted=800), {})
    drawn = [learned.draw(np.random.default_rng(seed)).counting for seed in range(500)]
    assert np.mean(drawn) == pytest.approx(1.25, rel=0.02)
    exact = BEFORE.after(replies_of([47], counted=1_000), {})
    assert exact.draw(np.random.default_rng(1)).counting == 1.0
    assert BEFORE.after(replies_of([47]), {}).log_counting == BEFORE.log_counting, "a shared reply went out elsewhere"


def test_every_prior_has_a_role_and_a_bad_file_is_refused() -> None:
    assert PRIORS.reply("generate", "multi-bridge") > PRIORS.reply("generate", "no such type") == 47
    assert PRIORS.reply("a role of somebody's own", "extractive") == PRIORS.reply("generate", "extractive")
    text = shipped_config("estimate.yaml")
    with pytest.raises(ConfigError, match="no entry for split"):
        parse_config(Priors, text.replace("  split: {mean: 25}\n", ""), "mine.yaml")
    with pytest.raises(ConfigError, match="from 1 up"):
        parse_config(Priors, text.replace("{1: 0.05,", "{0: 0.05,"), "mine.yaml")


def test_a_generator_that_thinks_writes_its_thought_as_well_and_nobody_knows_well_how_much() -> None:
    thinking = PRIORS.thinking("low", 4096)
    assert thinking.reply("generate", "abstractive") == PRIORS.reply("generate", "abstractive") + PRIORS.thought["low"]
    assert thinking.reply("split", "") == PRIORS.reply("split", "") + PRIORS.thought["low"]
    assert thinking.spread > PRIORS.spread
    assert PRIORS.thinking(None, 8192).reply("step", "") == PRIORS.reply("step", "") + PRIORS.thought["medium"]
    assert PRIORS.thinking("high", 100).reply("step", "") == PRIORS.reply("step", "") + 100
    assert PRIORS.thinking("none", 8192) is PRIORS.thinking(None, 0) is PRIORS
