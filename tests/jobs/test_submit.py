"""``okralong submit`` where there is no cluster, or nothing that may be sent: what a person is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from okralong.jobs.submit import job_server
from okralong.pipelines.core.types import ConfigError
from tests.jobs.conftest import call

NOBODY = "http://127.0.0.1:9"


@pytest.fixture
def submission(tmp_path: Path) -> Path:
    job = {"kind": "answer", "archive": "s3://b/a", "questions": "/q.jsonl", "run": "s3://b/r"}
    (tmp_path / "submit.yaml").write_text(yaml.safe_dump({"job": job, "code": "installed"}))
    return tmp_path / "submit.yaml"


@pytest.mark.parametrize("address", ["auto", "HEAD:8265", "http://me:secret@HEAD:8265", "http://HEAD:8265/?token=x"])
def test_an_address_that_is_none_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError, match="must be the URL of a job server") as refused:
        job_server(address)
    assert "secret" not in str(refused.value)


def test_a_cluster_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], submission: Path
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")  # the option wins
    code, said = call(monkeypatch, capsys, "submit", submission, "--address", NOBODY)
    assert code == 2
    assert f"No job server answers at {NOBODY}" in said
    assert "Nothing was sent" in said


def test_a_key_in_the_config_is_found_before_the_cluster_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], submission: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-plain-words")
    said_now = yaml.safe_load(submission.read_text())
    said_now["job"]["tags"] = {"team": "a-key-of-plain-words"}
    submission.write_text(yaml.safe_dump(said_now))
    code, said = call(monkeypatch, capsys, "submit", submission, "--address", NOBODY)
    assert code == 2
    assert "holds the value of OPENAI_API_KEY" in said
    assert "a-key-of-plain-words" not in said
