"""The hard cap of a run in dollars: pure logic, without clock, files or waiting."""

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
"""Assumed ratio of a call's cost to its reserve until the endpoint's way of counting is known. Its tokenizer may need
more tokens for the same text than the configured one (for some scripts, public tokenizers differ by a factor of two to
three), and some servers exceed the limit of a reply."""
ENOUGH_SEEN: Final = 16  # project default
"""Number of calls after which the observed costs show how the endpoint counts."""
FIRST_LINES: Final = 4  # project default
"""Number of calls that may wait for a batch before any reply has kept its limit, if the cap does not cover the longest
possible replies of all of them."""
LINES_PER_REPLY: Final = 64  # project default
"""Number of further calls that may wait for a batch per reply that kept its limit. It is large because a batch may take
a day."""


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
    question's reserve and then from what is free. Settling a call releases the rest of its reserve. If it is unknown
    whether a call was billed, its reserve stays held in full.

    *Miscounted tokens.* A reserve depends on our own count of tokens, and the endpoint may count more. So a call may
    join others in flight only if all of them together stay under the cap at a multiple of their reserves. The multiple
    is ``WORST`` until ``ENOUGH_SEEN`` calls have cost something; then it is twice the largest ratio of a call's cost to
    its reserve so far, but at least 1. Near the cap, therefore, few calls are in flight, and in the end one. As long as
    no call costs more than that multiple, the cap is exceeded at most by the amount that one call costs beyond its
    reserve.

    *Batches.* The rule on miscounted tokens does not apply to calls that wait for a batch, since it would divide the
    batch, and each part could take a day. Instead, unless the cap covers the longest possible replies of all of them,
    their number is limited to ``FIRST_LINES`` plus ``LINES_PER_REPLY`` for each reply that kept its limit.

    *Ignored limits.* An endpoint may ignore the limit of a reply, or add thought or a system prompt that it does not
    show. If all calls in flight stay under the cap even if each fills the window, any number may be sent. Otherwise the
    number of calls in flight may not exceed the number of replies that kept their limits by more than one. After a
    reply that ignored its limit, or cost more than ``WORST`` times its reserve, calls wait until all those in flight
    have ended. From then on, each call must fit the cap at the largest ratio of cost to reserve of such replies, and a
    reply within that ratio counts as one that kept its limit. So the cap is exceeded at most by the amounts that the
    replies in flight at the first ignored limit cost beyond their reserves, and that a later reply costs beyond the
    longest one before it.
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

    def set_cap(self, cap_usd: float | None) -> None:
        """Change the cap for calls that are reserved from now on."""
        self._cap = None if cap_usd is None else picodollars(cap_usd)

    @property
    def settled_usd(self) -> float:
        """Dollars that the endpoint charged, by the usage in its replies."""
        return self._settled / PICO

    @property
    def unknown_usd(self) -> float:
        """Dollars held for calls of which it is unknown whether they were billed."""
        return self._unknown_total / PICO

    @property
    def reserved_usd(self) -> float:
        """Dollars promised to calls in flight and to admitted questions."""
        return self._committed / PICO

    @property
    def open_questions(self) -> set[str]:
        """The admitted questions that are not closed."""
        return set(self._questions)

    @property
    def calls_in_flight(self) -> int:
        """The number of reserved calls that are neither settled nor held as unknown."""
        return len(self._calls)

    def hold(self, key: CallKey, query_id: str, usd: float) -> None:
        """Hold ``usd`` that may have been billed in addition to a reply."""
        self._unknown[key] = picodollars(usd)
        self._unknown_total += self._unknown[key]

    def restore(self, settled_usd: float, unknown_usd: dict[CallKey, float]) -> None:
        """Add the amounts that an earlier process spent, and those whose billing it left unknown."""
        self._settled += picodollars(settled_usd)
        self._unknown |= {key: picodollars(usd) for key, usd in unknown_usd.items()}
        self._unknown_total = sum(self._unknown.values())

    def hopeless(self, usd: float, query_id: str = "") -> bool:
        """Return whether ``usd`` more dollars would not fit even if all other reserves were released."""
        if self._cap is None:
            return False
        own = self._questions.get(query_id, 0)
        return self._settled + self._unknown_total + max(own, self._with_overlength(picodollars(usd))) > self._cap

    def stuck(self, query_id: str, usd: float, waiting: set[str]) -> bool:
        """Return whether ``waiting`` questions wait in vain: no other question or call may release a reserve."""
        return self.open_questions <= waiting and not self.calls_in_flight

    def refusal(self, query_id: str, usd: float) -> str:
        """Return the message for a question that needs ``usd`` more dollars than there are."""
        return (
            f"Question {query_id} needs up to ${usd:.6f} more, which would pass budget_usd = {self.cap_usd}: "
            f"${self.settled_usd:.6f} are spent, ${self.unknown_usd:.6f} are held for calls that may have been "
            f"billed, ${self.reserved_usd:.6f} are reserved. Everything finished is kept. Raise budget_usd and run "
            "the same command again."
        )

    def lacks(self, usd: float) -> bool:
        """Return whether ``usd`` more dollars do not fit now."""
        return not self._fits(self._with_overlength(picodollars(usd)))

    def may_admit(self, query_id: str, usd: float) -> bool:
        """Return whether ``admit`` would succeed now."""
        more = picodollars(usd) - self._questions.get(query_id, 0)
        return more <= 0 or self._fits(more)

    def admit(self, query_id: str, usd: float) -> bool:
        """Reserve ``usd`` for a question; return False if it does not fit now.

        If the question is admitted again (after its planner died), its reserve is only raised to ``usd``.
        """
        if not self.may_admit(query_id, usd):
            return False
        more = picodollars(usd) - self._questions.setdefault(query_id, 0)
        if more > 0:
            self._questions[query_id] += more
            self._committed += more
        return True

    def may_reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """Return whether ``reserve`` would succeed now."""
        if key in self._calls:
            return True
        amount, most = picodollars(usd), picodollars(most_usd)
        held = self._with_overlength(amount)
        if not self._fits(held - min(held, self._questions.get(query_id, 0))):
            return False
        return self._safe_in_batch(most) if waits else self._safe_beside_others(amount, most)

    def reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """Reserve the worst case of a call; return False if it does not fit now.

        Reserving a key again is a no-op. ``waits`` is true for calls that wait for a batch. ``most_usd`` is the highest
        cost if the endpoint ignores the limit of the reply; with 0, that check is skipped.
        """
        if not self.may_reserve(key, query_id, usd, waits, most_usd):
            return False
        if key in self._calls:
            return True
        amount, most = picodollars(usd), picodollars(most_usd)
        held = self._with_overlength(amount)
        drawn = min(held, self._questions.get(query_id, 0))
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
        """Return whether the rule on batches lets another call wait for a batch."""
        if self._cap is None or self._lines < max(FIRST_LINES, LINES_PER_REPLY * self._limits_kept):
            return True
        spent = self._settled + self._unknown_total
        return most > 0 and spent + self._most_in_flight + self._most_in_batches + most <= self._cap

    def _safe_beside_others(self, amount: int, most: int) -> bool:
        """Return whether the rules on miscounted tokens and ignored limits let a call join those in flight."""
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
        """Return the cost of a call if its reply exceeds its limit by as much as the longest reply so far."""
        return math.ceil(amount * self._overlong_share) if self._overlong_share > 1 else amount

    def may_go(self, key: CallKey) -> bool:
        """Return whether a reserved call may still be sent: whether no reply has ignored its limit since."""
        call = self._calls.get(key)
        return self._cap is None or call is None or call.overlong_seen == self._overlong_seen

    def holds(self, key: CallKey) -> bool:
        """Return whether a call is reserved or held as unknown."""
        return key in self._calls or key in self._unknown

    def held_usd(self, key: CallKey) -> float:
        """Return the US dollars that are held for a call in flight or of unknown outcome; 0 for others."""
        call = self._calls.get(key)
        return (self._unknown.get(key, 0) if call is None else call.held) / PICO

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
            self._learn(cost, held, held, overlong)
            return
        call = self._taken(key)
        if call is None:
            return
        self._learn(cost, call.reserve, call.held, overlong)
        self._committed -= call.held
        back = min(call.drawn, max(0, call.held - cost))
        if call.query_id in self._questions:
            self._questions[call.query_id] += back
            self._committed += back

    def _learn(self, cost: int, reserve: int, held: int, overlong: bool) -> None:
        """Record the ratio of a reply's cost to its reserve, and whether the reply kept to what was held for it."""
        if not cost or not reserve:
            return
        self._seen += 1
        share = cost / reserve
        self._largest_share = max(self._largest_share, share)
        if cost <= held or not (overlong or share > WORST):
            self._limits_kept += 1
            return
        self._limits_kept = 0
        self._overlong_seen += 1
        self._overlong_share = max(self._overlong_share, share)

    def hold_unknown(self, key: CallKey, least_usd: float = 0.0) -> None:
        """Hold the whole reserve of a call, or ``least_usd`` if that is more: it is unknown whether it was billed."""
        call = self._taken(key)
        if call is not None:
            least = picodollars(least_usd)
            self._committed -= call.held
            self._unknown[key] = max(call.held, least)
            self._unknown_total += self._unknown[key]
            if least > call.held:
                self._learn(least, call.reserve, call.held, overlong=False)

    def unseen_usd(self, key: CallKey, cost_usd: float) -> float:
        """Return what a reply that told no usage can have cost beyond ``cost_usd``, by those that did.

        This is 0 until a reply was longer, or cost more, than it shows.
        """
        call = self._calls.get(key)
        if call is None or self._overlong_share <= 1:
            return 0.0
        return max(0, max(call.held, self._with_overlength(call.reserve)) - picodollars(cost_usd)) / PICO

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
