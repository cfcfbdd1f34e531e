from __future__ import annotations

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


@pytest.mark.parametrize("text", ["", "soon", "6", "25:00", "06:61", "2026-13-01T00:00", "8x", "-8h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="Give a time of day"):
        BatchConfig(deadline=text)
