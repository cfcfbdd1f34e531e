"""What a start of a run decides about its batches, before anything runs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from okralong.jobs.answer import batch_setup
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.methods.registry import FullPolicy, describe
from okralong.pipelines.run.config import RunConfig, fingerprint
from okralong.pipelines.run.rows import BEGUN

NOW = datetime(2026, 11, 22, 21, 0, tzinfo=UTC)


def config(deadline: str | None = None, **changes: Any) -> LlmConfig:
    given = {"llm.base_url": "http://a/v1", "llm.mode": "batch", "llm.batch.deadline": deadline, **changes}
    return load_config(RunConfig, "answer.yaml", given).llm


def begun(path: Path, **said: Any) -> Folder:
    folder = Folder.of(path)
    folder.create()
    folder.write_bytes(BEGUN, json.dumps({"fingerprint": "f", **said}).encode())
    return folder


def test_a_run_keeps_its_id_and_an_older_one_is_given_one(tmp_path: Path) -> None:
    folder = begun(tmp_path / "new", run_id="mine")
    plan = batch_setup(folder, config(), False, NOW)
    assert plan is not None
    assert (plan.run_id, plan.until) == ("mine", None)
    older = begun(tmp_path / "old")
    plans = [batch_setup(older, config(), False, NOW) for _ in range(2)]
    assert plans[0] == plans[1]
    assert plans[0] is not None
    assert plans[0].run_id


def test_a_deadline_stays_the_moment_that_it_first_meant(tmp_path: Path) -> None:
    folder = begun(tmp_path, run_id="mine")
    later = NOW + timedelta(hours=10)

    def until(deadline: str, now: datetime, complete: bool = False) -> datetime | None:
        plan = batch_setup(folder, config(deadline), complete, now)
        assert plan is not None
        return plan.until

    first = until("8h", NOW)
    assert first == NOW + timedelta(hours=8)
    assert until("8h", later) == first, "a killed run goes on late"
    assert until("9h", later) == later + timedelta(hours=9), "unless it is told otherwise"
    assert until("9h", later + timedelta(days=1), complete=True) == later + timedelta(days=1, hours=9)


def test_real_time_needs_a_scheduler_only_for_what_is_left_in_batches(tmp_path: Path) -> None:
    realtime = load_config(RunConfig, "answer.yaml").llm
    assert batch_setup(begun(tmp_path / "never", run_id="mine"), realtime, False, NOW) is None
    assert batch_setup(begun(tmp_path / "done", run_id="mine", batches=True), realtime, False, NOW) is None


def test_a_run_may_go_on_in_the_other_mode() -> None:
    policy = load_config(FullPolicy, "policy/default.yaml")
    given = {"llm.base_url": "http://a/v1"}
    told = [given, {**given, "llm.mode": "batch", "llm.batch.deadline": "8h", "llm.batch.quiet_s": 3.0}]
    spec, configs = describe("okralong", policy), [load_config(RunConfig, "answer.yaml", one) for one in told]
    assert len({fingerprint(config, policy, spec, {}) for config in configs}) == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"llm.base_url": "embedded"}, "the embedded model has no Batch API"),
        ({"llm.api_version": "2024-10-21"}, "openai/v1"),
        ({"llm.mode": "night"}, "llm.mode"),
        ({"llm.batch.quiet": 3.0}, "llm.batch.quiet is not a known key"),
        ({"llm.batch.deadline": "soon"}, "Give a time of day"),
        ({"llm.batch.max_requests": 60_000}, "llm.batch.max_requests"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(**changes)
