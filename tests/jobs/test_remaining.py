"""The remaining time: unknown until it can be estimated, then close to what is left, and steady. Nothing starts Ray."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.console import Console

from okralong.actors.index_streams import Live
from okralong.jobs import terminal
from okralong.jobs.remaining import Countdown, Pace, QuestionPace, about
from okralong.jobs.terminal import AnswerPanel, IndexPanel, Panel, seconds_by_stage
from okralong.pipelines.indexing.job import IndexProgress


def test_nothing_is_said_before_it_can_be_known() -> None:
    pace = Pace()
    assert pace.seconds_left(100, 0.0) is None
    pace.note(1, 10.0)
    assert pace.seconds_left(100, 10.0) is None, "one record has no pace"
    pace.note(2, 11.0)
    assert pace.seconds_left(100, 11.0) is None, "a second is too short"
    pace.note(10, 20.0)
    assert pace.seconds_left(100, 20.0) == pytest.approx(100.0)


def test_loading_before_the_first_record_is_no_work() -> None:
    pace = Pace()
    pace.note(50, 300.0)  # after five minutes of loading a model
    pace.note(100, 310.0)
    assert pace.seconds_left(1000, 310.0) == pytest.approx(180.0)


def test_a_stall_makes_the_time_longer() -> None:
    pace = Pace()
    for second in range(11):
        pace.note(second, float(second))
    before, after = pace.seconds_left(20, 10.0), pace.seconds_left(20, 30.0)
    assert before is not None
    assert after is not None
    assert after > 2 * before


def test_work_in_tokens_is_not_fooled_by_short_texts_first() -> None:
    """1,000 texts, the short ones first: texts a second would promise a quarter of the time."""
    sizes = [50] * 500 + [400] * 500
    speed = 1000.0
    whole, now, done = sum(sizes) / speed, 0.0, 0
    pace, texts = Pace(), Pace()
    for at, size in enumerate(sizes[:300]):
        done += size
        now += size / speed
        pace.note(done, now)
        texts.note(at + 1, now)
    said, naive = pace.seconds_left(sum(sizes), now), texts.seconds_left(len(sizes), now)
    assert said == pytest.approx(whole - now, rel=0.01)
    assert naive is not None
    assert naive < 0.2 * (whole - now)


def test_the_shown_time_runs_down_and_does_not_jump() -> None:
    countdown = Countdown()
    assert countdown.show(None, 0.0) == ""
    assert countdown.show(100.0, 1.0) == "about 2 min"
    assert countdown.show(90.0, 11.0) == "about 2 min"
    assert countdown.show(500.0, 12.0) == "about 2 min", "one estimate of many"
    for second in range(13, 60):
        last = countdown.show(500.0, float(second))
    assert last == "about 8 min"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *((0, "under 10 s"), (12, "about 15 s"), (56, "about 1 min"), (1130, "about 19 min")),
        *((3580, "about 1 h"), (3600, "about 1 h"), (7800, "about 2 h 10 min"), (86_400, "about 24 h")),
    ],
)
def test_a_time_has_the_digits_that_it_deserves(seconds: float, said: str) -> None:
    assert about(seconds) == said


def plan(workflow: str, calls: int) -> dict[str, object]:
    return {"plan": json.dumps({"workflow": workflow}), "calls": calls}


def simulated(kinds: list[tuple[str, float, int]], at_once: int) -> Iterator[tuple[float, float | None]]:
    """Yield (true, said) seconds left at each end of a question, of questions (workflow, seconds, calls)."""
    pace = QuestionPace(len(kinds))
    ends = []
    free = [0.0] * at_once
    for number, (_, seconds, _) in enumerate(kinds):  # the clock of a pool of workers
        start = min(free)
        free[free.index(start)] = start + seconds
        ends.append((start, start + seconds, number))
    whole, now = max(free), 0.0
    events = sorted([(start, 0, number) for start, _, number in ends] + [(end, 1, number) for _, end, number in ends])
    begun: dict[int, float] = {}
    for now, is_end, number in events:
        workflow, seconds, calls = kinds[number]
        if not is_end:
            pace.begin(str(number), now)
            begun[number] = now
            continue
        pace.end(str(number), plan(workflow, calls), now)
        del begun[number]
        under_way: Counter[tuple[str, int]] = Counter()
        for each, since in begun.items():
            name, takes, makes = kinds[each]
            under_way[name, int(makes * (now - since) / takes)] += 1
        yield whole - now, pace.seconds_left(under_way, now)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("at_once", [1, 8, 32])
def test_slow_workflows_count_though_the_fast_ones_end_first(seed: int, at_once: int) -> None:
    random.seed(seed)
    kinds = random.choices([("linear", 2.0, 1), ("extend", 3.0, 1), ("split", 12.0, 4), ("step", 20.0, 5)], k=200)
    kinds = [(name, seconds * random.uniform(0.7, 1.4), calls) for name, seconds, calls in kinds]
    pairs = list(simulated(kinds, at_once))
    told = [(true, said) for true, said in pairs if said is not None]
    assert len(told) > 150
    middle = [(true, said) for true, said in told[20:] if true > 30]
    errors = [abs(said - true) / true for true, said in middle]
    assert sum(errors) / len(errors) < 0.3
    assert max(errors) < 1.0, "never off by a factor of two in the middle of a run"


def test_a_run_with_one_slow_question_left_does_not_promise_seconds() -> None:
    pace = QuestionPace(10)
    for number in range(10):
        pace.begin(str(number), 0.0)
    for number in range(9):
        pace.end(str(number), plan("linear", 1), 6.0 + number)
    said = pace.seconds_left({("step", 1): 1}, 15.0)
    assert said is not None
    assert said > 15, "four calls of ten seconds, of which one is over"


def test_a_run_says_nothing_before_two_questions_are_finished() -> None:
    pace = QuestionPace(3)
    pace.begin("a", 0.0)
    assert pace.seconds_left({}, 100.0) is None
    pace.end("a", plan("linear", 1), 100.0)
    assert pace.seconds_left({}, 100.0) is None


class Clock:
    """A monotonic clock that tests turn on."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(terminal, "time", made)
    return made


