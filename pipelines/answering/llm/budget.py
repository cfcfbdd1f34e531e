"""The hard cap in dollars: what is spent, what may have been spent, and what is promised never pass it together.

A question is *admitted* with a reserve for its plan. Each call then *reserves* its worst case, first from its own
question's reserve and then from what is free. Settling a call gives the rest back. A call of which nobody knows whether
it was billed stays held in full. Amounts are kept in whole picodollars (a token costs a whole number of them), so that
sums are exact and the cap is a cap.
"""

from __future__ import annotations

from dataclasses import dataclass

PICO = 1_000_000_000_000

CallKey = tuple[str, int]
"""``(call_id, attempt)``."""


def picodollars(usd: float) -> int:
    """Dollars as a whole number of picodollars."""
    return round(usd * PICO)


@dataclass(slots=True)
class _Open:
    query_id: str
    reserve: int
    drawn: int


class Budget:
    """``cap_usd`` None means no cap; the sums are kept all the same. Pure: no clock, no files, no waiting."""

    def __init__(self, cap_usd: float | None) -> None:
        self._cap = None if cap_usd is None else picodollars(cap_usd)
        self._settled = 0
        self._unknown: dict[CallKey, int] = {}
        self._unknown_total = 0
        self._calls: dict[CallKey, _Open] = {}
        self._questions: dict[str, int] = {}
        self._committed = 0

    @property
    def cap_usd(self) -> float | None:
        """The cap."""
        return None if self._cap is None else self._cap / PICO

    @property
    def settled_usd(self) -> float:
        """Dollars that the endpoint charged, as its replies' usage says."""
        return self._settled / PICO

    @property
    def unknown_usd(self) -> float:
        """Dollars held for calls of which nobody knows whether they were billed."""
        return self._unknown_total / PICO

    @property
    def reserved_usd(self) -> float:
        """Dollars promised to calls in flight and to admitted questions."""
        return self._committed / PICO

    @property
    def open_questions(self) -> set[str]:
        """Questions that are admitted and not closed."""
        return set(self._questions)

    @property
    def calls_in_flight(self) -> int:
        """Calls that are reserved and neither settled nor held as unknown."""
        return len(self._calls)

    def restore(self, settled_usd: float, unknown_usd: dict[CallKey, float]) -> None:
        """Start from what an earlier process spent and left unknown."""
        self._settled = picodollars(settled_usd)
        self._unknown = {key: picodollars(usd) for key, usd in unknown_usd.items()}
        self._unknown_total = sum(self._unknown.values())

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """Whether ``usd`` more would not fit even when all that others have reserved came back."""
        if self._cap is None:
            return False
        own = self._questions.get(query_id, 0)
        return self._settled + self._unknown_total + max(own, picodollars(usd)) > self._cap

    def admit(self, query_id: str, usd: float) -> bool:
        """Set ``usd`` aside for a question; False when it does not fit now. Again for the same question: at least it.

        A question that is posed again after its planner died is so not charged twice.
        """
        more = picodollars(usd) - self._questions.get(query_id, 0)
        if more > 0 and not self._fits(more):
            return False
        self._questions.setdefault(query_id, 0)
        if more > 0:
            self._questions[query_id] += more
            self._committed += more
        return True

    def reserve(self, key: CallKey, query_id: str, usd: float) -> bool:
        """Set the worst case of a call aside; False when it does not fit now. Twice for one key is once."""
        if key in self._calls:
            return True
        amount = picodollars(usd)
        drawn = min(amount, self._questions.get(query_id, 0))
        if not self._fits(amount - drawn):
            return False
        if drawn:
            self._questions[query_id] -= drawn
        self._committed += amount - drawn
        self._calls[key] = _Open(query_id, amount, drawn)
        return True

    def holds(self, key: CallKey) -> bool:
        """Whether a call is reserved, or held as unknown."""
        return key in self._calls or key in self._unknown

    def in_doubt(self, key: CallKey) -> bool:
        """Whether a call is held as unknown."""
        return key in self._unknown

    def calls_of(self, query_id: str) -> list[CallKey]:
        """The calls of a question that are reserved and neither settled nor held as unknown."""
        return [key for key, call in self._calls.items() if call.query_id == query_id]

    def settle(self, key: CallKey, cost_usd: float) -> None:
        """A call is over and cost ``cost_usd`` (0 for one that failed). Also for one held as unknown until now."""
        cost = picodollars(cost_usd)
        self._settled += cost
        if key in self._unknown:
            self._unknown_total -= self._unknown.pop(key)
            return
        call = self._calls.pop(key, None)
        if call is None:
            return
        self._committed -= call.reserve
        back = min(call.drawn, max(0, call.reserve - cost))
        if call.query_id in self._questions:
            self._questions[call.query_id] += back
            self._committed += back

    def hold_unknown(self, key: CallKey) -> None:
        """Nobody knows whether the call was billed: hold its whole reserve from now on."""
        call = self._calls.pop(key, None)
        if call is not None:
            self._committed -= call.reserve
            self._unknown[key] = call.reserve
            self._unknown_total += call.reserve

    def close(self, query_id: str) -> list[CallKey]:
        """A question is over: free what it had left. Calls of it still in flight become unknown and are returned."""
        self._committed -= self._questions.pop(query_id, 0)
        left = self.calls_of(query_id)
        for key in left:
            self.hold_unknown(key)
        return left

    def _fits(self, amount: int) -> bool:
        return self._cap is None or self._settled + self._unknown_total + self._committed + amount <= self._cap
