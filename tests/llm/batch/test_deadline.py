from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import BatchConfig, read_deadline

NOW = datetime(2026, 11, 22, 21, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("8h", timedelta(hours=8)),
        ("1h30m", timedelta(minutes=90)),
        ("45 m", timedelta(minutes=45)),
        ("1d", timedelta(days=1)),
        ("90s", timedelta(seconds=90)),
    ],
)
def test_a_time_from_now(text: str, after: timedelta) -> None:
    assert read_deadline(text, NOW) == NOW + after


def test_a_time_of_day_is_the_next_one_here() -> None:
    here = NOW.astimezone()
    for hour in range(24):
        found = read_deadline(f"{hour:02d}:00", NOW)
        assert NOW < found <= NOW + timedelta(hours=25)
        assert found.astimezone(here.tzinfo).hour == hour or here.utcoffset() != found.utcoffset()


def test_a_moment_is_here_or_in_its_own_zone() -> None:
    assert read_deadline("2026-11-23T06:00+01:00", NOW) == datetime(
        2026, 11, 23, 6, tzinfo=timezone(timedelta(hours=1))
    )
    assert read_deadline("2026-11-23T06:00", NOW) == datetime(2026, 11, 23, 6).astimezone()
    assert read_deadline("2026-11-20T06:00Z", NOW) < NOW, "a past one may be meant: the rest in real time"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets this machine's time zone."""

    def use(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield use
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("name", "now", "text", "expected"),
    [
        # Skipped: from 02:00 to 03:00.
        ("Europe/Berlin", "2026-03-29T01:59+01:00", "02:30", "2026-03-29T03:30+02:00"),
        ("Europe/Berlin", "2026-03-28T22:00+01:00", "02:30", "2026-03-29T03:30+02:00"),
        ("Europe/Berlin", "2026-03-29T03:00+02:00", "02:30", "2026-03-30T02:30+02:00"),
        ("Europe/Berlin", "2026-03-29T01:59+01:00", "03:00", "2026-03-29T03:00+02:00"),
        ("Europe/Berlin", "2026-03-28T02:30+01:00", "02:30", "2026-03-29T03:30+02:00"),
        # Shown twice: from 02:00 to 03:00.
        ("Europe/Berlin", "2026-10-25T01:59+02:00", "02:30", "2026-10-25T02:30+02:00"),
        ("Europe/Berlin", "2026-10-25T02:30+02:00", "02:30", "2026-10-25T02:30+01:00"),
        ("Europe/Berlin", "2026-10-25T02:45+01:00", "02:30", "2026-10-26T02:30+01:00"),
        ("Europe/Berlin", "2026-10-24T12:00+02:00", "06:00", "2026-10-25T06:00+01:00"),
        ("America/New_York", "2026-03-08T01:59-05:00", "02:30", "2026-03-08T03:30-04:00"),
        ("America/New_York", "2026-11-01T00:59-04:00", "01:30", "2026-11-01T01:30-04:00"),
        ("America/New_York", "2026-11-01T01:45-04:00", "01:30", "2026-11-01T01:30-05:00"),
        # By half an hour: skipped from 02:00 to 02:30, shown twice from 01:30 to 02:00.
        ("Australia/Lord_Howe", "2026-10-04T01:59+10:30", "02:15", "2026-10-04T02:45+11:00"),
        ("Australia/Lord_Howe", "2026-04-05T01:29+11:00", "01:45", "2026-04-05T01:45+11:00"),
        ("Australia/Lord_Howe", "2026-04-05T01:50+11:00", "01:45", "2026-04-05T01:45+10:30"),
        # At midnight.
        ("America/Santiago", "2026-09-05T23:59-04:00", "00:30", "2026-09-06T01:30-03:00"),
        # Moments, and zones of their own.
        ("Europe/Berlin", "2026-03-01T00:00+01:00", "2026-03-29T02:30", "2026-03-29T03:30+02:00"),
        ("Europe/Berlin", "2026-06-01T00:00+02:00", "2026-03-29T02:30", "2026-03-29T03:30+02:00"),
        ("Europe/Berlin", "2026-10-25T02:45+02:00", "2026-10-25T02:30", "2026-10-25T02:30+01:00"),
        ("Europe/Berlin", "2026-10-26T00:00+01:00", "2026-10-25T02:30", "2026-10-25T02:30+02:00"),
        ("Europe/Berlin", "2026-03-29T01:59+01:00", "02:30+05:00", "2026-03-30T02:30+05:00"),
        ("Europe/Berlin", "2026-03-29T01:59+01:00", "02:30Z", "2026-03-29T02:30+00:00"),
        ("Asia/Kolkata", "2026-11-22T21:30+00:00", "06:00", "2026-11-23T06:00+05:30"),
    ],
)
def test_clocks_change(zone: Callable[[str], None], name: str, now: str, text: str, expected: str) -> None:
    zone(name)
    found = read_deadline(text, datetime.fromisoformat(now).astimezone(UTC))
    assert found.isoformat(timespec="minutes") == expected


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00", "9999-12-31T23:59", "", "soon", "6", "25:00", "06:61", "2026-13-01T00:00", "8x", "-8h"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Give a time of day"):
        BatchConfig(deadline=text)
