from __future__ import annotations

from typing import Any

import pytest

from okralong.pipelines.core.config import parse_config
from okralong.pipelines.core.types import ConfigError, Message, Usage
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.errors import retry_after, scrub, without_key
from okralong.pipelines.llm.prices import Price, PriceTable
from okralong.pipelines.llm.rate_limit import Limits
from okralong.pipelines.llm.request import LlmRequest, PromptMeter

BASE: dict[str, Any] = {
    "model": "m",
    "base_url": "http://a/v1",
    "messages": (Message("system", "s"), Message("user", "u")),
    "max_tokens": 10,
}


def test_prices_turn_usage_into_dollars() -> None:
    price = PriceTable.load().price("gpt-4o-2024-08-06")
    assert price.cost(Usage(1_000_000, 400_000, 100_000)) == pytest.approx(0.6 * 2.5 + 0.4 * 1.25 + 1.0)
    assert PriceTable.load().price("SmolLM2-135M-Instruct").cost(Usage(10**9, 0, 10**9)) == 0
    # Half price in a batch, without the discount for what the endpoint has cached.
    assert price.in_batch().cost(Usage(1_000_000, 400_000, 100_000)) == pytest.approx((2.5 + 1.0) / 2)
    own = Price(input=1.0, cached_input=1.0, output=2.0)
    assert own.in_batch().cost(Usage(1_000_000, 0, 500_000)) == own.cost(Usage(1_000_000, 0, 500_000))
    assert PriceTable.load().price("a-model-of-ours", own) == own


def test_a_model_without_a_price_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"prices\.yaml, or give llm\.price"):
        PriceTable.load().price("gpt-99")


def test_every_price_names_its_day_and_source() -> None:
    for name, listed in PriceTable.load().models.items():
        assert listed.cached_input <= listed.input, name
        assert listed.since[:2] == "20", name
        assert listed.source, name


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"base_url": "http://b/v1"},
        {"messages": (Message("system", "other"), Message("user", "u"))},
        {"messages": (Message("user", "s"), Message("user", "u"))},
        {"max_tokens": 11},
        {"temperature": 0.1},
        {"top_p": 0.9},
        {"seed": 1},
        {"logprobs": True},
        {"stop": ("x",)},
        {"response_format": "json_object"},
        {"sample": 1},
        {"api_version": "2024"},
        {"grammar": 'root ::= "a"'},
        {"others": (("http://b/v1", "m", None),)},
    ],
)
def test_everything_that_can_change_a_reply_changes_the_hash(change: dict[str, Any]) -> None:
    assert LlmRequest(**{**BASE, **change}).request_hash != LlmRequest(**BASE).request_hash
    assert LlmRequest(**BASE).request_hash == LlmRequest(**BASE).request_hash


def test_what_is_unset_is_not_sent_and_samples_have_seeds_of_their_own() -> None:
    assert set(LlmRequest(**BASE).parameters()) == {"model", "messages", "temperature", "max_tokens"}
    full = LlmRequest(**BASE, seed=5, sample=2, top_p=0.5, stop=("x",), logprobs=True, response_format="json_object")
    sent = full.parameters("max_completion_tokens")
    assert (sent["seed"], sent["top_p"], sent["stop"], sent["logprobs"]) == (7, 0.5, ["x"], True)
    assert sent["response_format"] == {"type": "json_object"}
    assert sent["max_completion_tokens"] == 10


def test_a_request_without_a_grammar_is_known_by_the_hash_that_it_had_before_there_were_grammars() -> None:
    assert LlmRequest(**BASE).request_hash == "ad82c50e525ebfb65ee4be78e72a7c1deb0c1853fde1108b28e95395b4f09350"
    assert LlmRequest(**BASE, grammar="root ::= x").parameters()["extra_body"] == {"grammar": "root ::= x"}


def test_a_request_is_known_by_the_list_of_endpoints_and_in_its_order() -> None:
    one, other = ("http://b/v1", "m", None), ("http://c", "n", "2024-10-21")
    hashes = {LlmRequest(**BASE, others=others).request_hash for others in ((), (one,), (one, other), (other, one))}
    assert len(hashes) == 4
    assert LlmRequest(**BASE).parameters(model="n")["model"] == "n"


