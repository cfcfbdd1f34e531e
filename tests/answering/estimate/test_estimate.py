"""The estimate as a whole: groups that add up, prices that are linear, a pilot that is followed as far as it goes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from okralong.pipelines.answering.cost_model import Forecast, Prompt
from okralong.pipelines.core.codec import encode
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Usage
from okralong.pipelines.llm.prices import LongRates, Price
from okralong.pipelines.run.dry_run import Outlook
from okralong.pipelines.run.estimate import Again, Setting, StrategyEstimate, estimate
from okralong.pipelines.run.observed import AskedQuestion, ObservedCall
from okralong.pipelines.run.priors import Priors

PRICE = Price(input=2.5, cached_input=1.25, output=10.0, batch_discount=0.5)
SETTING = Setting(load_config(Priors, "estimate.yaml"), lambda role: 256, PRICE, draws=300)
STRATEGIES = ("okralong", "std_rag")
STEP = Forecast(looks="step", answer=(900, 1300, 1600, 1800, 1900), reason=(1000, 1400, 1700, 1900))


def outlook(number: int) -> Outlook:
    """Every third question goes step by step; the baseline's prompt is the same for all."""
    plain = Forecast((Prompt("generate", 1000 + number),))
    kind, workflow, own = ("multi-bridge", "step", STEP) if number % 3 == 0 else ("extractive", "linear", plain)
    baseline = Forecast((Prompt("generate", 3000),))
    return Outlook(f"q{number:02d}", kind, workflow, {"okralong": own, "std_rag": baseline}, {})


OUTLOOKS = [outlook(number) for number in range(30)]


def asked(numbers: range, factor: float = 1.0, reply: int = 47, cached: float = 0.0) -> dict[str, AskedQuestion]:
    """Questions that used ``factor`` times the prompt that is expected of a plain one, and so many reply tokens."""
    found = {}
    for number in numbers:
        tokens = round(factor * (1000 + number))
        usage = Usage(tokens, round(cached * tokens), reply)
        found[f"q{number:02d}"] = AskedQuestion(
            f"q{number:02d}", (ObservedCall("generate", usage, tokens),), PRICE.cost(usage)
        )
    return found


def run(
    known: Mapping[str, AskedQuestion] | None = None, outlooks: list[Outlook] | None = None
) -> dict[str, StrategyEstimate]:
    return estimate(outlooks or OUTLOOKS, STRATEGIES, SETTING, known)


def width(found: StrategyEstimate) -> float:
    return found.total.usd.high - found.total.usd.low


def test_groups_add_up_and_dollars_follow_from_tokens() -> None:
    found = run()
    for name in STRATEGIES:
        total, by_type, by_workflow = found[name].total, found[name].by_type, found[name].by_workflow
        assert total.questions == 30
        assert {kind: each.questions for kind, each in by_type.items()} == {"extractive": 20, "multi-bridge": 10}
        assert {way: each.questions for way, each in by_workflow.items()} == {"linear": 20, "step": 10}
        for groups in (by_type, by_workflow):
            assert sum(each.usd.expected for each in groups.values()) == pytest.approx(total.usd.expected)
        tokens = total.prompt_tokens.expected + 4 * total.completion_tokens.expected
        assert total.weighted_tokens.expected == pytest.approx(tokens)
        assert total.usd.expected == pytest.approx(tokens * 2.5e-6), "of GPT-4o's prices, output costs 4 times input"
        assert total.batch_usd is not None
        assert total.batch_usd.expected == pytest.approx(total.usd.expected / 2)
        assert total.usd.low < total.usd.expected < total.usd.high
    assert found["std_rag"].total.prompt_tokens.expected == pytest.approx(30 * 3000, rel=0.01)
    assert run() == found, "the same seed draws the same runs"


def test_without_a_batch_price_there_is_none() -> None:
    own = replace(SETTING, price=Price(input=1.0, cached_input=1.0, output=1.0))
    assert estimate(OUTLOOKS, STRATEGIES, own)["okralong"].total.batch_usd is None


def test_a_question_that_cannot_be_asked_costs_nothing_and_is_named() -> None:
    broken = Outlook("bad", "unknown", "linear", {"std_rag": Forecast((Prompt("generate", 10),))}, {"okralong": "why"})
    found = run(outlooks=[*OUTLOOKS, broken])
    assert found["okralong"].problems == {"bad": "why"}
    assert found["okralong"].total.questions == 30
    assert found["std_rag"].total.questions == 31
    nobody = run(outlooks=[replace(broken, forecasts={})])
    assert nobody["okralong"].total.usd.high == 0
    assert nobody["okralong"].by_type == {}


