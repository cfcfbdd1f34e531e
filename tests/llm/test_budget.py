from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from okralong.pipelines.llm.budget import ENOUGH_SEEN, WORST, Budget

CAP = 1.0
DOLLARS = st.integers(0, 400_000).map(lambda micro: micro / 1e6)
QUESTIONS = st.sampled_from(["a", "b", "c", "d"])


class BudgetMachine(RuleBasedStateMachine):
    """Any order of events, also across restarts: the cap holds, and the sums are those of a ledger kept beside."""

    calls = Bundle("calls")
    doubtful = Bundle("doubtful")

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(CAP)
        self.paid: list[float] = []
        self.reserves: dict[tuple[str, int], float] = {}
        self.doubts: dict[tuple[str, int], float] = {}

    @rule(question=QUESTIONS, usd=DOLLARS)
    def admit(self, question: str, usd: float) -> None:
        self.budget.admit(question, usd)

    @rule(target=calls, question=QUESTIONS, usd=DOLLARS)
    def reserve(self, question: str, usd: float) -> tuple[str, int]:
        key = (question, len(self.reserves))
        if self.budget.reserve(key, question, usd):
            self.reserves[key] = usd
        else:
            self.reserves[key] = -1.0
        return key

    @rule(key=consumes(calls), share=st.floats(0, 1))
    def settle(self, key: tuple[str, int], share: float) -> None:
        if self.reserves[key] >= 0:
            cost = round(self.reserves[key] * share, 6)
            self.budget.settle(key, min(cost, self.reserves[key]))
            self.paid.append(min(cost, self.reserves[key]))
            self.doubts.pop(key, None)

    @rule(target=doubtful, key=consumes(calls))
    def lose(self, key: tuple[str, int]) -> tuple[str, int]:
        if self.reserves[key] >= 0:
            self.budget.hold_unknown(key)
            self.doubts[key] = self.reserves[key]
        return key

    @rule(key=consumes(doubtful))
    def hear_late(self, key: tuple[str, int]) -> None:
        if self.reserves[key] >= 0:
            self.budget.settle(key, self.reserves[key] / 2)
            self.paid.append(self.reserves[key] / 2)
            self.doubts.pop(key)

    @rule(question=QUESTIONS)
    def close(self, question: str) -> None:
        for key in self.budget.close(question):
            self.doubts[key] = self.reserves[key]

    @rule()
    def die_and_start_again(self) -> None:
        """What was in flight becomes unknown, as a replay of the journal would have it."""
        for key, usd in self.reserves.items():
            if usd >= 0 and self.budget.holds(key):
                self.doubts[key] = usd
        settled = self.budget.settled_usd
        self.budget = Budget(CAP)
        self.budget.restore(settled, self.doubts)

    @invariant()
    def never_over_the_cap(self) -> None:
        held = self.budget.settled_usd + self.budget.unknown_usd + self.budget.reserved_usd
        assert held <= CAP + 1e-12
        assert self.budget.reserved_usd >= 0

    @invariant()
    def the_sums_are_true(self) -> None:
        assert self.budget.settled_usd == pytest.approx(sum(self.paid), abs=1e-9)
        assert self.budget.unknown_usd == pytest.approx(sum(self.doubts.values()), abs=1e-9)


class HostileEndpoint(RuleBasedStateMachine):
    """Calls cost up to ``WORST`` times their reserves: the cap is passed by what one call costs beyond its own."""

    calls = Bundle("calls")

    def __init__(self) -> None:
        super().__init__()
        self.budget = Budget(CAP)
        self.open: dict[tuple[str, int], float] = {}
        self.number = 0
        self.most_beyond = 0.0

    @initialize(seen=st.booleans(), share=st.floats(0.1, 2.0))
    def learn(self, seen: bool, share: float) -> None:
        """A machine that has seen so many calls knows them; they cost nearly nothing."""
        self.times = WORST if not seen else max(1.0, 2 * share)
        for number in range(ENOUGH_SEEN if seen else 0):
            assert self.budget.reserve(("before", number), "b", 0.001)
            self.budget.settle(("before", number), 0.001 * share)

    @rule(question=QUESTIONS, usd=DOLLARS)
    def admit(self, question: str, usd: float) -> None:
        self.budget.admit(question, usd)

    @rule(target=calls, question=QUESTIONS, usd=DOLLARS)
    def send(self, question: str, usd: float) -> tuple[str, int]:
        self.number += 1
        key = (question, self.number)
        if self.budget.reserve(key, question, usd):
            self.open[key] = usd
        return key

    @rule(key=consumes(calls), share=st.floats(0, 1))
    def come_back(self, key: tuple[str, int], share: float) -> None:
        usd = self.open.pop(key, None)
        if usd is not None:
            cost = usd * share * self.times
            self.most_beyond = max(self.most_beyond, cost - usd)
            self.budget.settle(key, cost)

    @invariant()
    def the_cap_is_passed_by_one_call_at_most(self) -> None:
        assert self.budget.settled_usd <= CAP + self.most_beyond + 1e-9

    def teardown(self) -> None:
        for key, usd in list(self.open.items()):  # all that are in flight at the worst
            self.most_beyond = max(self.most_beyond, usd * (self.times - 1))
            self.budget.settle(key, usd * self.times)
        self.the_cap_is_passed_by_one_call_at_most()


