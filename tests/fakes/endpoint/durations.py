"""Durations as OpenAI's ``x-ratelimit-reset-*`` headers write them: "6ms", "1.2s", "1m2.3s", "6m0s"."""

from __future__ import annotations

import math


def format_duration(seconds: float) -> str:
    """``seconds``, rounded up to a millisecond, in the form of Go's durations."""
    total_ms = math.ceil(seconds * 1000 - 1e-6)
    if total_ms <= 0:
        return "0s"
    if total_ms < 1000:
        return f"{total_ms}ms"
    minutes, rest_ms = divmod(total_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    rest = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{rest}"
    return f"{minutes}m{rest}" if minutes else rest
