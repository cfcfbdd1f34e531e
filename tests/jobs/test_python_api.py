"""The Python calls of the README in a process of their own: again and again, and beside a running event loop."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import okralong
from okralong.pipelines.core.loops import run_coroutine
from tests.conftest import CHECKOUT
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import PAPER, config_file

pytestmark = pytest.mark.slow

SCRIPT = """
import asyncio, json, pathlib, sys
import okralong
import ray

sample, config = sys.argv[1:]
questions = ["Who is the chief executive?", {"query_id": "mine", "question": "What is the revenue?", "team": "x"}]

report = sorted(str(file) for file in pathlib.Path(sample, "reports").iterdir())[0]
okralong.index("archive", sources=[report], **{"embedding.of": "none"})
first = okralong.answer("archive", questions, run="runs/first", config=config, carry=["team"])
again = okralong.answer("archive", questions, run="runs/first", config=config, carry=["team"])

async def notebook():
    data = first.to_pandas()[["query_id", "question"]]
    second = okralong.answer("archive", questions=data, run="runs/second", config=config)
    ray.init(include_dashboard=False)  # what is connected is used and left
    guess = okralong.estimate("archive", questions=first.to_arrow().select(["question"]), config=config)
    # All of it is answered already: each comes once, and nobody is asked.
    known = [row["query_id"] for row in okralong.stream("archive", data, run="runs/second", config=config)]
    left = okralong.stream("archive", [f"What is item {n}?" for n in range(12)], run="runs/left", config=config)
    one = next(left)
    left.close()
    assert ray.is_initialized()
    return second, guess, known, one

second, guess, known, one = asyncio.run(notebook())
first.show("mine")
with open("said.json", "w") as file: json.dump({
    "statuses": [first.statuses, again.statuses, second.statuses],
    "columns": first.to_arrow().column_names,
    "team": first.to_pandas().set_index("query_id").loc["mine", "team"],
    "failures": first.failures,
    "cost": first.cost,
    "html": first._repr_html_(),
    "estimated": guess.questions,
    "known": known,
    "one": one["status"],
}, file)
"""


def test_a_script_and_a_notebook_call_it_as_often_as_they_like(
    sample_folder: Path, reader: FakeOpenAI, tmp_path: Path
) -> None:
    config = config_file(tmp_path, reader)
    # Each call starts the models that it needs, and it is not about them: there is an analyzer alone.
    settings = yaml.safe_load(config.read_text()) | {"policy": PAPER, "confidence": "none"}
    config.write_text(yaml.safe_dump(settings))
    (tmp_path / "script.py").write_text(SCRIPT)
    alone = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "script.py", str(sample_folder), str(config)],
        cwd=tmp_path,
        env={**alone, "PYTHONPATH": str(CHECKOUT), "OPENAI_API_KEY": "sk-test"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads((tmp_path / "said.json").read_text())
    assert said["statuses"] == [{"answered": 2}] * 3
    assert said["team"] == "x"
    assert {"quote", "section", "source_uri", "cost_usd", "archive_version"} <= set(said["columns"])
    assert said["failures"] == []
    assert said["cost"] > 0
    assert "runs/first" in said["html"]
    assert "What is the revenue?" in said["html"]
    assert said["estimated"] == 2
    assert sorted(said["known"]) == ["mine", "q000001"]
    assert said["one"] == "answered"
    assert "InvalidAuthToken" not in done.stderr
    assert "What is the revenue?" in done.stdout  # what show prints


def test_a_coroutine_runs_with_and_without_a_loop_around_it() -> None:
    async def three() -> int:
        return 3

    async def around() -> int:
        return run_coroutine(three())

    assert run_coroutine(three()) == run_coroutine(around()) == 3


def test_the_package_lists_its_functions() -> None:
    assert {"index", "answer", "estimate", "export", "stream"} <= set(okralong.__all__)
    assert all(callable(getattr(okralong, name)) for name in ("index", "answer", "estimate", "export", "stream"))
