"""Runs without Ray, in the command's own process and in a warm session, killed and stopped: the same promises hold."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import psutil
import pytest

from okralong.pipelines.core.stopping import AT_ONCE, ATTENDANT
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_BROKEN, EXIT_STOPPED, GO_ON, LockedError
from tests.faults.checks import check, snapshot
from tests.faults.conftest import FEW, SCENARIO, SLOW, ids_of
from tests.faults.night import IN_FLIGHT, START_S, Night
from tests.faults.processes import Process, kill, left_over, marked, signal_until_it_ends
from tests.processes import DYING_S, alive

GONE_S = 60.0


@pytest.fixture
def session(small: Night) -> Iterator[Night]:
    """The same with a session that is up; its sockets lie in a folder of the test's own, of a short name."""
    place = tempfile.mkdtemp(prefix="ok")
    small.environment = {"XDG_RUNTIME_DIR": place}
    said = _okralong(small, "up", "--config", str(small.folder / "answer.yaml"))
    assert "is up" in said
    yield small
    for process in _sessions(small):
        kill(process)
    shutil.rmtree(place, ignore_errors=True)


def _sessions(night: Night) -> list[Process]:
    """The processes of the night's own session; other tests may have one over the same archive."""
    return [one for one in marked(night.mark) if "okralong.jobs.session" in one.title]


def _okralong(night: Night, command: str, *further: str, code: int = 0) -> str:
    """What a session's command says."""
    full = [sys.executable, "-m", "okralong.jobs.cli", command, str(night.archive), *further]
    done = subprocess.run(full, env=night.variables(), capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done
    return " ".join((done.stdout + done.stderr).split())


def _session_of(night: Night) -> Process:
    (found,) = [one for one in _sessions(night) if psutil.Process(one.pid).name() != ATTENDANT]
    return found


def test_sigterm_keeps_the_replies_in_flight_and_a_run_goes_on_over_ray(small: Night) -> None:
    small.hold_after(5)
    driver = small.start("--grace", "120")
    small.wait_for_requests(driver, 6)
    driver.send_signal(signal.SIGTERM)
    small.let_go(SLOW)
    ended = small.end(driver)
    assert ended.code == EXIT_STOPPED, ended
    assert ended.complained == f"Stopped. {GO_ON}\n"
    assert "arrived and are kept" in ended.said
    small.wait_for_silence()
    small.let_go(SCENARIO["latency"])
    before = snapshot(small)
    assert {row["status"] for row in small.table("ledger")} <= {"ok", "failed"}  # none is unknown
    small.configure(planners=1)
    again = small.finish()
    assert again.code == 0, again
    check(small, ids_of(small.questions), [before], 0)


def test_a_second_signal_gives_up_the_calls_in_flight(small: Night) -> None:
    small.configure(planners=None, llm_timeout_s=900.0)
    small.hold_after(0)
    driver = small.start("--grace", "900")
    small.wait_for_requests(driver, 2)
    driver.send_signal(signal.SIGTERM)
    time.sleep(1.0)
    assert driver.poll() is None, "it waits for the calls in flight"
    signal_until_it_ends(driver, signal.SIGTERM)
    ended = small.end(driver)
    assert ended.complained == AT_ONCE, ended
    assert ended.code in (EXIT_STOPPED, -signal.SIGKILL), "on a stalled machine its attendant ends it"
    assert not left_over(small.mark, DYING_S)
    small.wait_for_silence()


def test_a_session_carries_runs_and_ends(session: Night) -> None:
    ended = session.finish()
    assert (ended.code, ended.complained) == (0, ""), ended
    assert "is not used" not in ended.said
    assert f"{FEW} answered" in ended.said or "unanswerable" in ended.said
    check(session, ids_of(session.questions), [], 0)
    assert "already has a session" in _okralong(session, "up", code=2)

    session.configure(planners=None, confidence="shipped")
    second = session.finish("--run", str(session.folder / "second"))
    assert second.code == 0, second
    assert "is not used: its reranker differs from the run's" in second.said

    process = _session_of(session)
    assert "1 session ended" in _okralong(session, "down")
    assert not alive(process.pid)
    assert "has no session" in _okralong(session, "down")


def test_kill_9_of_the_command_stops_its_run_and_of_the_session_ends_the_command(session: Night) -> None:
    session.hold_after(5)
    driver = session.start("--grace", "120")
    session.wait_for_requests(driver, 6)
    driver.kill()
    driver.wait()
    session.let_go(SLOW)
    session.end(driver)  # which is that of its run, since that has its standard output too
    _wait_until_free(session)
    session.wait_for_silence()
    before = snapshot(session)
    assert Folder.of(session.run).read_manifest() is None
    assert {row["status"] for row in session.table("ledger")} <= {"ok", "failed"}  # it had its grace

    asked = session.asked()
    session.endpoint.change({"latency": SCENARIO["latency"], "hold_after": asked})
    driver = session.start()
    session.wait_for_requests(driver, asked + 1)
    kill(_session_of(session))
    ended = session.end(driver)
    assert ended.code == EXIT_BROKEN, ended
    assert "died during this run" in " ".join(ended.complained.split())
    session.let_go()
    session.wait_for_silence()
    later = snapshot(session)
    again = session.finish()
    assert again.code == 0, again
    check(session, ids_of(session.questions), [before, later], IN_FLIGHT)
    assert not left_over(session.mark, GONE_S)


def _wait_until_free(night: Night) -> None:
    """Until the run of a command that was killed has ended, and let go of its folder."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            with Folder.of(night.run).locked("a test"):
                return
        except LockedError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
