"""A company's accounts, year by year, in whole thousands of dollars, with every identity kept.

Revenue is the same number whether read by segment, quarter or region; the balance sheet balances; the cash flow ends
at the cash of the balance sheet.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from okralong.pipelines.samples.vocabulary import REGIONS

_YEARS = 4


@dataclass(frozen=True, slots=True)
class Accounts:
    """One year. Expenses and outflows are negative; ``employees`` are heads by site town."""

    segments: Mapping[str, int]
    other: int
    quarters: tuple[int, int, int, int]
    regions: Mapping[str, int]
    income: Mapping[str, int]
    balance: Mapping[str, int]
    cash_flow: Mapping[str, int]
    employees: Mapping[str, int]

    @property
    def revenue(self) -> int:
        """Total revenue: segments and other."""
        return sum(self.segments.values()) + self.other


def _split(rng: random.Random, total: int, parts: int) -> list[int]:
    """``total`` in uneven whole parts that sum to it."""
    weights = [rng.uniform(0.7, 1.3) for _ in range(parts)]
    amounts = [int(total * weight / sum(weights)) for weight in weights[1:]]
    return [total - sum(amounts), *amounts]


def draw_accounts(
    rng: random.Random, first_year: int, segments: Sequence[str], towns: Sequence[str]
) -> dict[int, Accounts]:
    """Four years of accounts from ``first_year`` on (the first of them only ever appears as a comparison)."""
    sales = {name: rng.randint(18_000, 190_000) for name in segments}
    heads = {town: rng.randint(90, 900) for town in towns}
    cash, balance = rng.randint(9_000, 60_000), _Balance(rng, sum(sales.values()))
    accounts = {}
    for year in range(first_year, first_year + _YEARS):
        sales = {name: int(amount * _step(rng, 0.02, 0.19)) for name, amount in sales.items()}
        heads = {town: int(count * _step(rng, 0.01, 0.12)) + 1 for town, count in heads.items()}
        other = -rng.randint(400, 3_000)
        revenue = sum(sales.values()) + other
        income = _income(rng, revenue)
        opening, cash = cash, int(cash * _step(rng, 0.03, 0.3))
        accounts[year] = Accounts(
            dict(sales),
            other,
            (lambda q: (q[0], q[1], q[2], q[3]))(_split(rng, revenue, 4)),
            dict(zip(REGIONS, _split(rng, revenue, 4), strict=True)),
            income,
            balance.draw(cash, revenue),
            _cash_flow(rng, sum(income.values()), opening, cash, revenue),
            dict(heads),
        )
    return accounts


def _step(rng: random.Random, low: float, high: float) -> float:
    """A factor of change: up twice as often as down, by ``low`` to ``high``."""
    return 1 + rng.choice((1, 1, -1)) * rng.uniform(low, high)


def _income(rng: random.Random, revenue: int) -> dict[str, int]:
    shares = {
        "Cost of goods sold": rng.uniform(0.52, 0.62),
        "Selling and administration": rng.uniform(0.14, 0.19),
        "Research and development": rng.uniform(0.03, 0.08),
        "Interest expense": rng.uniform(0.005, 0.02),
        "Income tax": rng.uniform(0.015, 0.03),
    }
    return {"Revenue": revenue} | {label: -int(revenue * share) for label, share in shares.items()}


def _cash_flow(rng: random.Random, earned: int, opening: int, closing: int, revenue: int) -> dict[str, int]:
    flow = {
        "Net income": earned,
        "Depreciation": int(revenue * rng.uniform(0.03, 0.05)),
        "Purchase of machines": -int(revenue * rng.uniform(0.03, 0.06)),
        "Loans repaid": -int(revenue * rng.uniform(0.005, 0.02)),
        "Paid to shareholders": -int(revenue * rng.uniform(0.005, 0.02)),
    }
    flow["Change in working capital"] = closing - opening - sum(flow.values())
    return flow | {"Cash at the start": opening, "Cash at the end": closing}


class _Balance:
    """Draws balance sheets whose two sides agree; equity is what is left."""

    def __init__(self, rng: random.Random, revenue: int) -> None:
        self._rng = rng
        self._base = revenue

    def _of(self, low: float, high: float) -> int:
        return int(self._base * self._rng.uniform(low, high))

    def draw(self, cash: int, revenue: int) -> dict[str, int]:
        self._base = revenue
        sheet = {
            "Cash": cash,
            "Receivables": self._of(0.11, 0.18),
            "Inventories": self._of(0.1, 0.2),
            "Land and buildings": self._of(0.2, 0.35),
            "Machines": self._of(0.12, 0.25),
            "Goodwill": self._of(0.02, 0.09),
        }
        owed = {
            "Payables": self._of(0.07, 0.12),
            "Short-term loans": self._of(0.02, 0.08),
            "Long-term loans": self._of(0.1, 0.2),
            "Pensions": self._of(0.03, 0.08),
        }
        return sheet | owed | {"Equity": sum(sheet.values()) - sum(owed.values())}
