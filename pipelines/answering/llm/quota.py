"""One limit per minute: what was admitted in the last one, what others used of it, and when the next amount fits.

No clock of its own: every ``now`` is in seconds of one clock that never goes back. Admissions of the same tenth of a
second are kept as one number, so that a minute is at most 610 of them, however many requests it holds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from okralong.pipelines.answering.llm.quota_headers import Allowance

MINUTE_S = 60.0
WINDOW_S = 61.0
"""A minute and a second: requests admitted in order may arrive a little closer together. Ours."""
SLOT_S = 0.1
"""Admissions of this many seconds are counted together, and leave the window with the first of them. Ours."""
LAG_S = 1.0
"""A request reaches the server about so long after it was admitted, at most: its intent is written in between. Ours."""
SLICE_S = 1.0
"""Servers enforce a minute's limit in slices: OpenAI's guide names 60,000 a minute as 1,000 a second."""
LONG_SLACK = 0.02
"""What takes a whole slice or more waits this part of its time beyond the moment at which the slice is full again,
since requests do not all take the same time from their leave to the server. Ours."""
OTHERS_GO_ON = 0.03
"""Part of the limit that is left free for others beside what they used until now, once there are any. Ours."""
RESET_SLACK_S = 1.0
"""How much longer than the server's word what others used is counted. Ours."""


@dataclass(slots=True)
class _Slot:
    number: int
    amount: int

    @property
    def start(self) -> float:
        return self.number * SLOT_S


class Quota:
    """Requests per minute, or tokens per minute. ``limit`` is the config's, None where it names none.

    Three rules hold together. *Window*: what was admitted in any minute never passes the limit, which is the smaller of
    the config's and the server's. *Others*: what was admitted here and what others used of the account never pass the
    server's limit together. *Pace*: admissions are spread evenly over the minute, as a server that enforces it in
    slices of a second has to see them: after a pause at most half a slice goes out at once, and what takes a slice by
    itself waits until all that went before it is paid off.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._own = math.inf if limit is None else float(limit)
        self._server = math.inf
        self._window: deque[_Slot] = deque()
        self._past: deque[_Slot] = deque()  # has left the window; a slow reply may still be held against it
        self._total = 0
        self._paid_at = -math.inf  # when the server's slice is full again, if nothing more is admitted
        self._others = 0
        self._others_until = -math.inf
        self._ceiling = math.inf  # what those others and we have together
        self._heard_of = -math.inf
        self._largest_taken = 0

    @property
    def limit(self) -> float:
        """What a minute may hold; infinite where neither the config nor the server has named a limit."""
        return min(self._own, self._server)

    @property
    def named_by_server(self) -> bool:
        """Whether the limit that holds is the server's and not the config's."""
        return self._server < self._own

    def relimit(self, now: float, limit: int | None) -> None:
        """The config's limit from now on."""
        self._change(now, math.inf if limit is None else float(limit), self._server)

    def wait(self, now: float, amount: int) -> float:
        """Seconds until ``amount`` may be admitted, 0 for now; it must be no larger than ``limit``."""
        self._age(now)
        wait = max(0.0, self._paid_at - self._lead(amount) - now, self._freed(now, self._total + amount - self.limit))
        if self._others and now < self._others_until:
            over = self._total + self._others + amount - self._ceiling
            without_others = max(self._others_until - now, self._freed(now, over - self._others))
            wait = max(wait, min(self._freed(now, over), without_others))
        return wait

    def take(self, now: float, amount: int) -> None:
        """Admit ``amount``."""
        number = int(now // SLOT_S)
        if not self._window or self._window[-1].number != number:
            self._window.append(_Slot(number, 0))
        self._window[-1].amount += amount
        self._total += amount
        self._paid_at = max(self._paid_at, now) + self._takes(amount)

    def refund(self, at: float, amount: int) -> None:
        """What was admitted at ``at`` was never sent, so the server has not counted it either."""
        for slot in reversed(self._window):
            if slot.number == int(at // SLOT_S):
                slot.amount -= amount
                self._total -= amount
                self._paid_at = self._paid_at - self._takes(amount) if self._total else -math.inf
                return

    def hear(self, now: float, at: float, amount: int, said: Allowance, *, taken: bool) -> None:
        """The reply to a request of ``amount``, admitted at ``at``, says so much of this limit.

        Replies come out of order: one that describes an earlier moment than what is known changes nothing. A limit
        smaller than a request that the server has taken is not believed.
        """
        self._age(now)
        if taken:
            self._largest_taken = max(self._largest_taken, amount)
        if at < self._heard_of:
            return
        self._heard_of = at
        if said.limit is not None:
            if said.limit < self._largest_taken:
                return
            self._change(now, self._own, float(said.limit))
        known = self.limit if said.limit is None else float(said.limit)
        if said.remaining is None or said.remaining > known or known == math.inf or now - at > WINDOW_S:
            return
        # Whoever used more than all that we can have sent by then, it was not us. It counts as admitted now. Where the
        # server had no room left, what was sent after this request and came before it is no excuse.
        ours = self._admitted(at - MINUTE_S, at + (LAG_S if taken else 0.0))
        others = int(known) - said.remaining - ours
        self._others = others + math.ceil(known * OTHERS_GO_ON) if others > 0 else 0
        self._others_until = now + min(WINDOW_S, math.inf if said.reset_s is None else said.reset_s + RESET_SLACK_S)
        self._ceiling = known

    def _change(self, now: float, own: float, server: float) -> None:
        before = self.limit
        self._own, self._server = own, server
        if self._paid_at > now and before < math.inf:  # what is owed to the pace is an amount, at most a minute's
            self._paid_at = now + min(WINDOW_S, (self._paid_at - now) * before / self.limit)

    def _takes(self, amount: int) -> float:
        """Seconds of the limit's rate that ``amount`` uses up."""
        return amount * WINDOW_S / self.limit

    def _lead(self, amount: int) -> float:
        """How long before all is paid off ``amount`` may go out, in seconds: the half of what its slice has left."""
        takes = self._takes(amount)
        return (SLICE_S - takes) / 2 if takes < SLICE_S else -LONG_SLACK * takes

    def _age(self, now: float) -> None:
        while self._window and self._window[0].start + WINDOW_S <= now:
            slot = self._window.popleft()
            self._total -= slot.amount
            self._past.append(slot)
        while self._past and self._past[0].start + 2 * WINDOW_S + LAG_S <= now:
            self._past.popleft()

    def _freed(self, now: float, excess: float) -> float:
        """Seconds until ``excess`` of what was admitted has left the window; infinite when there is not so much."""
        if excess <= 0:
            return 0.0
        for slot in self._window:
            excess -= slot.amount
            if excess <= 0:
                return max(0.0, slot.start + WINDOW_S - now)
        return math.inf

    def _admitted(self, after: float, until: float) -> int:
        return sum(_between(self._past, after, until)) + sum(_between(self._window, after, until))


def _between(slots: Iterable[_Slot], after: float, until: float) -> Iterable[int]:
    return (slot.amount for slot in slots if after < slot.start + SLOT_S and slot.start <= until)
