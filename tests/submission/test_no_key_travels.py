"""No key gets into what Ray is sent and shows, whatever a config, a file or the environment try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from okralong.jobs.secret_search import refuse_secrets
from okralong.jobs.submission import Submission
from okralong.jobs.submit import job_request
from okralong.pipelines.core.config import parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError

KEY = "plain-words-of-a-key-4711"
"""A secret that looks like none: only the environment gives it away."""
HERE = {"OPENAI_API_KEY": KEY, "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789", "RAY_AUTH_TOKEN_PATH": "/run/token"}
ANSWER: dict[str, Any] = {"kind": "answer", "archive": "s3://b/archive", "questions": "q.jsonl", "run": "s3://b/run"}


def request(folder: Path, said: dict[str, Any], environment: dict[str, str] = HERE) -> dict[str, Any]:
    base, package = folder / "mine", folder / "package"
    base.mkdir(exist_ok=True)
    package.mkdir()
    (base / "q.jsonl").write_text('{"question": "How many?"}')
    submission = parse_config(Submission, yaml.safe_dump({"job": ANSWER, "code": "installed"} | said), "submit.yaml")
    return job_request(submission, base, package, environment)


def refused(folder: Path, said: dict[str, Any], secret: str, says: str = "holds") -> None:
    with pytest.raises(ConfigError, match=says) as error:
        request(folder, said)
    assert secret not in str(error.value), "the message would put it into a log"
    assert "Nothing was sent" in str(error.value)


def test_what_is_sent_has_nothing_of_the_environment(tmp_path: Path) -> None:
    said = {"environment": {"AWS_REGION": "eu-west-1"}, "driver": {"num_cpus": 1.0, "memory_gib": 2.0}}
    sent = request(tmp_path, said)
    assert sent["runtime_env"].keys() == {"env_vars", "working_dir"}
    assert sent["runtime_env"]["env_vars"] == {"PYTHONUNBUFFERED": "1", "AWS_REGION": "eu-west-1"}
    assert sent["entrypoint_memory"] == 2 * 2**30
    assert not any(value in json.dumps(sent) for value in HERE.values())
    assert [file.name for file in (tmp_path / "package").rglob("*")] == ["q.jsonl"]


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN", "MY_MODEL", "PYTHONPATH", "LD_PRELOAD"]
)
def test_a_variable_that_could_hold_a_key_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    refused(tmp_path, {"environment": {name: KEY}}, KEY, f"environment.{name} cannot be sent")


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ({"environment": {"AWS_REGION": KEY}}, "env_vars.AWS_REGION holds the value of OPENAI_API_KEY"),
        ({"job": ANSWER | {"tags": {"team": KEY}}}, "OPENAI_API_KEY"),
        ({"job": ANSWER | {"tags": {KEY: "team"}}}, "OPENAI_API_KEY"),
        ({"job": ANSWER | {"archive": f"s3://{KEY}@b/archive"}}, "OPENAI_API_KEY"),
        ({"driver": {"place": {"labels": {KEY: "x"}}}}, "OPENAI_API_KEY"),
        ({"name": KEY}, "OPENAI_API_KEY"),
    ],
)
def test_the_value_of_a_secret_variable_is_found_wherever_it_hides(
    tmp_path: Path, said: dict[str, Any], where: str
) -> None:
    refused(tmp_path, said, KEY, where)


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-0123456789abcdef",
        "AKIAABCDEFGHIJKLMNOP",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "hf_0123456789abcdefghij",
        "Bearer abcdefghijklm",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x",
        "https://user:pass-word@host/v1",
    ],
)
def test_what_looks_like_a_key_is_refused_though_no_variable_holds_it(tmp_path: Path, secret: str) -> None:
    refused(tmp_path, {"job": ANSWER | {"tags": {"team": secret}}}, secret)


def test_a_file_that_holds_a_key_stays_here(tmp_path: Path) -> None:
    base = tmp_path / "mine"
    base.mkdir()
    (base / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    refused(tmp_path, {"files": [".env"]}, KEY, "the file .env holds the value of OPENAI_API_KEY")
    config = yaml.safe_load(shipped_config("answer.yaml"))
    (base / "answer.yaml").write_text(yaml.safe_dump(config | {"tags": {"team": KEY}}))
    (tmp_path / "package").rmdir()
    refused(tmp_path, {}, KEY, "the file answer.yaml holds the value of OPENAI_API_KEY")


def test_placeholders_and_places_are_no_secrets() -> None:
    sent = {"entrypoint": "okralong answer --run /run/token/none s3://b/x?y=z http://host/v1"}
    refuse_secrets(sent, {"LOCAL_API_KEY": "none", "RAY_AUTH_TOKEN_PATH": "/run/token", "TOKENIZERS_PARALLELISM": "x"})


def test_a_key_among_the_configs_of_the_code_stays_here_too(tmp_path: Path) -> None:
    environment = {"SOME_API_KEY": "gpt-4o-2024-08-06"}  # what stands in the shipped prices.yaml plays the key
    with pytest.raises(ConfigError, match=r"okralong/configs/\S+ holds.*Nothing was sent"):
        request(tmp_path, {"code": "shipped"}, environment)