def figures(panel: Panel) -> str:
    return panel._figures


def test_the_pace_of_reading_says_nothing_about_embedding(clock: Clock) -> None:
    panel = IndexPanel(Console(file=io.StringIO()), every_s=3600)
    with panel:
        for read in range(0, 41, 4):
            panel.update(IndexProgress("read", 40, read=read, to_read=40, bytes_read=read * 10, bytes_to_read=400))
            clock.now += 2
        assert "to go" not in figures(panel)
        panel.update(IndexProgress("read", 40, read=30, to_read=40, bytes_read=300, bytes_to_read=400))
        assert "for the other files" in figures(panel)
        done = {"expected_chunks": 1000, "tokens_to_embed": 150_000}
        panel.update(IndexProgress("embed", 40, **done))
        clock.now += 60  # the encoder is loaded
        panel.update(IndexProgress("embed", 40, embedded=16, tokens_embedded=6_000, **done))
        assert "to go" not in figures(panel)
        clock.now += 20
        panel.update(IndexProgress("embed", 40, embedded=32, tokens_embedded=12_000, **done))
        assert "about 8 min to go" in figures(panel), "138,000 tokens at 300 a second"
        assert "32 of 1,000 texts" in figures(panel)


def test_a_page_that_ocr_reads_is_named_and_bytes_say_nothing_of_its_time(clock: Clock) -> None:
    panel = IndexPanel(Console(file=io.StringIO()), every_s=3600)
    said: list[IndexProgress] = []
    live = Live(said.append)
    with panel:
        for read in range(33):
            live.report(IndexProgress("recognize", 34, read=read, to_read=34, bytes_read=read * 10, bytes_to_read=400))
            panel.update(said[-1])
            clock.now += 2
        assert "for the other files" in figures(panel)
        live.tallied(0, 0, "recognizing page 37 of 96 of old.pdf")
        panel.update(said[-1])
        assert figures(panel) == "32 of 34 files, 29.1/min, recognizing page 37 of 96 of old.pdf"
        live.report(IndexProgress("recognize", 34, read=33, to_read=34, bytes_read=390, bytes_to_read=400))
        assert said[-1].page
        live.tallied(0, 0, "")
        panel.update(said[-1])
        assert "recognizing" not in figures(panel)


def test_counts_of_one_are_singular(clock: Clock) -> None:
    panel = IndexPanel(Console(file=io.StringIO()), every_s=3600)
    with panel:
        panel.update(IndexProgress("read", 1, chunks=1, read=1, to_read=1))
        assert figures(panel) == "1 of 1 file, 1 chunk"


@pytest.mark.parametrize(
    ("stages", "total", "said"),
    [
        ({"read": 7.44, "embed": 27.35}, 45.16, "45.2 (read 7.4, embed 27.4, other 10.4)"),
        ({"read": 1.0}, 1.0, "1.0 (read 1.0)"),
        ({"a": 2.0, "b": 2.0}, 3.0, "3.0 (a 2.0, b 2.0; some ran at the same time)"),
        ({}, 3.0, "3.0 (other 3.0)"),
        ({}, 0.0, "0.0"),
    ],
)
def test_seconds_add_up(stages: dict[str, float], total: float, said: str) -> None:
    assert seconds_by_stage(stages, total) == said


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_terminal_shows_fewer_figures_and_cuts_none(clock: Clock, width: int) -> None:
    panel = AnswerPanel(Console(file=io.StringIO(), width=width, force_terminal=True), 2000, every_s=3600)
    with panel:
        for done in range(0, 100, 10):
            panel.update(done, done * 1000, done * 0.01, 240.0)
            clock.now += 5
        said = figures(panel)
    parts = ["90 of 2,000", "2.0/s", "about 4 min to go", "$0.9000 + $19.1000 to come", "90,000 tokens"]
    assert all(part in said for part in parts[: {40: 1, 60: 1, 80: 1, 120: 5}[width]])
    assert ("about 4 min to go" in said) == (width >= 60)
    assert not said.endswith(("…", ","))
    assert len(said) <= width - len("questions") - 14
