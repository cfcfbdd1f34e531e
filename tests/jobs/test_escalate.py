"""A run with two generators: a weak one that answers, and a stronger one for what is not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import okralong
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_ENDPOINT, ConfigError, EndpointError
from okralong.pipelines.run.rows import table
from tests.fakes.confidence import written
from tests.fakes.openai_server import FakeOpenAI, Messages, Trouble
from tests.jobs.conftest import always, call, endpoint, quoting, splits
from tests.jobs.warm import answer

pytestmark = pytest.mark.slow

WEAK, STRONG = "gpt-4o-2024-08-06", "strong-model"
PRICE = {"input": 20.0, "cached_input": 20.0, "output": 80.0}
TWO: list[Any] = [(splits, "What is the revenue of the first company?\nWhat is that of the second company?")]


def at_times(messages: Messages) -> bool:
    """Half of the prompts. Of no answer the confidence is high where that of an answer is low: some are trusted."""
    return len(messages[-1]["content"]) % 2 == 0


@pytest.fixture
def stronger() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(rules=[*TWO, (always, quoting)], models=[STRONG], usd_per_million=(20.0, 20.0, 80.0)) as server:
        yield server


UNDER = 0.63
"""Between the confidences of the weak generator's answers, which the shipped model decides."""


def given(folder: Path, weak: FakeOpenAI, stronger: FakeOpenAI, under: float) -> dict[str, Any]:
    """Overrides that send a run to the weak one, and what it answers with less confidence to the stronger one."""
    policy = yaml.safe_load(shipped_config("policy/default.yaml"))
    policy["escalate"] = {"under": under, "to": "stronger"}
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    second = {"base_url": stronger.base_url, "model": STRONG, "window": 64_000, "price": PRICE}
    return {
        **endpoint(weak),
        "policy": str(folder / "policy.yaml"),
        "llm.stronger": second,
        "concurrency": 3,
        "confidence": written(folder, WEAK, STRONG),
    }


def test_what_is_not_trusted_goes_to_the_stronger_generator_and_is_paid_for_once(
    plain_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    stronger: FakeOpenAI,
    own_process: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    questions, run = sample_folder / "questions.jsonl", Folder.of(tmp_path / "run")
    reader.rules.insert(1, (at_times, "Answer: unanswerable"))
    told = given(tmp_path, reader, stronger, UNDER) | {"budget_usd": 50.0}
    before = okralong.estimate(plain_archive, questions, **told).strategies["okralong"]
    assert reader.received == stronger.received == []
    # It goes on where it stopped: the stronger one refuses after its second reply.
    stronger.troubles = [None, None, *[Trouble(401, "invalid_api_key", "revoked")] * 20]
    stopped = answer(plain_archive, questions, run.path, **told)
    assert stopped.exit_code == EXIT_ENDPOINT
    stronger.troubles = []
    result = answer(plain_archive, questions, run.path, **told)
    assert sum(result.statuses.values()) == 18
    assert result.exit_code == 0

    ledger, rows = table(run, "ledger"), table(run, "answers")
    paid = [row for row in ledger if row["status"] == "ok"]
    for server, model in ((reader, WEAK), (stronger, STRONG)):
        own = [row for row in paid if row["model"] == model]
        assert sum(row["cost_usd"] for row in own) == pytest.approx(server.bill_usd, abs=1e-9)
        assert {row["path"].startswith("escalated/") for row in own} == {model == STRONG}
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(reader.bill_usd + stronger.bill_usd, abs=1e-9)
    assert len(paid) == len({(row["query_id"], row["path"]) for row in paid}), "nothing is paid for twice"

    twice = {row["query_id"] for row in paid if row["model"] == STRONG}
    assert {row["query_id"] for row in rows if row["escalated"] == STRONG} == twice
    assert 0 < len(twice) < 18
    for row in rows:
        first = row["confidence"] if row["escalated"] is None else row["first_confidence"]
        assert (first < UNDER) is (row["query_id"] in twice)
        assert row["confidence"] is not None
        assert row["replied_by"] == (STRONG if row["query_id"] in twice else WEAK)
    assert before.total.usd.low <= reader.bill_usd + stronger.bill_usd <= before.total.usd.high
    assert before.again is not None
    assert before.again.usd.low == 0 < stronger.bill_usd <= before.again.usd.high

    asked = len(reader.received), len(stronger.received)
    assert answer(plain_archive, questions, run.path, **told).statuses == result.statuses
    assert (len(reader.received), len(stronger.received)) == asked
    flat = {row["query_id"]: row for row in result.to_arrow().to_pylist()}
    assert {row["model"] for query_id, row in flat.items() if query_id in twice} == {STRONG}
    assert {row["model"] for query_id, row in flat.items() if query_id not in twice} == {WEAK}
    code, said = call(monkeypatch, capsys, "show", run.path, min(twice))
    assert (code, f"repeated with {STRONG}, because the first answer had" in said) == (0, True)
    assert f"replied by {STRONG}" in said

    begun, manifest = json.loads(run.read_bytes("run.json")), run.read_manifest()
    assert manifest is not None
    assert len(begun["confidence"]["model"]) == 64, "the digest of what judged"
    assert manifest["confidence"] == begun["confidence"]
    assert manifest["generator"]["stronger"] == {"model": STRONG, "base_url": stronger.base_url}
    with pytest.raises(ConfigError, match="begun with another set-up"):
        answer(plain_archive, questions, run.path, **told | {"reranker.precision": "float32"})


def test_nothing_is_spent_where_the_stronger_generator_cannot_be_asked(
    plain_archive: Path, sample_folder: Path, tmp_path: Path, reader: FakeOpenAI, stronger: FakeOpenAI
) -> None:
    questions = sample_folder / "questions.jsonl"
    told = given(tmp_path, reader, stronger, 0.5)
    stronger.models = ["renamed"]
    with pytest.raises(EndpointError, match=f"no model '{STRONG}'"):
        okralong.answer(plain_archive, questions, tmp_path / "unknown", **told)
    unpriced = {**told, "llm.stronger": {"base_url": stronger.base_url, "model": STRONG}}
    with pytest.raises(ConfigError, match=f"no price for the model '{STRONG}'"):
        okralong.answer(plain_archive, questions, tmp_path / "unpriced", **unpriced)
    with pytest.raises(ConfigError, match="the answer config names none"):
        okralong.answer(plain_archive, questions, tmp_path / "none", **{**told, "llm.stronger": None})
    assert reader.received == stronger.received == []
