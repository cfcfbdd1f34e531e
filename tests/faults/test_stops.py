"""Runs that are stopped from outside: by Ctrl-C, by a second command in the same folder, by a disk that is full."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_LOCKED, EXIT_STOPPED
from tests.faults.checks import check, snapshot
from tests.faults.conftest import QUESTIONS, SCENARIO, ids_of
from tests.faults.night import IN_FLIGHT, Night
from tests.faults.processes import left_over
from tests.jobs.warm import answer


def test_a_second_command_is_refused_and_ctrl_c_keeps_what_is_finished(ray_cluster: None, night: Night) -> None:
    driver = night.start()
    night.wait_for_requests(driver, 12)
    night.endpoint.change({"latency": {"median_s": 8.0, "sigma": 0.0}})  # the second starts while the first still runs
    second = night.finish()
    assert second.code == EXIT_LOCKED, second
    assert "is being written by another process" in second.complained
    assert str(driver.pid) in second.complained
    os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to all of the command's processes
    ended = night.end(driver)
    stopped = "Stopped. What was finished is kept; run the same command again to go on.\n"
    assert (ended.code, ended.complained) == (EXIT_STOPPED, stopped), ended
    assert not left_over(night.mark, 0.0)
    assert Folder.of(night.run).read_manifest() is None
    night.wait_for_silence()
    night.endpoint.change({"latency": SCENARIO["latency"]})
    before = snapshot(night)
    assert 0 < len(before.answers) < QUESTIONS
    assert "came and are kept" in ended.said
    assert {row["status"] for row in night.table("ledger")} <= {"ok", "failed"}  # none is unknown
    again = answer(night.archive, night.questions, night.run, config=night.folder / "answer.yaml")
    assert (again.exit_code, again.stopped) == (0, ""), again
    check(night, ids_of(night.questions), [before], IN_FLIGHT)


@pytest.fixture
def small_disk(night: Night) -> Iterator[Path]:
    """The run folder on a disk of 400 kB. Skips where this user may not mount one."""
    night.run.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "okralong-test", str(night.run)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no small disk can be mounted here: {error}")
    yield night.run
    subprocess.run(["umount", str(night.run)], check=True, capture_output=True)


@pytest.mark.soak  # tests/llm/test_full_disk.py has the ledger on a full disk
def test_a_full_disk_stops_the_run_and_more_room_lets_it_go_on(night: Night, small_disk: Path) -> None:
    full = night.finish()
    assert full.code == EXIT_BROKEN, full
    assert "No space left on device" in full.complained
    assert "Make room on its disk" in full.complained
    assert "Traceback" not in full.complained
    assert not list(small_disk.rglob("*.partial"))
    night.wait_for_silence()
    before = snapshot(night)
    assert len(before.answers) < QUESTIONS
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True, capture_output=True)
    again = night.finish()
    assert again.code == 0, again
    check(night, ids_of(night.questions), [before], IN_FLIGHT)
