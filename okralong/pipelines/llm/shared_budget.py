"""A budget that several spenders share: one hard cap for all, and another for each.

A service's day is a run, and its tokens are the spenders. A call is sent only if it fits both caps, so that a spender's
limit holds before a call is sent, as the cap of a run does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from okralong.pipelines.llm.budget import Budget
from okralong.pipelines.llm.records import USED, CallKey


@dataclass(frozen=True, slots=True)
class Share:
    """What a spender has: US dollars spent or perhaps billed, reserved, and the cap (None: only that of all)."""

    spent_usd: float
    reserved_usd: float
    cap_usd: float | None

    @property
    def left_usd(self) -> float | None:
        """US dollars left for new calls, or None without a cap."""
        return None if self.cap_usd is None else max(0.0, self.cap_usd - self.spent_usd - self.reserved_usd)


class SharedBudget(Budget):
    """The cap of a run, and below it the caps of its spenders.

    ``spender`` maps a query_id to the name of its spender, and ``cap_of`` a name to its cap, or None. Questions of ""
    (artifacts of documents, which all share) count against the common cap only.
    """

    def __init__(
        self, cap_usd: float | None, cap_of: Callable[[str], float | None], spender: Callable[[str], str]
    ) -> None:
        super().__init__(cap_usd)
        self._cap_of, self._spender = cap_of, spender
        self._by_spender: dict[str, Budget] = {}
        self._spender_of: dict[CallKey, str] = {}

    def of(self, name: str) -> Budget:
        """Return the budget of a spender. A cap that was changed since its last question applies from now on."""
        cap_usd = self._cap_of(name) if name else None
        own = self._by_spender.setdefault(name, Budget(cap_usd))
        own.set_cap(cap_usd)
        return own

    def share(self, name: str) -> Share:
        """Return what a spender has spent and reserved."""
        own = self.of(name)
        return Share(own.settled_usd + own.unknown_usd, own.reserved_usd, own.cap_usd)

    @property
    def spenders(self) -> list[str]:
        """The names of those that have spent or reserved something, sorted."""
        return sorted(filter(None, list(self._by_spender)))  # a copy: another thread may add one

    def restore_shares(self, ledger: Iterable[Mapping[str, Any]], *, reopened: bool = True) -> None:
        """Restore what each spender has spent, given rows of a ledger.

        ``reopened``: the rows are those of the run itself, whose unknown calls may still be settled. False for another
        run of the same day.
        """
        settled: dict[str, float] = {}
        unknown: dict[str, dict[CallKey, float]] = {}
        for row in ledger:
            name, key = self._spender(row["query_id"]), (row["call_id"], row["attempt"])
            if row["status"] == "unknown" and reopened:
                unknown.setdefault(name, {})[key] = row["cost_usd"]
                self._spender_of[key] = name
            elif row["status"] in USED or row["status"] == "unknown":
                settled[name] = settled.get(name, 0.0) + row["cost_usd"]
        for name in settled.keys() | unknown.keys():
            self.of(name).restore(settled.get(name, 0.0), unknown.get(name, {}))

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """See ``Budget``."""
        return super().hopeless(usd, query_id) or self._own(query_id).hopeless(usd, query_id)

    def stuck(self, query_id: str, usd: float, waiting: set[str]) -> bool:
        """See ``Budget``."""
        own = self._own(query_id)
        return super().stuck(query_id, usd, waiting) or (own.lacks(usd) and own.stuck(query_id, usd, waiting))

    def refusal(self, query_id: str, usd: float) -> str:
        """See ``Budget``."""
        own, name = self._own(query_id), self._spender(query_id)
        if own.cap_usd is None or not own.lacks(usd):
            return f"{super().refusal(query_id, usd).partition(' Everything finished')[0]} Ask again tomorrow (UTC)."
        return (
            f"The question needs up to ${usd:.6f} more, which would pass the daily budget of {name!r}, "
            f"${own.cap_usd:.6f}: ${own.settled_usd + own.unknown_usd:.6f} are spent or may have been billed, "
            f"${own.reserved_usd:.6f} are reserved. Ask again tomorrow (UTC), or have the budget raised."
        )

    def admit(self, query_id: str, usd: float) -> bool:
        """See ``Budget``."""
        own = self._own(query_id)
        return own.may_admit(query_id, usd) and super().admit(query_id, usd) and own.admit(query_id, usd)

    def reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """See ``Budget``."""
        own, call = self._own(query_id), (key, query_id, usd, waits, most_usd)
        if not (own.may_reserve(*call) and super().reserve(*call)):
            return False
        self._spender_of[key] = self._spender(query_id)
        return own.reserve(*call)

    def settle(self, key: CallKey, cost_usd: float, *, overlong: bool = False) -> None:
        """See ``Budget``."""
        super().settle(key, cost_usd, overlong=overlong)
        if (name := self._spender_of.pop(key, None)) is not None:
            self.of(name).settle(key, cost_usd, overlong=overlong)

    def hold_unknown(self, key: CallKey, least_usd: float = 0.0) -> None:
        """See ``Budget``."""
        super().hold_unknown(key, least_usd)
        if (name := self._spender_of.get(key)) is not None:
            self.of(name).hold_unknown(key, least_usd)

    def hold(self, key: CallKey, query_id: str, usd: float) -> None:
        """See ``Budget``."""
        super().hold(key, query_id, usd)
        self._own(query_id).hold(key, query_id, usd)

    def close(self, query_id: str) -> list[CallKey]:
        """See ``Budget``."""
        left = super().close(query_id)  # holds the calls in flight of the spender, too
        self._own(query_id).close(query_id)
        return left

    def _own(self, query_id: str) -> Budget:
        return self.of(self._spender(query_id))
