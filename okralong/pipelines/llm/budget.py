"""The hard cap of a run in dollars. Pure: no clock, no files, no waiting."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.llm.records import CallKey

PICO = 1_000_000_000_000
"""Of a dollar. A token costs a whole number of picodollars, so that sums are exact and the cap is a cap."""


def picodollars(usd: float) -> int:
    """Dollars as a whole number of picodollars."""
    return round(usd * PICO)


WORST: Final = 4
"""How many times its reserve a call is taken to cost while nobody knows how the endpoint counts: its tokenizer may need
more tokens than ours for the same text, and some servers write longer replies than they are asked for. Ours; text of
other scripts takes two to three times as many tokens with one public tokenizer as with another."""
ENOUGH_SEEN: Final = 16
"""Calls after which the costs that were seen say how the endpoint counts; ours."""
FIRST_LINES: Final = 4
"""Calls that may wait for a batch while no reply has kept its limit yet, where the cap could not bear the longest
replies of all of them. # project default"""
LINES_PER_REPLY: Final = 64
"""Calls that may wait for a batch for each reply that has kept its limit: a batch may take a day, so the second one may
be large. # project default"""


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
    """The hard cap: what is spent, what may have been spent, and what is reserved never pass ``cap_usd`` together.

    A question is *admitted* with a reserve for its plan. Each call then *reserves* its worst case, first from its own
    question's reserve and then from what is free. Settling a call gives the rest back. A call of which nobody knows
    whether it was billed stays held in full. ``cap_usd`` None means no cap; the sums are kept all the same. Pure: no
    clock, no files, no waiting.

    A reserve is our own count of tokens, and the endpoint may count more. So beside a call in flight another one goes
    only where all of them together would stay under the cap at several times their reserves: ``WORST`` times until
    ``ENOUGH_SEEN`` calls have cost something, then twice the largest share of its reserve that one has cost, and once
    at least. Near the cap few are in flight therefore, at the end one, and the cap is passed by what one call costs
    beyond its reserve at most, as long as no call costs more than that many times its own. Calls that wait for a batch
    are left out of it: a batch in parts would take a day for each.

    For these there is a bound of their number instead, which grows with the replies that have kept their limits
    (``FIRST_LINES``, ``LINES_PER_REPLY``), unless the cap bears the longest replies of all of them.

    An endpoint may also ignore the limit of a reply. Where all calls in flight would stay under the cap even then, any
    number goes. Else one goes beside so many others as replies have kept their limits, and after one that has not,
    none before all of those in flight are over; from then on each call has to fit with the share of its reserve that
    the longest reply has cost. So the cap is passed at most by what the replies in flight at the first that ignored
    its limit cost beyond their reserves, and by what a later one costs beyond the longest until then.
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
        return self._settled + self._unknown_total + max(own, self._with_overlength(picodollars(usd))) > self._cap

    def lacks(self, usd: float) -> bool:
        """Return whether there is no room for ``usd`` more now."""
        return not self._fits(self._with_overlength(picodollars(usd)))

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

    def reserve(self, key: CallKey, query_id: str, usd: float, waits: bool = False, most_usd: float = 0.0) -> bool:
        """Set the worst case of a call aside; False when it does not fit now. Twice for one key is once. ``waits``: it
        goes with a batch. ``most_usd`` is what it costs at most where its limit is ignored; 0 leaves that out.
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
        """Whether a call may wait for a batch beside the others, should the endpoint ignore the limit of its reply."""
        if self._cap is None or self._lines < max(FIRST_LINES, LINES_PER_REPLY * self._limits_kept):
            return True
        spent = self._settled + self._unknown_total
        return most > 0 and spent + self._most_in_flight + self._most_in_batches + most <= self._cap

    def _safe_beside_others(self, amount: int, most: int) -> bool:
        """Whether a call may go beside those in flight, should the endpoint count more than we do or write more than
        it was asked for.
        """
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
        """What a call costs that is as much longer than its limit as the longest reply was."""
        return math.ceil(amount * self._overlong_share) if self._overlong_share > 1 else amount

    def may_go(self, key: CallKey) -> bool:
        """Whether a call that is reserved may still be sent: not where a reply has ignored its limit since then."""
        call = self._calls.get(key)
        return self._cap is None or call is None or call.overlong_seen == self._overlong_seen

    def holds(self, key: CallKey) -> bool:
        """Whether a call is reserved, or held as unknown."""
        return key in self._calls or key in self._unknown

    def in_doubt(self, key: CallKey) -> bool:
        """Whether a call is held as unknown."""
        return key in self._unknown

    def calls_of(self, query_id: str) -> list[CallKey]:
        """The calls of a question that are reserved and neither settled nor held as unknown."""
        return [key for key, call in self._calls.items() if call.query_id == query_id]

    def settle(self, key: CallKey, cost_usd: float, *, overlong: bool = False) -> None:
        """A call is over and cost ``cost_usd`` (0 for one that failed). Also for one held as unknown until now.
        ``overlong``: the endpoint ignored the limit of its reply.
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
        """See by a reply what share of its reserve it has cost, and whether it has kept its limit."""
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
        """Nobody knows whether the call was billed: hold its whole reserve from now on."""
        call = self._taken(key)
        if call is not None:
            self._committed -= call.held
            self._unknown[key] = call.held
            self._unknown_total += call.held

    def close(self, query_id: str) -> list[CallKey]:
        """A question is over: free what it had left. Calls of it still in flight become unknown and are returned."""
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
