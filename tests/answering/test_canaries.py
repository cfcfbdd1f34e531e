"""Canaries of a night: which files and configs are refused, and what a verdict says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.run.canaries import Canaries, Verdict, Wrong, check_canaries
from okralong.pipelines.run.config import RunConfig


def file_of(folder: Path, *rows: dict[str, Any]) -> str:
    (folder / "canaries.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(folder / "canaries.jsonl")


GOOD = {"query_id": "a", "question": "Who?", "answers": ["Ines Calder"]}


@pytest.mark.parametrize("gold", [None, "", [], ["", " "]])
def test_a_canary_without_a_gold_answer_is_refused_with_its_row(tmp_path: Path, gold: Any) -> None:
    source = file_of(tmp_path, GOOD, {"query_id": "b", "question": "When?", "answers": gold})
    with pytest.raises(InputError) as error:
        check_canaries(source)
    assert str(error.value).startswith(f"{source}, row 2: the canary has no gold answer. Fill its column answers")


def test_a_file_without_the_column_and_a_columns_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("question\nWho?\nWhen?\n")
    with pytest.raises(InputError, match=r"row 1 .*no gold answer \(so 1 other row\)"):
        check_canaries(str(tmp_path / "c.csv"))
    (tmp_path / "c.yaml").write_text("columns: [{name: revenue, question: What?}]")
    with pytest.raises(InputError, match=r"column revenue: the canary has no gold answer"):
        check_canaries(str(tmp_path / "c.yaml"))


def test_a_canary_that_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 2 has an empty question"):
        check_canaries(file_of(tmp_path, GOOD, {"question": "", "answers": ["x"]}))
    check_canaries(file_of(tmp_path, GOOD, {"question": "How many?", "answers": 0}))


@pytest.mark.parametrize(
    "given",
    [
        {"otherwise": "second"},
        {"second_llm": {"model": "other"}},
        {"min_right": 0},
        {"min_right": 1.1},
        {"otherwise": "go on"},
    ],
)
def test_a_config_that_cannot_be_used_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(given)) if "otherwise" not in given else "otherwise"):
        parse_config(Canaries, yaml.safe_dump({"questions": "c.jsonl"} | given), "nightly.yaml")


def test_the_second_endpoint_differs_only_in_what_is_named() -> None:
    llm = {"base_url": "https://one.example/v1", "model": "gpt-4o", "window": 9_000, "requests_per_minute": 7}
    answer = yaml.safe_load(shipped_config("answer.yaml"))
    answer["llm"] |= llm
    first = parse_config(RunConfig, yaml.safe_dump(answer), "answer.yaml").llm
    named = {"base_url": "https://two.example/v1", "api_key_env": "TWO_KEY"}
    canaries = Canaries(questions="c.jsonl", otherwise="second", second_llm=named)
    second = canaries.second(first, "nightly.yaml")
    assert (second.base_url, second.api_key_env, second.model, second.window) == (*named.values(), "gpt-4o", 9_000)
    assert second.requests_per_minute is None
    with pytest.raises(ConfigError, match=r"nightly.yaml, canaries.second_llm.*modle is not a known key"):
        Canaries(questions="c.jsonl", otherwise="second", second_llm={"modle": "x"}).second(first, "nightly.yaml")


def test_the_share_decides_and_the_first_wrong_ones_are_named() -> None:
    wrong = [Wrong(f"q{number}", "", "5 USD") for number in range(7)]
    found = Verdict(10, 3, "gpt-4o", wrong)
    assert [found.passes(share) for share in (0.3, 0.31)] == [True, False]
    assert Verdict(0, 0, "gpt-4o").passes(1.0)
    assert found.words() == "3 of 10 canaries right, answered by gpt-4o"
    assert found.first_wrong().startswith("q0 ('no answer' instead of '5 USD'), q1")
    assert found.first_wrong().endswith("2 more")