def test_when_all_is_asked_the_range_is_what_it_was() -> None:
    whole = asked(range(30))
    found = run(whole)["okralong"].total
    paid = sum(each.billed_usd for each in whole.values())
    assert (found.usd.low, found.usd.expected, found.usd.high) == pytest.approx((paid, paid, paid))


def test_a_pilot_shifts_its_workflow_and_narrows_the_range_of_all() -> None:
    before = run()
    linear = range(1, 30, 3)
    twice = run(asked(linear, factor=2.0, reply=94))
    one, two = (each["okralong"].by_workflow["linear"] for each in (before, twice))
    assert two.prompt_tokens.expected == pytest.approx(2 * one.prompt_tokens.expected, rel=0.08)
    assert two.completion_tokens.expected == pytest.approx(2 * 47 * 20, rel=0.15)
    # The workflow that was not asked keeps its prompts; that replies are long is taken over, as by the other strategy.
    step_before, step_after = (each["okralong"].by_workflow["step"] for each in (before, twice))
    assert step_after.prompt_tokens.expected == pytest.approx(step_before.prompt_tokens.expected, rel=0.1)
    assert step_after.completion_tokens.expected > 1.3 * step_before.completion_tokens.expected
    assert twice["std_rag"].total.prompt_tokens.expected == pytest.approx(90_000, rel=0.01)
    assert twice["std_rag"].total.completion_tokens.expected > 1.3 * before["std_rag"].total.completion_tokens.expected
    assert (
        width(run(asked(range(1, 30)))["okralong"]) < width(run(asked(linear))["okralong"]) < width(before["okralong"])
    )


def test_a_pilot_whose_questions_differ_leaves_a_wider_range() -> None:
    even = asked(range(1, 19, 3))
    uneven = {
        query_id: each
        for number, query_id in enumerate(even)
        for each in asked(range(1 + 3 * number, 2 + 3 * number), factor=0.5 if number % 2 else 1.5).values()
    }
    assert list(even) == list(uneven)
    one, two = (run(known)["okralong"].by_workflow["linear"].prompt_tokens for known in (even, uneven))
    assert two.high - two.low > 2 * (one.high - one.low)


def test_what_the_endpoint_caches_is_known_from_a_pilot_alone() -> None:
    assert run()["okralong"].total.cached_tokens.high == 0
    found = run(asked(range(1, 30, 3), cached=0.4))["okralong"].by_workflow["linear"]
    assert found.cached_tokens.expected == pytest.approx(0.4 * found.prompt_tokens.expected, rel=0.05)
    spared = found.cached_tokens.expected * 1.25e-6
    full = (found.prompt_tokens.expected * 2.5 + found.completion_tokens.expected * 10) / 1e6
    assert found.usd.expected == pytest.approx(full - spared)
    assert found.batch_usd is not None
    assert found.batch_usd.expected == pytest.approx(full / 2), "nobody promises a batch the price of the cache"


def test_precise_mode_learns_how_often_the_full_text_is_read() -> None:
    precise = Forecast((Prompt("generate", 1000),), full_text=60_000)
    outlooks = [Outlook(f"q{n:02d}", "extractive", "linear", {"okralong_precise": precise}, {}) for n in range(60)]
    first, second = (
        ObservedCall("generate", Usage(1000, 0, 5), 1000),
        ObservedCall("full_text", Usage(60_000, 0, 47), 60_000),
    )
    often = {f"q{n:02d}": AskedQuestion(f"q{n:02d}", (first, second) if n % 2 else (first,), 0.0) for n in range(20)}
    never = {f"q{n:02d}": AskedQuestion(f"q{n:02d}", (first,), 0.0) for n in range(20)}
    before, half, hardly = (
        estimate(outlooks, ("okralong_precise",), SETTING, known)["okralong_precise"].total.prompt_tokens
        for known in (None, often, never)
    )
    assert before.expected == pytest.approx(60 * (1000 + 0.2 * 60_000), rel=0.1)
    assert half.expected == pytest.approx(60 * (1000 + 0.5 * 60_000), rel=0.1)
    assert hardly.expected < before.expected
    assert half.high - half.low < before.high - before.low


STRONG = Price(input=25.0, cached_input=25.0, output=100.0, batch_discount=0.5)


def doubted(again: Forecast, known: int = 0, share: float = 0.0, own: bool = False) -> StrategyEstimate:
    """A hundred questions whose answers may be asked for again; so many were asked, that share of them twice."""
    plain = Forecast((Prompt("generate", 1000),), again=again)
    outlooks = [Outlook(f"q{n:02d}", "extractive", "linear", {"okralong": plain}, {}) for n in range(100)]
    first = ObservedCall("generate", Usage(1000, 0, 47), 1000)
    second = ObservedCall("generate", Usage(1000, 0, 47), 1000, again=True)
    asked = {
        f"q{n:02d}": AskedQuestion(f"q{n:02d}", (first, second) if n < share * known else (first,), 0.0)
        for n in range(known)
    }
    setting = SETTING if own else replace(SETTING, stronger=Again(lambda role: 256, STRONG, SETTING.priors))
    return estimate(outlooks, ("okralong",), setting, asked)["okralong"]


