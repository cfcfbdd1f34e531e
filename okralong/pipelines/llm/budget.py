"""The hard cap of a run in dollars. Pure: no clock, no files, no waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.llm.records import CallKey

PICO = 1_000_000_000_000
"""Picodollars in a dollar. A token costs a whole number of them, so sums are exact and the cap is strict."""


def picodollars(usd: float) -> int:
    """Return dollars as a whole number of picodollars."""
    return round(usd * PICO)


WORST: Final = 4  # project default
"""Assumed ratio of a call's cost to its reserve until the endpoint's way of counting is known. Its tokenizer
may need more tokens for the same text than the configured one (between public tokenizers two to three times as many for
some scripts), and some servers exceed the limit of a reply."""
ENOUGH_SEEN: Final = 16  # project default
"""Calls after which the observed costs show how the endpoint counts."""
FIRST_LINES: Final = 4  # project default
"""Calls that may wait for a batch before any reply has kept its limit, if the cap would not cover the longest replies
of all."""
LINES_PER_REPLY: Final = 64  # project default
"""Further calls that may wait for a batch per reply that kept its limit. As a batch may take a day, the second one may
be large."""


@dataclass(slots=True)
class _Open:
    query_id: str
    reserve: int
    held: int
    drawn: int
    waits: bool
    most: int
    overlong_seen: int


class Budget:
    """The hard cap: spent, possibly spent and reserved dollars together never exceed ``cap_usd`` (None: no cap).

    A question is *admitted* with a reserve for its plan. Each call then *reserves* its worst case, first from its
    question's reserve and then from what is free. Settling a call releases the rest. A call that may or may not have
    been billed stays held in full.

    *Miscounted tokens.* A reserve rests on our own count of tokens, and the endpoint may count more. So a call joins
    others in flight only if all of them would stay under the cap at a multiple of their reserves: ``WORST`` until
    ``ENOUGH_SEEN`` calls have cost something, then twice the largest share of its reserve that a call has cost, but at
    least 1. Near the cap few calls are therefore in flight, in the end one. As long as no call costs more than that
    multiple, the cap is exceeded at most by what one call costs beyond its reserve.

    *Batches.* Calls that wait for a batch are exempt, since each part of a divided batch could take a day. Their number
    is limited instead: to ``FIRST_LINES``, plus ``LINES_PER_REPLY`` for each reply that kept its limit, unless the cap
    covers the longest replies of all of them.

    *Ignored limits.* An endpoint may ignore the limit of a reply. If all calls in flight would stay under the cap even
    then, any number may be sent. Otherwise a call may join as many others as replies have kept their limits. After a
    reply that ignored its limit, calls wait until all those in flight are over, and from then on each must fit the cap
    with the share of its reserve that the longest reply has cost. So the cap is exceeded at most by what the replies in
    flight at the first ignored limit cost beyond their reserves, and by what a later reply costs beyond the longest one
    so far.
    """

    def __init__(self, cap_usd: float | None) -> None:
        self._cap = None if cap_usd is None else picodollars(cap_usd)
        self._settled = 0
        self._unknown: dict[CallKey, int] = {}
        self._unknown_total = 0
        self._calls: dict[CallKey, _Open] = {}
        self._questions: dict[str, int] = {}
        self._committed = 0
        self._in_flight = 0
        self._seen = 0
        self._largest_share = 0.0
        self._count_in_flight = 0
        self._most_in_flight = 0
        self._limits_kept = 0
        self._overlong_share = 1.0
        self._overlong_seen = 0
        self._lines = 0
        self._most_in_batches = 0

    @property
    def cap_usd(self) -> float | None:
        """The cap in dollars."""
        return None if self._cap is None else self._cap / PICO

    @property
    def settled_usd(self) -> float:
        """Dollars that the endpoint charged, by the usage in its replies."""
        return self._settled / PICO

    @property
    def unknown_usd(self) -> float:
        """Dollars held for calls that may have been billed."""
        return self._unknown_total / PICO

    @property
    def reserved_usd(self) -> float:
        """Dollars promised to calls in flight and to admitted questions."""
        return self._committed / PICO

    @property
    def open_questions(self) -> set[str]:
        """Admitted questions that are not closed."""
        return set(self._questions)

    @property
    def calls_in_flight(self) -> int:
        """Reserved calls that are neither settled nor held as unknown."""
        return len(self._calls)

    def restore(self, settled_usd: float, unknown_usd: dict[CallKey, float]) -> None:
        """Restore the amounts that an earlier process spent and left unknown."""
        self._settled = picodollars(settled_usd)
        self._unknown = {key: picodollars(usd) for key, usd in unknown_usd.items()}
        self._unknown_total = sum(self._unknown.values())

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """Return whether ``usd`` more would not fit even if all other reserves were released."""
        if self._cap is None:
            return False
        own = self._questions.get(query_id, 0)
        return self._settled + self._unknown_total + max(own, self._with_overlength(picodollars(usd))) > self._cap

    def lacks(self, usd: float) -> bool:
        """Return whether ``usd`` more does not fit at present."""
        return not self._fits(self._with_overlength(picodollars(usd)))

    def admit(self, query_id: str, usd: float) -> bool:
        """Reserve ``usd`` for a question; return False if it does not fit now.

        Admitting a question again (after its planner died) only raises its reserve to ``usd``.
        """
        more = picodollars(usd) - self._questions.get(query_id, 0)
        if more > 0 and not self._fits(more):
            return False
        self._questions.setdefault(query_id, 0)
        if more > 0:
            self._questions[query_id] += more
            self._committed += more
        return True

    def reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """Reserve the worst case of a call; return False if it does not fit now.

        Reserving a key again is a no-op. ``waits`` is for calls that wait for a batch. ``most_usd`` is the highest cost
        if the limit of the reply is ignored; 0 skips that check.
        """
        if key in self._calls:
            return True
        amount = picodollars(usd)
        most = picodollars(most_usd)
        held = self._with_overlength(amount)
        drawn = min(held, self._questions.get(query_id, 0))
        if not self._fits(held - drawn):
            return False
        if not (self._safe_in_batch(most) if waits else self._safe_beside_others(amount, most)):
            return False
        if waits:
            self._lines += 1
            self._most_in_batches += most
        else:
            self._in_flight += amount
            self._count_in_flight += 1
            self._most_in_flight += most
        if drawn:
            self._questions[query_id] -= drawn
        self._committed += held - drawn
        self._calls[key] = _Open(query_id, amount, held, drawn, waits, most, self._overlong_seen)
        return True

    def _safe_in_batch(self, most: int) -> bool:
        """Return whether another call may wait for a batch, in case the endpoint ignores reply limits."""
        if self._cap is None or self._lines < max(FIRST_LINES, LINES_PER_REPLY * self._limits_kept):
            return True
        spent = self._settled + self._unknown_total
        return most > 0 and spent + self._most_in_flight + self._most_in_batches + most <= self._cap

    def _safe_beside_others(self, amount: int, most: int) -> bool:
        """Return whether a call may join those in flight, in case the endpoint counts more or ignores reply limits."""
        if self._cap is None or self._count_in_flight == 0 or not amount:
            return True
        spent = self._settled + self._unknown_total
        times = WORST if self._seen < ENOUGH_SEEN else max(1.0, 2 * self._largest_share)
        if spent + times * (self._in_flight + amount) > self._cap:
            return False
        if not most or self._count_in_flight <= self._limits_kept:
            return True
        return spent + self._most_in_flight + most <= self._cap

    def _with_overlength(self, amount: int) -> int:
        """Return the cost of a call that exceeds its limit by as much as the longest reply did."""
        return math.ceil(amount * self._overlong_share) if self._overlong_share > 1 else amount

    def may_go(self, key: CallKey) -> bool:
        """Return whether a reserved call may still be sent, i.e. no reply has ignored its limit since."""
        call = self._calls.get(key)
        return self._cap is None or call is None or call.overlong_seen == self._overlong_seen

    def holds(self, key: CallKey) -> bool:
        """Return whether a call is reserved or held as unknown."""
        return key in self._calls or key in self._unknown

    def in_doubt(self, key: CallKey) -> bool:
        """Return whether a call is held as unknown."""
        return key in self._unknown

    def calls_of(self, query_id: str) -> list[CallKey]:
        """Return a question's reserved calls that are neither settled nor held as unknown."""
        return [key for key, call in self._calls.items() if call.query_id == query_id]

    def settle(self, key: CallKey, cost_usd: float, *, overlong: bool = False) -> None:
        """Charge a finished call, reserved or held as unknown, and release the rest of its reserve.

        ``cost_usd`` is 0 for a failed call; ``overlong`` means that the endpoint ignored the limit of its reply.
        """
        cost = picodollars(cost_usd)
        self._settled += cost
        if key in self._unknown:
            held = self._unknown.pop(key)
            self._unknown_total -= held
            self._learn(cost, held, overlong)
            return
        call = self._taken(key)
        if call is None:
            return
        self._learn(cost, call.reserve, overlong)
        self._committed -= call.held
        back = min(call.drawn, max(0, call.held - cost))
        if call.query_id in self._questions:
            self._questions[call.query_id] += back
            self._committed += back

    def _learn(self, cost: int, reserve: int, overlong: bool) -> None:
        """Record what share of its reserve a reply cost, and whether it kept its limit."""
        if not cost or not reserve:
            return
        self._seen += 1
        share = cost / reserve
        self._largest_share = max(self._largest_share, share)
        self._limits_kept = 0 if overlong else self._limits_kept + 1
        if overlong:
            self._overlong_seen += 1
            self._overlong_share = max(self._overlong_share, share)

    def hold_unknown(self, key: CallKey) -> None:
        """Hold the whole reserve of a call that may have been billed."""
        call = self._taken(key)
        if call is not None:
            self._committed -= call.held
            self._unknown[key] = call.held
            self._unknown_total += call.held

    def close(self, query_id: str) -> list[CallKey]:
        """Release the rest of a question's reserve; its calls in flight become unknown and are returned."""
        self._committed -= self._questions.pop(query_id, 0)
        left = self.calls_of(query_id)
        for key in left:
            self.hold_unknown(key)
        return left

    def _taken(self, key: CallKey) -> _Open | None:
        call = self._calls.pop(key, None)
        if call is not None and call.waits:
            self._lines -= 1
            self._most_in_batches -= call.most
        elif call is not None:
            self._in_flight -= call.reserve
            self._count_in_flight -= 1
            self._most_in_flight -= call.most
        return call

    def _fits(self, amount: int) -> bool:
        return self._cap is None or self._settled + self._unknown_total + self._committed + amount <= self._cap
