"""What tokens cost: by the length of a prompt, in a batch, in the flex tier, out of a cache and into it."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Message, Usage
from okralong.pipelines.llm.batch_results import ResultLines, ResultReader
from okralong.pipelines.llm.bill import bill
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.prices import LongRates, Price, PriceTable, highest
from okralong.pipelines.llm.usage import Trust
from tests.fakes.endpoint.process import EndpointProcess
from tests.fakes.openai_server import FakeOpenAI
from tests.llm.tools import a_call, ask, client_over, config_for, rows

LONG = Price(
    input=2.0,
    cached_input=0.2,
    output=10.0,
    cache_write=2.5,
    batch_discount=0.5,
    batch_caches=True,
    flex_discount=0.4,
    longer=[LongRates(above=1000, input=4.0, cached_input=0.4, output=15.0, cache_write=5.0)],
)
TEXT = "The board met and looked at the plans of the plant. " * 200


def test_a_longer_prompt_is_charged_at_other_rates_from_its_first_token_on() -> None:
    assert LONG.cost(Usage(1000, 0, 100)) == pytest.approx((1000 * 2.0 + 100 * 10.0) / 1e6)
    assert LONG.cost(Usage(1001, 0, 100)) == pytest.approx((1001 * 4.0 + 100 * 15.0) / 1e6)
    assert LONG.cost(Usage(1000, 300, 100, 50, 200)) == pytest.approx(
        (500 * 2.0 + 300 * 0.2 + 200 * 2.5 + 100 * 10.0) / 1e6
    )
    assert LONG.charged(2000) == Price(input=4.0, cached_input=0.4, output=15.0, cache_write=5.0)


def test_a_batch_and_the_flex_tier_lower_all_rates() -> None:
    assert LONG.in_batch().cost(Usage(900, 500, 10, 0, 100)) == pytest.approx(
        LONG.cost(Usage(900, 500, 10, 0, 100)) / 2
    )
    assert LONG.in_batch().cost(Usage(2000, 500, 10)) == pytest.approx(LONG.cost(Usage(2000, 500, 10)) / 2)
    assert LONG.in_flex().cost(Usage(2000, 500, 10)) == pytest.approx(0.6 * LONG.cost(Usage(2000, 500, 10)))
    unsaid = LONG.model_copy(update={"batch_caches": False})
    assert unsaid.in_batch().cost(Usage(900, 500, 10)) == pytest.approx(LONG.cost(Usage(900, 0, 10)) / 2)


parts = st.tuples(st.integers(0, 2000), st.floats(0, 1), st.floats(0, 1), st.integers(0, 500))


@given(calls=st.lists(parts, min_size=1, max_size=5))
def test_no_calls_cost_more_than_what_is_reserved_for_them(calls: list[tuple[int, float, float, int]]) -> None:
    used = [
        Usage(prompt, int(prompt * cached), reply, 0, int((prompt - int(prompt * cached)) * written))
        for prompt, cached, written, reply in calls
    ]
    dearest = highest([LONG, Price(input=3.0, cached_input=3.0, output=9.0)])
    for price in (LONG, LONG.in_batch(), LONG.in_flex()):
        assert all(price.cost(each) <= price.most(each.prompt_tokens, each.completion_tokens) + 1e-15 for each in used)
        assert all(
            price.cost(each) <= dearest.most(each.prompt_tokens, each.completion_tokens) + 1e-15 for each in used
        )
    together = sum(used, Usage())
    assert sum(map(LONG.cost, used)) <= LONG.most(together.prompt_tokens, together.completion_tokens) + 1e-12


def test_a_dated_snapshot_has_the_price_of_its_name_unless_it_is_listed() -> None:
    table = PriceTable.load()
    assert table.price("gpt-5-2025-08-07") == table.price("gpt-5")
    assert table.price("gpt-4o-2024-05-13").input == 5.0
    for name, listed in table.models.items():
        assert listed.cached_input <= listed.input <= listed.written, name
        assert [each.above for each in listed.longer] == sorted(each.above for each in listed.longer), name
        assert all(each.input >= listed.input and each.output >= listed.output for each in listed.longer), name


async def test_the_ledger_has_the_rates_of_each_prompts_length(tmp_path: Path) -> None:
    with FakeOpenAI() as server:
        async with client_over(tmp_path, config_for(server, price=LONG)) as (client, _):
            await client.complete("short", "generate", "generate", ask("how much"))
            await client.complete("long", "generate", "generate", [Message("user", TEXT)])
        short, long = rows(tmp_path, "ledger")
        assert (short["input_usd_per_million"], long["input_usd_per_million"]) == (2.0, 4.0)
        assert long["cost_usd"] == pytest.approx(LONG.cost(Usage(long["prompt_tokens"], 0, long["completion_tokens"])))
        assert long["reserved_usd"] >= long["prompt_tokens"] * 5.0 / 1e6
        assert bill([{**long, "status": "cached"}]).alone_usd == pytest.approx(long["cost_usd"])


@pytest.mark.parametrize(("prompt", "rate"), [(1000, 1.0), (1001, 2.0)])
def test_a_reply_of_a_batch_has_the_rates_of_the_endpoints_own_count(prompt: int, rate: float) -> None:
    reader = ResultReader(
        EndpointConfig(base_url="http://a/v1", model="m"), "", count_tokens, Trust(8192), LONG.in_batch()
    )
    message = {"role": "assistant", "content": "Tarn"}
    usage = {"prompt_tokens": prompt, "completion_tokens": 2, "total_tokens": prompt + 2}
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    line = json.dumps({"custom_id": "a", "response": {"status_code": 200, "body": body}, "error": None})
    outcome, _ = reader.read(a_call(1), ResultLines.read([line.encode()]), "a", 1.0)
    assert outcome.call.input_usd_per_million == rate
    assert outcome.cost_usd == pytest.approx(LONG.in_batch().cost(Usage(prompt, 0, 2)))


@pytest.mark.parametrize("write", [None, 2.5])
async def test_what_is_written_to_the_cache_and_read_from_it_is_billed_to_the_last_digit(
    tmp_path: Path, endpoint_process: EndpointProcess, write: float | None
) -> None:
    rates: dict[str, Any] = {"input": 2.0, "cached_input": 0.2, "output": 10.0}
    endpoint_process.reset({"models": {"fake-model": {"rates": {**rates, "cache_write": write}}}})
    price = Price(**rates, cache_write=write)
    config = config_for(endpoint_process, price=price)  # type: ignore[arg-type]
    async with client_over(tmp_path, config) as (client, _):
        for number in range(3):
            await client.complete(f"q{number}", "generate", "generate", [Message("user", f"{TEXT}{number}")])
    ledger = rows(tmp_path, "ledger")
    assert [row["cached_tokens"] > 0 for row in ledger] == [False, True, True]
    assert [row["cache_write_tokens"] > 0 for row in ledger] == [write is not None, False, False]
    assert (
        sum(Decimal(repr(row["cost_usd"])) for row in ledger).quantize(Decimal(10) ** -12) == endpoint_process.bill_usd
    )
