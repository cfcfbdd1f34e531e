"""Several endpoints, seen from the jobs: what is checked first, what a run is known by, and a run that moves on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from okralong.actors.generator import generator
from okralong.jobs.doctor import examine
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EndpointError
from okralong.pipelines.methods.registry import FullPolicy, describe
from okralong.pipelines.run.config import RunConfig, fingerprint
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import always, endpoint, quoting
from tests.jobs.warm import answer
from tests.llm.tools import config_for, further

MODEL = "gpt-4o-2024-08-06"


def test_a_run_begins_when_one_endpoint_can_be_used_and_says_which_cannot(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI(models=["renamed"]) as second:
        config = config_for(first, endpoints=[further(second)])
        with generator(config, tmp_path) as served:
            (note,) = served.notes
            assert "has no model 'fake-model'" in note
            assert served.facts["endpoints"] == [{"model": "fake-model", "base_url": second.base_url}]
        first.models = ["renamed"]
        with pytest.raises(EndpointError, match=r"None of the 2 endpoints.*Nothing was spent"), generator(config, None):
            pass
        assert first.received == second.received == []


def test_a_run_is_known_by_its_endpoints_and_not_by_their_limits() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    spare = {"base_url": "http://b/v1", "model": "m"}

    def known(*endpoints: dict[str, Any]) -> str:
        given = {"llm.base_url": "http://a/v1", "llm.endpoints": list(endpoints)} if endpoints else {}
        config = load_config(RunConfig, "answer.yaml", {"llm.base_url": "http://a/v1", **given})
        return fingerprint(config, policy, describe(config.strategy, policy), {})

    assert known(spare) == known({**spare, "requests_per_minute": 5, "api_key_env": "OTHER", "max_in_flight": 3})
    priced = {"price": {"input": 1.0, "cached_input": 1.0, "output": 1.0, "flex_discount": 0.5}}
    assert known(spare) == known({**spare, **priced}), "a price decides no reply"
    assert len({known(), known(spare), known({**spare, "model": "n"}), known({**spare, "api_version": "1"})}) == 4


def test_doctor_looks_at_every_endpoint(tmp_path: Path) -> None:
    with FakeOpenAI() as first, FakeOpenAI(models=["renamed"]) as second:
        config = tmp_path / "answer.yaml"
        price = "{input: 1.0, cached_input: 1.0, output: 1.0}"
        config.write_text(
            "{strategy: std_rag, policy: policy/default.yaml, prices: prices.yaml, analyzer: {kind: rules}, llm: "
            f"{{base_url: '{first.base_url}', model: fake-model, price: {price}, endpoints: "
            f"[{{base_url: '{second.base_url}', model: fake-model}}]}}}}"
        )
        found = list(examine(str(config), None))
        assert first.received == second.received == [], "nothing is spent"
        asked = [finding for finding in examine(str(config), None, ask=True) if finding.name == "protocol"]
        assert len(first.received) == 3
    told = [(one.name, one.ok) for one in found if one.name in ("endpoint", "price")]
    assert told == [("endpoint", True), ("price", True), ("endpoint", False), ("price", False)]
    (free,) = [one.says for one in found if one.name == "protocol"]
    assert free.startswith("no batches")
    assert "JSON schema ignored" in asked[0].says
    assert (
        f"3 calls for ${sum(one.prompt_tokens + one.completion_tokens for one in first.received) / 1e6:.6f}"
        in asked[0].says
    )


def test_a_run_whose_first_endpoint_is_revoked_half_way_is_finished_by_the_second(
    sample_archive: Path, sample_folder: Path, tmp_path: Path
) -> None:
    rules: list[Any] = [(always, quoting)]
    with FakeOpenAI(rules=rules, models=[MODEL]) as first, FakeOpenAI(rules=rules, models=["deployment"]) as second:
        first.key = "never-given"
        first.snapshot = second.snapshot = MODEL
        second.system_fingerprint = "fp_44"
        spare = {
            "base_url": second.base_url,
            "model": "deployment",
            "price": {"input": 2.5, "cached_input": 1.25, "output": 10.0},
        }
        told = {**endpoint(first), "llm.endpoints": [spare], "concurrency": 4, "strategy": "std_rag"}
        result = answer(sample_archive, sample_folder / "questions.jsonl", tmp_path, **told)
        assert result.statuses == {"answered": 18}
        assert len(first.received) <= 4
        bill = second.bill_usd
    run = Folder.of(tmp_path)
    paid = [row for row in table(run, "ledger") if row["status"] == "ok"]
    assert {(row["endpoint"], row["model"]) for row in paid} == {(second.base_url, "deployment")}
    assert sum(row["cost_usd"] for row in paid) == pytest.approx(bill, abs=1e-9)
    manifest = run.read_manifest()
    assert manifest is not None
    assert manifest["totals"]["snapshots"] == [
        {"endpoint": second.base_url, "model": "deployment", "snapshot": MODEL, "system_fingerprint": "fp_44",
         "replies": 18}
    ]  # fmt: skip
