"""The kill matrix: ``kill -9`` of each part of a run at each moment. The run finishes, and pays for nothing twice.

The ordinary suite kills a run in its own process, and every part of a run on Ray in turn; ``make soak`` has all cells.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Final

import psutil
import pytest

from okralong.pipelines.core.stopping import ATTENDANT
from tests.faults.checks import Snapshot, check, snapshot
from tests.faults.conftest import QUESTIONS, SOAKED, ids_of
from tests.faults.night import IN_FLIGHT, Night
from tests.faults.processes import kill, left_over, parts

REVIVED: Final = ("planner", "gateway", "embedder", "analyzer")
"""Parts that Ray starts again, so that the run goes on."""
WHAT: Final = ("own process", "command", *REVIVED, "shard")
WHEN: Final = {"first request": 0.0, "middle": 0.5, "last request": 1.0}
"""Moments of a run, as the share of its questions whose first request has arrived."""
ORDINARY: Final = {("own process", "middle"), ("own process", "last request")}
"""Cells outside the soak: seconds each, since they start no Ray."""
GONE_S: Final = 120.0
"""How long the processes of a command that has ended may take to go."""
CELLS: Final = [
    pytest.param(what, when, marks=() if (what, when) in ORDINARY else pytest.mark.soak)
    for what in WHAT
    for when in WHEN
]


@pytest.fixture
def night(night: Night, sample_archive: Path) -> Night:
    """Over vectors and with a trained analyzer: embedder and analyzer are among the parts that are killed."""
    night.archive = sample_archive
    night.analyzer = "heads"
    night.configure()
    return night


def kill_the_driver(night: Night, moment: int, *, alone: bool = False) -> Snapshot:
    """Start the command, kill it when ``moment`` requests have arrived, and return what was durable then.

    A run that is ``alone`` has started no process but the one that watches for a second signal.
    """
    night.hold_after(moment)
    driver = night.start()
    night.wait_for_requests(driver, moment)
    if alone:
        assert {child.name() for child in psutil.Process(driver.pid).children(recursive=True)} == {ATTENDANT}
    driver.kill()
    driver.communicate()
    left = left_over(night.mark, GONE_S)
    assert not left, f"processes outlive their driver: {left}"
    night.let_go()
    night.wait_for_silence()
    return snapshot(night)


def finish_it(night: Night) -> None:
    """The same command again, to a good end that leaves nothing behind."""
    ended = night.finish()
    assert (ended.code, ended.complained) == (0, ""), ended
    left = left_over(night.mark, GONE_S)
    assert not left, f"processes outlive their run: {left}"


def kill_parts(night: Night, order: list[str], moments: list[int], dice: random.Random) -> subprocess.Popen[str]:
    """Start the command and kill one process of each part, each when its number of requests has arrived."""
    night.hold_after(moments[0])
    driver = night.start()
    for part, moment in zip(order, moments, strict=True):
        night.hold_after(moment)
        night.wait_for_requests(driver, moment)
        night.wait_until(driver, lambda part=part: bool(parts(night.mark, part)))
        kill(dice.choice(parts(night.mark, part)))
    night.let_go()
    return driver


@pytest.mark.parametrize(("what", "when"), CELLS)
def test_a_run_survives_the_kill(what: str, when: str, request: pytest.FixtureRequest) -> None:
    night: Night = request.getfixturevalue("small" if what == "own process" else "night")
    questions = ids_of(night.questions)
    moment = 1 + round(WHEN[when] * (len(questions) - 2))
    if what in ("own process", "command"):
        before = kill_the_driver(night, moment, alone=what == "own process")
        assert len(before.answers) < len(questions)
    else:
        driver = kill_parts(night, [what], [moment], random.Random(7))
        before = snapshot(night)
        ended = night.end(driver)
        assert ended.code == 0, ended
    finish_it(night)
    check(night, questions, [before], IN_FLIGHT)


def test_all_parts_die_in_turn(night: Night, chance: random.Random) -> None:
    order = chance.sample(REVIVED, len(REVIVED))
    moments = sorted(chance.sample(range(4, QUESTIONS - 8), len(order)))
    driver = kill_parts(night, order, moments, chance)
    before = snapshot(night)
    ended = night.end(driver)
    assert ended.code == 0, ended
    left = left_over(night.mark, GONE_S)
    assert not left, f"processes outlive their run: {left}"
    check(night, ids_of(night.questions), [before], IN_FLIGHT * len(order))


@pytest.mark.soak
def test_many_questions_and_a_driver_that_dies_again_and_again(long_night: Night, chance: random.Random) -> None:
    before = [kill_the_driver(long_night, moment) for moment in sorted(chance.sample(range(5, SOAKED), 3))]
    finish_it(long_night)
    check(long_night, ids_of(long_night.questions), before, 3 * IN_FLIGHT)


@pytest.mark.soak
@pytest.mark.parametrize("part", [*REVIVED, "shard"])
def test_many_questions_and_a_part_that_dies_twice(long_night: Night, part: str, chance: random.Random) -> None:
    driver = kill_parts(long_night, [part, part], sorted(chance.sample(range(5, SOAKED - 20), 2)), chance)
    before = snapshot(long_night)
    ended = long_night.end(driver)
    assert ended.code == 0, ended
    finish_it(long_night)
    check(long_night, ids_of(long_night.questions), [before], 2 * IN_FLIGHT)