TestHostileEndpoint = HostileEndpoint.TestCase
TestHostileEndpoint.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_far_from_the_cap_nobody_waits_and_near_it_calls_go_one_by_one() -> None:
    budget = Budget(1.0)
    assert all(budget.reserve(("far", n), "q", 0.001) for n in range(64))
    assert [budget.reserve(("near", n), "q", 0.1) for n in range(3)] == [True, False, False]  # 4 x 0.164, 4 x 0.264
    for n in range(64):
        budget.settle(("far", n), 0.0005)
    # By now the costs are known: half of the reserve, so that a call may count once.
    assert [budget.reserve(("near", n), "q", 0.4) for n in (3, 4)] == [True, True]


def test_a_batch_does_not_wait_for_calls_in_flight() -> None:
    budget = Budget(1.0)
    assert all(budget.reserve(("batch", n), "q", 0.225, waits=True) for n in range(4))
    assert budget.reserve(("live", 1), "q", 0.1)
    assert not budget.reserve(("live", 2), "q", 0.001)  # not for the one in flight: the cap itself is reached


def test_the_lines_of_batches_grow_with_the_replies_that_keep_their_limit() -> None:
    def reserved(label: str, most_usd: float = 0.0) -> int:
        return [budget.reserve((label, n), "q", 0.001, True, most_usd) for n in range(400)].count(True)

    budget = Budget(1.0)
    assert reserved("first", 0.5) == 4
    for n in range(4):
        budget.settle(("first", n), 0.0005)
    assert reserved("second", 0.5) == 4 * 64
    budget.settle(("second", 0), 0.01, overlong=True)  # ten times its reserve
    for n in range(1, 256):
        budget.settle(("second", n), 0.0)
    assert [budget.reserve(("later", n), "q", 0.03, True, 0.5) for n in range(4)] == [True] * 3 + [False], "of 0.3 each"
    assert reserved("more", 0.5) == 1
    budget = Budget(1.0)
    assert reserved("ample", 0.002) == 400, "the cap bears the longest replies of all"


TestBudget = BudgetMachine.TestCase
TestBudget.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_a_call_draws_on_its_own_question_first_and_closing_frees_the_rest() -> None:
    budget = Budget(1.0)
    assert budget.admit("a", 0.9)
    assert not budget.admit("b", 0.2)
    assert not budget.hopeless(0.2)
    assert budget.reserve(("x", 1), "a", 0.5)
    assert budget.reserved_usd == 0.9
    budget.settle(("x", 1), 0.1)
    assert budget.close("a") == []
    assert (budget.settled_usd, budget.reserved_usd) == (0.1, 0.0)
    assert budget.admit("b", 0.9)


def test_a_question_that_is_posed_again_is_admitted_once() -> None:
    budget = Budget(1.0)
    assert budget.admit("a", 0.6)
    assert budget.admit("a", 0.6)
    assert budget.reserved_usd == 0.6


def test_a_call_in_flight_at_the_end_of_its_question_is_unknown_and_may_be_settled_late() -> None:
    budget = Budget(None)
    assert budget.reserve(("x", 1), "a", 0.5)
    assert budget.calls_of("a") == [("x", 1)]
    assert not budget.in_doubt(("x", 1))
    assert budget.close("a") == [("x", 1)]
    assert budget.in_doubt(("x", 1))
    assert budget.calls_of("a") == []
    assert budget.unknown_usd == 0.5
    budget.settle(("x", 1), 0.2)
    assert (budget.unknown_usd, budget.settled_usd) == (0.0, 0.2)


def test_hopeless_means_that_waiting_would_not_help() -> None:
    budget = Budget(1.0)
    budget.restore(0.5, {("x", 1): 0.3})
    assert budget.hopeless(0.3)
    assert not budget.hopeless(0.2)
