"""When patience ends: a time of day, a moment, or a time from now, read into one moment."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta

from okralong.pipelines.core.types import ConfigError

_FROM_NOW = re.compile(r"(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m)?\s*(?:(\d+)\s*s)?")


def read_deadline(text: str, now: datetime) -> datetime:
    """The moment that ``text`` names, seen from ``now`` (with a time zone).

    "06:00" is the next six o'clock of this machine, "2026-11-23T06:00" that moment here (or in the zone that it names),
    "8h" and "1h30m" are from now. Raises ConfigError for anything else.
    """
    text = text.strip()
    span = _FROM_NOW.fullmatch(text)
    if span is not None and any(span.groups()):
        days, hours, minutes, seconds = (int(part or 0) for part in span.groups())
        return now + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    here = now.astimezone()
    try:
        if ":" in text and "-" not in text:
            day = time.fromisoformat(text)
            # Naive and back again, so that a change of the clocks in between is that of this machine.
            today = datetime.combine(here.date(), day.replace(tzinfo=None)).astimezone(day.tzinfo)
            later = datetime.combine(here.date() + timedelta(days=1), day.replace(tzinfo=None))
            return today if today > now else later.astimezone(day.tzinfo)
        if "T" in text or ":" in text:
            moment = datetime.fromisoformat(text)
            return moment.astimezone() if moment.tzinfo is None else moment
    except ValueError:
        pass
    raise ConfigError(
        f"The deadline {text!r} cannot be read. Give a time of day (06:00), a moment (2026-11-23T06:00, with +01:00 at "
        "its end for another zone than this machine's), or a time from now (8h, 1h30m, 45m)."
    )
