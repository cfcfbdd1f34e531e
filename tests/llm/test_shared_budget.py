"""Spenders below one cap: each keeps its own, in any order of events and over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OverBudget
from okralong.pipelines.llm.ledger import RunLedger
from okralong.pipelines.llm.shared_budget import SharedBudget
from okralong.pipelines.serving.asked import caller_of

CAPS: dict[str, float | None] = {"ada": 0.3, "bob": 0.5, "eve": None}
Step = tuple[str, str, int, int]
STEPS = st.tuples(
    st.sampled_from(["admit", "reserve", "settle", "lose", "close"]),
    st.sampled_from(["ada.1", "ada.2", "bob.1", "eve.1", "artifact/x"]),
    st.integers(0, 300),
    st.integers(0, 100),
)


def budget(cap: float = 1.0, caps: dict[str, float | None] = CAPS) -> SharedBudget:
    return SharedBudget(cap, caps.get, caller_of)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a machine that is busy
@given(st.lists(STEPS, max_size=40))
def test_no_spender_passes_its_cap_and_all_together_not_theirs(steps: list[Step]) -> None:
    shared = budget()
    open_calls: dict[tuple[str, int], float] = {}
    for number, (what, question, milli, percent) in enumerate(steps):
        usd, key = milli / 1000, (question, number)
        if what == "admit":
            shared.admit(question, usd)
        elif what == "reserve" and shared.reserve(key, question, usd):
            open_calls[key] = usd
        elif what == "settle" and open_calls:
            taken, reserved = open_calls.popitem()
            shared.settle(taken, reserved * percent / 100)
        elif what == "lose" and open_calls:
            shared.hold_unknown(open_calls.popitem()[0])
        elif what == "close":
            for lost in shared.close(question):
                open_calls.pop(lost, None)
        for name, cap in CAPS.items():
            share = shared.share(name)
            assert cap is None or share.spent_usd + share.reserved_usd <= cap + 1e-9
        assert shared.settled_usd + shared.unknown_usd + shared.reserved_usd <= 1.0 + 1e-9
        parts = [shared.of(name) for name in ("", *CAPS)]
        assert shared.settled_usd == pytest.approx(sum(each.settled_usd for each in parts))
        assert shared.unknown_usd == pytest.approx(sum(each.unknown_usd for each in parts))
        assert shared.reserved_usd == pytest.approx(sum(each.reserved_usd for each in parts))


def row(query_id: str, status: str, usd: float, number: int = 1) -> dict[str, Any]:
    return {"call_id": f"{query_id}/{number}", "attempt": 1, "query_id": query_id, "status": status, "cost_usd": usd}


def test_a_restart_finds_what_each_has_spent() -> None:
    shared = budget()
    shared.restore(0.35, {("ada.2/1", 1): 0.1})
    shared.restore_shares([row("ada.1", "ok", 0.15), row("bob.1", "ok", 0.2), row("ada.2", "unknown", 0.1)])
    shared.restore_shares([row("ada.1", "ok", 0.01), row("ada.9", "unknown", 0.02)], reopened=False)
    assert shared.share("ada").spent_usd == pytest.approx(0.28)
    assert not shared.admit("ada.3", 0.03)
    assert shared.admit("bob.2", 0.3)
    shared.settle(("ada.2/1", 1), 0.01)  # the lost reply arrived after all
    assert shared.share("ada").spent_usd == pytest.approx(0.19)
    assert shared.admit("ada.3", 0.03)


def test_a_changed_cap_applies_from_the_next_question_on() -> None:
    caps = dict(CAPS)
    shared = budget(caps=caps)
    assert not shared.admit("ada.1", 0.4)
    caps["ada"] = 0.45
    assert shared.admit("ada.1", 0.4)
    caps["ada"] = 0.0
    assert not shared.admit("ada.2", 0.01)


async def test_a_ledger_refuses_by_the_spender_s_cap_before_anything_is_sent(tmp_path: Path) -> None:
    ledger = RunLedger(Folder.of(tmp_path / "run"), 1.0, budget=budget())
    with pytest.raises(OverBudget, match=r"daily budget of 'ada', \$0.300000"):
        await ledger.admit("ada.1", 0.4)
    await ledger.admit("bob.1", 0.4)
    with pytest.raises(OverBudget, match=r"budget_usd = 1.0.*tomorrow"):
        await ledger.admit("eve.1", 1.5)
    await ledger.close()
