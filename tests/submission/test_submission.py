"""What a job is told on its command line, and what travels with it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml

from okralong.jobs.cli import app
from okralong.jobs.submission import AnswerJob, EstimateJob, IndexJob, MatrixJob, Submission
from okralong.jobs.submit import write_package
from okralong.pipelines.core.config import load_config, parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError

ANSWER: dict[str, Any] = {"kind": "answer", "archive": "s3://b/archive", "questions": "q.jsonl", "run": "s3://b/run"}


def read(job: dict[str, Any], **more: Any) -> Submission:
    return parse_config(Submission, yaml.safe_dump({"job": job, **more}), "submit.yaml")


def test_a_job_is_the_command_that_a_person_would_type() -> None:
    index = read({"kind": "index", "archive": "/mnt/a", "sources": ["s3://b/new reports", "/mnt/more"]})
    assert shlex.split(index.entrypoint)[3:] == (
        ["index", "/mnt/a", "--config", "index.yaml", "--from", "s3://b/new reports", "--from", "/mnt/more"]
    )
    said: dict[str, Any] = {
        "budget_usd": 4.5,
        "tags": {"team": "a b"},
        "retry": ["failed"],
        "llm_mode": "batch",
        "deadline": "06:00",
    }
    said |= {"changed_since": 3}
    words = shlex.split(read(ANSWER | said).entrypoint)
    assert words[3:5] == ["answer", "s3://b/archive"]
    assert words[words.index("--questions") + 1] == "q.jsonl"
    assert words[words.index("--tag") + 1] == "team=a b"
    assert words[words.index("--llm-mode") + 1] == "batch"
    assert words[words.index("--budget-usd") + 1] == "4.5"
    assert words[words.index("--retry") + 1] == "failed"
    assert words[words.index("--changed-since") + 1] == "3"
    estimate = read({"kind": "estimate", "archive": "/a", "questions": "/q.jsonl", "strategy": "std_rag"})
    words = shlex.split(estimate.entrypoint)
    assert words[words.index("--strategy") + 1] == "std_rag"


def test_the_keys_of_a_job_are_the_options_of_its_command() -> None:
    """All but those of one machine or one terminal, so that a job can do what its command can."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    here = {"address", "grace", "help", "pilot", "run", "seed", "json_file"}
    for job in (IndexJob, EstimateJob, AnswerJob, MatrixJob):
        kind = get_args(job.model_fields["kind"].annotation)[0]
        options = {each.name for each in commands[kind].params}
        assert set(job.model_fields) - {"kind", "run"} == options - here
        assert ("run" in job.model_fields) == (kind in ("answer", "matrix"))


def test_a_job_says_its_command_s_options_by_their_names() -> None:
    """Every key given: typer takes the words, and reads the same values."""
    told: dict[str, dict[str, Any]] = {
        "index": {"archive": "/a", "sources": ["/b"], "metadata": "m.csv", "exclude": ["x", "y"], "embed": "none"},
        "estimate": {"archive": "/a", "questions": "q.csv", "analyzer": "rules", "tags": {"t": "v"}},
        "answer": ANSWER | {"window": 9, "carry": ["c", "d"], "replies_from": ["/r"], "changed_since": 0},
        "matrix": ANSWER | {"kind": "matrix", "documents": ["d*"], "where": "year = 2023", "model": "m"},
    }
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for kind, job in told.items():
        _, *words = read({"kind": kind} | job).job.arguments()
        parsed = commands[kind].make_context(kind, words).params
        said = {key: value for key, value in job.items() if key not in ("kind", "tags")}
        assert {key: list(parsed[key]) if isinstance(parsed[key], tuple) else parsed[key] for key in said} == said
    assert read({"kind": "index"} | told["index"]).job.inputs == ("index.yaml", "m.csv")


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (ANSWER | {"run": "runs/first"}, r"job\.answer\.run = 'runs/first': must be a URI"),
        (ANSWER | {"kind": "dance"}, "job"),
        (ANSWER | {"budget": 4}, r"job\.answer\.budget is not a known key"),
        (ANSWER | {"budget_usd": -1.0}, "budget_usd"),
        ({"kind": "index", "archive": "/a", "sources": []}, "sources"),
        ({"kind": "index", "archive": "/a", "sources": ["reports"]}, "absolute path that all nodes see"),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_its_key(job: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(job)


def test_the_package_holds_what_the_job_names_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    base, into = tmp_path / "mine", tmp_path / "package"
    (base / "rules" / ".git").mkdir(parents=True)
    into.mkdir()
    config = yaml.safe_load(shipped_config("answer.yaml")) | {"policy": "rules/own.yaml"}
    (base / "answer.yaml").write_text(yaml.safe_dump(config))
    (base / "rules" / "own.yaml").write_text(shipped_config("policy/default.yaml"))
    (base / "rules" / ".git" / "config").write_text("hidden")
    (base / "q.jsonl").write_text('{"question": "How many?"}')
    for left in (".env", "notes.txt"):
        (base / left).write_text("OPENAI_API_KEY=sk-left-beside-the-config-0123")
    names = write_package(read(ANSWER, files=["rules"]), base, into, {})
    assert names == ("answer.yaml", "q.jsonl", "rules", "rules/own.yaml")
    sent = {str(file.relative_to(into)) for file in into.rglob("*") if file.is_file()}
    assert {name for name in sent if not name.startswith("okralong/")} == {"answer.yaml", "q.jsonl", "rules/own.yaml"}
    assert {"okralong/__init__.py", "okralong/jobs/cli.py", "okralong/configs/answer.yaml"} <= sent
    assert not any("__pycache__" in name or "/." in name for name in sent)


@pytest.mark.slow  # starts a process
def test_the_code_in_the_package_runs_without_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "How many?"}')
    into = tmp_path / "package"
    into.mkdir()
    write_package(read(ANSWER), tmp_path, into, {})
    asked = "import okralong.pipelines.core.storage as s, okralong.jobs.cli; print(s.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", asked], cwd=into, capture_output=True, text=True, check=True, env={"PATH": ""}
    )
    assert done.stdout.startswith(str(into)), done.stderr


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["../x"], "cannot be sent"),
        (["/etc/hosts"], "cannot be sent"),
        (["okralong/x"], "cannot be sent"),
        (["away"], "is a link out"),
        (["missing"], "is not in"),
    ],
)
def test_files_from_elsewhere_do_not_travel(tmp_path: Path, files: list[str], says: str) -> None:
    base = tmp_path / "mine"
    base.mkdir()
    (base / "q.jsonl").write_text("{}")
    (base / "away").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match=says):
        write_package(read(ANSWER, files=files, code="installed"), base, tmp_path / "package", {})


def test_what_the_job_would_refuse_is_refused_before_a_cluster_is_woken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"q\.jsonl, which the job names, is not in"):
        write_package(read(ANSWER, code="installed"), tmp_path, tmp_path, {})
    (tmp_path / "answer.yaml").write_text("strategy: okralong\nbudget: 3\n")
    with pytest.raises(ConfigError, match="budget is not a known key"):
        write_package(read(ANSWER, code="installed"), tmp_path, tmp_path, {})
    with pytest.raises(ConfigError, match="no shipped config"):
        write_package(read(ANSWER | {"config": "own.yaml"}, code="installed"), tmp_path, tmp_path, {})


def test_the_shipped_examples_can_be_used() -> None:
    for name in ("index", "answer"):
        assert load_config(Submission, f"submit/{name}.yaml").job.kind == name
