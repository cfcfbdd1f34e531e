"""Trouble with the account, one after the other in one run folder: cap, quota, key. Each ends with its own sentence."""

from __future__ import annotations

from decimal import Decimal

import pytest

from okralong.pipelines.core.types import EXIT_ENDPOINT, EXIT_OK, EXIT_OVER_BUDGET
from tests.faults.checks import check
from tests.faults.conftest import QUESTIONS, ids_of
from tests.faults.night import Night

CAP = 0.05
"""US dollars; the questions need about 0.17."""


def answered(night: Night) -> dict[str, str]:
    """Answers by query_id of what is answered now."""
    return {row["query_id"]: row["answer"] for row in night.table("answers") if row["status"] == "answered"}


@pytest.mark.soak  # tests/jobs has each part of it in a smaller run
def test_the_cap_then_the_quota_then_the_key_then_the_end(night: Night) -> None:
    night.configure(budget_usd=CAP)
    capped = night.finish()
    assert capped.code == EXIT_OVER_BUDGET, capped
    assert "Raise budget_usd and run the same command" in capped.said
    night.wait_for_silence()
    bill = night.endpoint.bill_usd
    assert 0 < bill <= Decimal(repr(CAP))
    statuses = [row["status"] for row in night.table("answers")]
    assert len(statuses) == QUESTIONS
    assert set(statuses) == {"answered", "over_budget"}
    first = answered(night)

    night.configure(budget_usd=20.0)
    night.endpoint.change({"credit_usd": float(bill) + 0.03})
    dry = night.finish("--retry", "over_budget")
    assert dry.code == EXIT_ENDPOINT, dry
    assert "The quota of the account" in dry.said
    assert "Add credit, then run the same command" in dry.said
    second = answered(night)
    assert first.items() < second.items(), "what was finished is kept, and a raised cap goes on"

    night.endpoint.change({"credit_usd": None, "faults": [{"kind": "revoked_key", "at": [5]}]})
    revoked = night.finish()
    assert revoked.code == EXIT_ENDPOINT, revoked
    assert "refuses the key in the environment variable OPENAI_API_KEY" in revoked.said
    third = answered(night)
    assert second.items() < third.items()

    night.endpoint.change({"revoked_keys": [], "faults": []})
    ended = night.finish()
    assert (ended.code, ended.complained) == (EXIT_OK, ""), ended
    assert third.items() <= answered(night).items()
    check(night, ids_of(night.questions), [], 0)
