"""Configs that name only what differs from the shipped ones, and which file a message names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs.nightly_files import Places
from okralong.jobs.options import AskOptions
from okralong.pipelines.core.config import REMOVED_KEYS, Settings, load_config, parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.run.config import RunConfig, ServeConfig


def test_a_file_is_laid_over_the_shipped_one() -> None:
    shipped = load_config(RunConfig, "answer.yaml")
    assert parse_config(RunConfig, "", "mine.yaml") == shipped
    text = "llm: {model: m, max_completion_tokens: {generate: 90}, stop: [END]}\nbudget_usd: 3\ntags: {team: north}"
    mine = parse_config(RunConfig, text, "mine.yaml", {"llm.window": 4096})
    limits = shipped.llm.max_completion_tokens.model_copy(update={"generate": 90})
    told = {"model": "m", "max_completion_tokens": limits, "stop": ["END"], "window": 4096}
    assert mine.llm == shipped.llm.model_copy(update=told)
    assert mine == shipped.model_copy(update={"llm": mine.llm, "budget_usd": 3.0, "tags": {"team": "north"}})
    index = parse_config(IndexConfig, "granularities: [256]\ndense: {index: ivf}", "mine.yaml")
    assert (index.granularities, index.dense.index, index.dense.recall) == ([256], "ivf", 0.99)


def test_a_file_that_was_whole_before_is_read_as_before() -> None:
    """What it leaves out decides its run's fingerprint, so it must not become the shipped file's value."""
    needed = {"strategy", "policy", "prices", "analyzer", "llm"}
    said = {key: value for key, value in yaml.safe_load(shipped_config("answer.yaml")).items() if key in needed}
    whole = said | {"llm": {"base_url": "http://a/v1", "model": "m"}}
    for text, given in (
        (yaml.safe_dump(whole), {}),
        (yaml.safe_dump({key: value for key, value in whole.items() if key != "strategy"}), {"strategy": "okralong"}),
    ):
        config = parse_config(RunConfig, text, "mine.yaml", given)
        assert config == RunConfig.model_validate(whole)
        assert config.llm.seed == 0, "the shipped file says 7"
    with pytest.raises(ConfigError, match=r"policy\.yaml cannot be used: .* is missing"):
        parse_config(FullPolicy, "name: mine", "policy.yaml")


def test_one_file_is_for_the_night_and_the_service(tmp_path: Path) -> None:
    (tmp_path / "answer.yaml").write_text("budget_usd: 3\nserve: {timeout_s: 60.0}")
    config = {"folder": "n", "archive": "a", "sources": ["r"], "questions": "q.jsonl", "answer": "answer.yaml"}
    (tmp_path / "nightly.yaml").write_text(yaml.safe_dump(config))
    alone, in_night = (
        AskOptions(config=str(tmp_path / "answer.yaml")).settings(),
        Places.read(f"{tmp_path}/nightly.yaml"),
    )
    assert alone == in_night.answer
    assert alone.serve == ServeConfig(timeout_s=60.0)
    with pytest.raises(ConfigError, match=r"serve\.timeout is not a known key \(did you mean serve\.timeout_s\?"):
        parse_config(RunConfig, "serve: {timeout: 60.0}", "mine.yaml")


SHIPPED: dict[str, tuple[type[Settings], str]] = {
    "llm": (RunConfig, "answer.yaml"),
    "dense": (IndexConfig, "index.yaml"),
    "boundaries": (IndexConfig, "index.yaml"),
}
"""The model and the shipped file of removed keys, by their first part; others are keys of the policy."""


@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_a_removed_key_or_value_is_refused_with_what_to_do(key: str) -> None:
    name, _, value = key.partition(": ")
    model, shipped = SHIPPED.get(name.partition(".")[0], (FullPolicy, "policy/default.yaml"))
    told = re.escape(f"{name} was removed: {REMOVED_KEYS[key]}")
    with pytest.raises(ConfigError, match=rf"^Overrides of configs/{shipped} cannot be used: {told}"):
        load_config(model, shipped, {name: value or 0})


def test_a_removed_section_is_refused_with_what_to_do() -> None:
    text = shipped_config("policy/default.yaml") + "sections: {lower: 0.5, by: code}\n"
    with pytest.raises(ConfigError, match=r"^mine\.yaml cannot be used: sections was removed: .*Delete it"):
        parse_config(FullPolicy, text, "mine.yaml")


@pytest.mark.parametrize(
    ("model", "text", "given", "says"),
    [
        (
            RunConfig,
            "bugdet_usd: 3",
            {},
            r"^mine\.yaml cannot .* bugdet_usd is not a known key \(did you mean budget_usd\?",
        ),
        (RunConfig, "window: 3", {}, r"\(did you mean llm\.window or llm\.stronger\.window\?\)"),
        (
            RunConfig,
            "llm: {endpoints: [{base_url: 'http://a/v1', mdel: x}]}",
            {},
            r"did you mean llm\.endpoints\.model\?",
        ),
        (RunConfig, "llm: {window: 5}", {}, r"^mine\.yaml cannot be used: llm\.window = 5: .* Nothing was run"),
        (RunConfig, "llm: {api_key_env: sk-proj-abc}", {}, r"^mine\.yaml cannot be used: llm\.api_key_env must be"),
        (
            RunConfig,
            "budget_usd: 3",
            {"budget_usd": -1.0},
            r"^Overrides of mine\.yaml cannot .* budget_usd = -1",
        ),
        (RunConfig, "", {"llm.mode": "batch"}, r"^Overrides of mine\.yaml cannot be used: llm\.mode is batch"),
        (
            RunConfig,
            "policy: 3",
            {"llm.window": 5},
            r"^mine\.yaml cannot be used: policy = 3: .*\. Overrides of .* llm\.window = 5",
        ),
        (IndexConfig, "embedding: {modell: x}", {}, r"embedding\.modell is not .* \(did you mean embedding\.model\?\)"),
        (RunConfig, "- llm", {}, "holds a list, not keys and values"),
    ],
)
def test_a_message_names_the_file_that_holds_the_key(
    model: type[Settings], text: str, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        parse_config(model, text, "mine.yaml", given)
    assert "sk-proj" not in str(refused.value)
