"""Runs that one process carries beside each other: each run's log has its own warnings, and models are shared."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from okralong.actors.host import LOG, warnings_to
from okralong.actors.local_models import LoadedModel


class Warner:
    """Warns, as what a run calls on its loop does."""

    async def warn(self, words: str) -> None:
        logging.getLogger("okralong.somewhere").warning("%s", words)


def test_warnings_of_runs_beside_each_other_go_to_their_own_logs(tmp_path: Path) -> None:
    both = Barrier(2)

    def run(name: str) -> list[str]:
        (tmp_path / name).mkdir()
        with warnings_to(str(tmp_path / name)):
            both.wait(30)
            asyncio.run(Warner().warn(f"of {name}"))
            both.wait(30)
        return [json.loads(line)["message"] for line in (tmp_path / name / LOG).read_text().splitlines()]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, ("one", "two"))) == [["of one"], ["of two"]]


def test_a_model_is_called_by_one_thread_at_a_time() -> None:
    class Model:
        inside = 0

        def work(self, number: int) -> int:
            self.inside += 1
            time.sleep(0.001)
            assert self.inside == 1
            self.inside -= 1
            return number

    with ThreadPoolExecutor(8) as pool:
        model = LoadedModel(pool.submit(Model))
        assert list(pool.map(lambda number: model.use(lambda loaded: loaded.work(number)), range(50))) == list(
            range(50)
        )
