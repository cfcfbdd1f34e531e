"""Chance that does not depend on the order of arrival: each draw comes from a seed and what is drawn for."""

from __future__ import annotations

import hashlib
import math
from statistics import NormalDist

from tests.fakes.endpoint.scenario import Latency


def draw(seed: int, *drawn_for: str | int) -> float:
    """A number in (0, 1), always the same for the same arguments."""
    digest = hashlib.sha256(repr((seed, *drawn_for)).encode()).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / 2**48


def draw_latency(latency: Latency, seed: int, *drawn_for: str | int) -> float:
    """Seconds, log-normal as ``latency`` says."""
    if latency.median_s == 0:
        return 0.0
    deviation = NormalDist().inv_cdf(draw(seed, "latency", *drawn_for))
    return min(latency.longest_s, latency.median_s * math.exp(latency.sigma * deviation))