def test_how_many_are_asked_again_is_nothing_to_all_before_any_is() -> None:
    plain, prompt = 100 * 1000, Forecast((Prompt("generate", 1000),))
    found, none = doubted(prompt), doubted(Forecast())
    assert none.again is not None
    assert none.again.usd.high == 0
    assert found.again is not None
    assert found.total.prompt_tokens.low == pytest.approx(plain, rel=0.05)
    assert found.total.prompt_tokens.high == pytest.approx(2 * plain, rel=0.05)
    assert found.again.prompt_tokens.expected == pytest.approx(0.3 * plain, rel=0.1)
    assert found.again.usd.low == 0
    assert found.total.usd.low == pytest.approx(none.total.usd.low, rel=0.02)
    # Ten times the price, and in real time whatever the mode.
    assert found.again.usd.high > 8 * none.total.usd.expected
    assert found.again.batch_usd is not None
    assert found.again.batch_usd.high == pytest.approx(found.again.usd.high)
    precise = doubted(Forecast((Prompt("full_text", 60_000),)), own=True)
    assert precise.total.prompt_tokens.high == pytest.approx(61 * plain, rel=0.05)
    assert precise.again is not None
    assert precise.again.batch_usd is not None
    assert precise.again.batch_usd.high == pytest.approx(precise.again.usd.high / 2)


def test_a_pilot_tells_how_many_are_asked_again() -> None:
    prompt = Forecast((Prompt("generate", 1000),))
    before, often, never = doubted(prompt), doubted(prompt, 20, 0.5), doubted(prompt, 20)
    assert often.again is not None
    assert never.again is not None
    assert often.again.prompt_tokens.expected == pytest.approx(0.5 * 100_000, rel=0.15)
    assert 0 < often.again.usd.low < often.again.usd.high < before.total.usd.high
    assert never.again.prompt_tokens.expected < 0.1 * 100_000
    all_of_them = doubted(prompt, 100, 0.25)
    paid = 25 * STRONG.cost(Usage(1000, 0, 47))
    assert all_of_them.again is not None
    assert (all_of_them.again.usd.low, all_of_them.again.usd.high) == pytest.approx((paid, paid))


def test_an_estimate_is_plain_json() -> None:
    data = json.loads(encode(run()))
    assert set(data["okralong"]["total"]["usd"]) == {"low", "expected", "high"}


def test_what_prompts_share_is_read_once_where_the_endpoint_caches_it() -> None:
    shared = Forecast((Prompt("generate", 5100, ("the report", 5000)),))
    alone = Forecast((Prompt("generate", 5100, ("another", 5000)),))
    outlooks = [Outlook(f"q{n}", "extractive", "linear", {"okralong": shared}, {}) for n in range(19)]
    outlooks.append(Outlook("q19", "abstractive", "linear", {"okralong": alone}, {}))
    found = estimate(outlooks, ("okralong",), SETTING)["okralong"]
    assert found.total.warm_usd is not None
    spared = 18 * (1024 + 31 * 128) * (2.5 - 1.25) / 1e6  # of 5,000 tokens 4,992 are cached, once they were read
    assert found.total.usd.expected - found.total.warm_usd.expected == pytest.approx(spared)
    assert found.by_type["abstractive"].warm_usd is None
    assert run()["okralong"].total.warm_usd is None
    pilot = AskedQuestion("q0", (ObservedCall("generate", Usage(5100, 4992, 47), 5100),), 0.01)
    assert estimate(outlooks, ("okralong",), SETTING, {"q0": pilot})["okralong"].total.warm_usd is None


def test_the_flex_tier_and_long_prompts_have_their_prices() -> None:
    rates = LongRates(above=4000, input=5.0, cached_input=2.5, output=10.0)
    price = PRICE.model_copy(update={"flex_discount": 0.4, "longer": [rates]})
    setting = replace(SETTING, price=price)
    long = [Outlook("q", "extractive", "linear", {"okralong": Forecast((Prompt("generate", 5000),))}, {})]
    found = estimate(long, ("okralong",), setting)["okralong"].total
    cheap = estimate(long, ("okralong",), SETTING)["okralong"].total
    assert found.flex_usd is not None
    assert found.batch_usd is not None
    assert cheap.flex_usd is None
    assert found.usd.expected - cheap.usd.expected == pytest.approx(5000 * 2.5 / 1e6)
    assert found.flex_usd.expected == pytest.approx(0.6 * found.usd.expected)
    assert found.batch_usd.expected == pytest.approx(0.5 * found.usd.expected)
