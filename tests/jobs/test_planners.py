"""Planners that are started while a run goes on: when, and that one carries questions as those of the start do."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from okralong.actors import ray_planners
from okralong.actors.generator import generator
from okralong.actors.host import RayHost, RunStart
from okralong.jobs import drive
from okralong.jobs.terminal import AnswerPanel
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.prepare import prepare
from okralong.pipelines.run.rows import table
from tests.fakes.openai_server import FakeOpenAI
from tests.jobs.conftest import endpoint
from tests.jobs.warm import WARM

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("spent_s", "idle_cores", "more"),
    [([4.0], 1.5, True), ([4.0, 3.6], 1.0, True), ([4.0, 2.0], 4.0, False), ([4.0], 0.8, False), ([], 4.0, False)],
)
def test_one_is_started_when_all_are_busy_and_a_core_is_free(
    spent_s: list[float], idle_cores: float, more: bool
) -> None:
    assert drive.busy(spent_s, 5.0, idle_cores) is more


def test_one_that_comes_later_carries_questions(
    sample_archive: Path,
    sample_folder: Path,
    tmp_path: Path,
    reader: FakeOpenAI,
    ray_cluster: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_planners, "is_private", lambda: True)  # the session's Ray is no other run's
    monkeypatch.setattr(drive, "GROW_EVERY_S", 0.05)
    monkeypatch.setattr(drive, "MOST_PLANNERS", 2)
    monkeypatch.setattr(drive, "busy", lambda *_: True)
    settings = load_config(RunConfig, "answer.yaml", {"concurrency": 3, **endpoint(reader)})
    assert settings.planners is None
    prepared = prepare(str(sample_archive), str(sample_folder / "questions.jsonl"), settings)
    run, console = tmp_path / "run", Console(quiet=True)
    run.mkdir()
    with generator(prepared.llm, None) as served:
        host = RayHost(retrieval=WARM.looking(prepared), served=served)
        work = drive.Work(prepared.questions, [], [], settings.in_flight, settings.strategy)
        panel = AnswerPanel(console, len(prepared.questions))
        with panel, host.open(RunStart(prepared, str(run), len(prepared.questions)), panel) as opened:
            asyncio.run(drive.grow(opened, lambda: True))
            assert len(opened.planners) == 2
            del opened.planners[0]
            stop, totals = drive.drive(opened, work, panel, console)
            assert asyncio.run(opened.planners[0].spent()) > 0
    assert stop is None
    assert totals["calls"] == len(reader.received)
    rows = Counter(row["query_id"] for row in table(Folder.of(run), "answers"))
    assert rows == Counter(each.question.query_id for each in prepared.questions)