ENDPOINTS = """
base_url: https://api.openai.com/v1
model: gpt-4o-2024-08-06
endpoints:
  - {base_url: "https://a.openai.azure.com/", model: ours, api_version: "2024-10-21", api_key_env: AZURE_KEY,
     requests_per_minute: 60, tokens_per_minute: 10000, max_in_flight: 4,
     price: {input: 2.5, cached_input: 1.25, output: 10.0}}
"""


def test_further_endpoints_are_read_each_with_its_own_limits_and_price() -> None:
    config = parse_config(LlmConfig, ENDPOINTS, "answer.yaml")
    first, second = config.all_endpoints
    assert first is config
    assert second.identity == ("https://a.openai.azure.com", "ours", "2024-10-21")
    assert second.limits == Limits(60, 10_000, 4)
    assert second.price is not None
    assert LlmConfig().endpoints == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("api_key_env: sk-proj-abcdef0123456789", "name of an environment variable"),
        ("base_url: https://key@host/v1", "without user, key"),
        ("base_url: embedded", "together with the embedded model"),
        ("api_key: abcdef0123456789", "not a known key"),
        ("requests_per_minute: 0", "requests_per_minute = 0"),
        ("base_url: https://api.openai.com/v1/, model: gpt-4o-2024-08-06", "twice"),
        ("window: 5", "not a known key"),
    ],
)
def test_a_further_endpoint_that_cannot_be_used_is_refused(change: str, said: str) -> None:
    base = "" if "model" in change else "model: m, " + ("" if "base_url" in change else "base_url: 'http://b/v1', ")
    text = ENDPOINTS.split("endpoints:")[0] + f"endpoints: [{{{base}{change}}}]"
    with pytest.raises(ConfigError, match=said) as caught:
        parse_config(LlmConfig, text, "answer.yaml")
    assert "abcdef0123456789" not in str(caught.value)
    assert "key@host" not in str(caught.value)


def test_the_embedded_model_takes_no_further_endpoints() -> None:
    with pytest.raises(ConfigError, match="together with the embedded model"):
        parse_config(LlmConfig, "endpoints: [{base_url: 'http://b/v1', model: m}]", "answer.yaml")


@pytest.mark.parametrize(
    "line",
    ["api_key_env: sk-proj-abcdef0123456789", "api_key: sk-proj-abcdef0123456789", "api_key_env: my key"],
)
def test_a_key_in_a_config_is_refused_and_not_repeated(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(LlmConfig, line, "answer.yaml")
    assert "abcdef0123456789" not in str(caught.value)


def test_an_impossible_value_names_its_key() -> None:
    with pytest.raises(ConfigError, match="requests_per_minute = 0"):
        parse_config(LlmConfig, "requests_per_minute: 0", "answer.yaml")
    with pytest.raises(ConfigError, match="base_url"):
        parse_config(LlmConfig, "base_url: localhost", "answer.yaml")
    with pytest.raises(ConfigError, match="generate, split"):
        LlmConfig().completion_limit("poet")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:10 GMT"}, 10.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1767225600.0) == seconds


def test_an_error_message_loses_the_key_and_whatever_looks_like_one() -> None:
    assert scrub("Bearer hunter22-hunter22 was wrong", "hunter22-hunter22") == "Bearer [key removed] was wrong"
    assert "sk-" not in scrub("Incorrect API key provided: sk-proj-ab****7Q.", "none")


def test_a_reply_loses_the_key_and_nothing_else() -> None:
    text = "A key-performance table, none better, EMPTY of risk-adjusted sk-abcdefgh."
    assert without_key(text, "none") == without_key(text, "EMPTY") == without_key(text, "sk-1234567890123") == text
    assert without_key("my sk-1234567890123 here", "sk-1234567890123") == "my [key removed] here"


def test_what_the_endpoint_counts_more_is_learnt_once() -> None:
    meter = PromptMeter(len)
    plain = meter.plain([Message("user", "x" * 84)])
    assert (plain, meter.safe(plain)) == (100, 101)
    for _ in range(3):  # three replies that were in flight together
        meter.learn(100, 120)
    assert meter.safe(100) == 121
    for _ in range(3):
        meter.learn(1000, 1500)
    assert meter.safe(1000) == 1521
    assert meter.safe(100) == 171
