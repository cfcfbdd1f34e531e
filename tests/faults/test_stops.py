"""Runs that are stopped from outside: by Ctrl-C, by a second command in the same folder, by a disk that is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_LOCKED, EXIT_STOPPED
from tests.disks import Ballast, mounted, remount
from tests.faults.checks import check, snapshot
from tests.faults.conftest import QUESTIONS, SCENARIO, SLOW, ids_of
from tests.faults.night import IN_FLIGHT, Ended, Night
from tests.faults.processes import left_over
from tests.jobs.warm import answer
from tests.processes import DYING_S


def test_a_second_command_is_refused_and_ctrl_c_keeps_what_is_finished(ray_cluster: None, night: Night) -> None:
    night.hold_after(12)  # the second starts while the first still runs
    driver = night.start("--grace", "120")
    night.wait_for_requests(driver, 13)
    second = night.finish()
    assert second.code == EXIT_LOCKED, second
    assert "is being written by another process" in second.complained
    assert str(driver.pid) in second.complained
    os.killpg(driver.pid, signal.SIGINT)  # a terminal sends it to all of the command's processes
    night.let_go(SLOW)
    ended = night.end(driver)
    stopped = "Stopped. Finished work is kept; run the same command again to resume.\n"
    assert (ended.code, ended.complained) == (EXIT_STOPPED, stopped), ended
    assert not left_over(night.mark, DYING_S)
    assert Folder.of(night.run).read_manifest() is None
    night.wait_for_silence()
    night.endpoint.change({"latency": SCENARIO["latency"]})
    before = snapshot(night)
    assert 0 < len(before.answers) < QUESTIONS
    assert "arrived and are kept" in ended.said
    assert {row["status"] for row in night.table("ledger")} <= {"ok", "failed"}  # none is unknown
    again = answer(night.archive, night.questions, night.run, config=night.folder / "answer.yaml")
    assert (again.exit_code, again.stopped) == (0, ""), again
    check(night, ids_of(night.questions), [before], IN_FLIGHT)


@pytest.fixture
def small_disk(night: Night) -> Iterator[Path]:
    """The run folder on a disk of its own, of one process and few calls in flight. Skips where none can be mounted."""
    night.configure(planners=None, own_process=QUESTIONS, llm_max_in_flight=8)
    with mounted(night.run, "size=1700k") as disk:
        yield disk


@pytest.mark.soak
def test_a_full_disk_stops_the_run_and_more_room_lets_it_go_on(night: Night, small_disk: Path) -> None:
    full = night.finish()
    check_stopped(night, full)
    before = snapshot(night)
    assert len(before.answers) < QUESTIONS
    remount(small_disk, "size=64m")
    again = night.finish()
    assert again.code == 0, again
    check(night, ids_of(night.questions), [before], 0)


def check_stopped(night: Night, ended: Ended) -> None:
    """The run stopped at a full disk: it says so, nothing is half-written, and no reply is missing."""
    said = " ".join((ended.said + ended.complained).split())
    assert ended.code == EXIT_BROKEN, ended
    assert f"The run folder {night.run} cannot be written" in said
    assert "Free space on its disk" in said
    assert "Traceback" not in said
    assert not list(night.run.rglob("*.partial"))
    night.wait_for_silence()
    assert {row["status"] for row in night.table("ledger")} <= {"ok", "failed"}  # none is unknown


@pytest.mark.parametrize("planners", [None, pytest.param(2, marks=pytest.mark.soak)])
def test_replies_that_arrive_while_the_disk_is_full_are_kept(
    night: Night, small_disk: Path, planners: int | None
) -> None:
    night.configure(planners=planners, own_process=QUESTIONS, llm_max_in_flight=8)
    remount(small_disk, "size=64m")
    night.endpoint.change({"latency": {"median_s": 0.4, "sigma": 0.0}})
    driver = night.start()
    night.wait_for_requests(driver, 12)
    with Ballast(small_disk):
        ended = night.end(driver)
        check_stopped(night, ended)
        before = snapshot(night)
        shown = night.command("show", str(night.run))
        assert (shown.code, shown.complained) == (0, ""), shown
        assert f"{len(before.answers)} questions" in shown.said or "answered" in shown.said
        reported = night.command("report", str(night.run))
        assert reported.code == EXIT_BROKEN, reported
        assert "The disk is full" in reported.complained
        assert "Traceback" not in reported.complained
    assert night.command("report", str(night.run)).code == 0
    again = night.finish()
    assert again.code == 0, again
    check(night, ids_of(night.questions), [before], 0)


def test_a_run_folder_that_cannot_be_written_is_refused(night: Night, small_disk: Path) -> None:
    remount(small_disk, "ro")
    ended = night.finish()
    assert ended.code == EXIT_BROKEN, ended
    assert "Traceback" not in ended.complained
    assert "Read-only file system" in ended.complained
    assert str(night.run) in ended.complained
    remount(small_disk, "rw,size=512k")
    ended = night.finish()
    assert ended.code == EXIT_BROKEN, ended
    assert f"The run folder {night.run} cannot be written, and has no space for 1.0 MB" in ended.complained
    assert night.asked() == 0
