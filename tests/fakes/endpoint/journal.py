"""What came in, in order of arrival: one entry a request, and one for each request of a batch that was worked on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

from okralong.pipelines.core.types import Usage


def fingerprint(key: str) -> str:
    """What stands for a key where it is shown; the key itself never is."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


@dataclass
class Entry:
    """``at_s`` and ``admitted_s`` are seconds since the start, the latter None for what the quota did not let in.

    ``status`` is what the client was sent, 0 when nothing reached it, None while in flight. ``reserved_tokens`` is
    what the quota took. ``code`` is that of the error, ``fault`` the scripted one's kind.
    """

    number: int
    at_s: float
    where: str
    method: str
    path: str
    key: str = ""
    request_id: str = ""
    request_hash: str = ""
    custom_id: str = ""
    model: str = ""
    admitted_s: float | None = None
    reserved_tokens: int = 0
    status: int | None = None
    code: str = ""
    fault: str = ""
    usage: Usage = field(default_factory=Usage)
    billed_usd: Decimal | None = None
    took_s: float = 0.0

    @property
    def billed(self) -> bool:
        """Whether it was charged."""
        return self.billed_usd is not None

    def public(self) -> dict[str, Any]:
        """As JSON, with the tokens at the top and dollars as a string."""
        fields = asdict(self)
        usage = fields.pop("usage")
        usd = None if self.billed_usd is None else f"{self.billed_usd:f}"
        return {**fields, **usage, "billed": self.billed, "billed_usd": usd}


@dataclass
class Journal:
    """All entries, and how many chat requests are and were at most in flight at a time."""

    entries: list[Entry] = field(default_factory=list)
    in_flight: int = 0
    peak_in_flight: int = 0

    def open(self, at_s: float, where: str, method: str, path: str) -> Entry:
        """A new entry."""
        entry = Entry(len(self.entries) + 1, at_s, where, method, path)
        self.entries.append(entry)
        return entry

    def enter(self) -> None:
        """A chat request is in flight."""
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def leave(self) -> None:
        """It is over."""
        self.in_flight -= 1

    def counts(self) -> dict[str, Any]:
        """How many of what."""
        return {
            "requests": len(self.entries),
            "by_where": _counted([entry.where for entry in self.entries]),
            "by_status": _counted([str(entry.status) for entry in self.entries if entry.status is not None]),
            "by_fault": _counted([entry.fault for entry in self.entries if entry.fault]),
            "in_flight": self.in_flight,
            "peak_in_flight": self.peak_in_flight,
        }


def _counted(names: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))
