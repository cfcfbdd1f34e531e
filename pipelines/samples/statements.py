"""The tables of a report, built from the accounts: every subtotal and total names the rows that it sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from okralong.pipelines.samples.accounts import Accounts
from okralong.pipelines.samples.blocks import Row, Table
from okralong.pipelines.samples.world import Company

_SHOWN_YEARS = 2
_THOUSANDS = "in thousands of dollars"


def _rows(years: Sequence[Mapping[str, int]], plan: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[Row, ...]:
    """Rows in the order of ``plan``: a label alone is an item, a label with parts is their sum."""
    known: dict[str, tuple[int, ...]] = {}
    rows = []
    for label, parts in plan:
        if parts:
            known[label] = tuple(sum(column) for column in zip(*(known[part] for part in parts), strict=True))
        else:
            known[label] = tuple(year[label] for year in years)
        rows.append(Row(label, known[label], parts))
    return tuple(rows)


def _years(company: Company, year: int) -> tuple[tuple[str, ...], list[Accounts]]:
    shown = [year - back for back in range(_SHOWN_YEARS)]
    return tuple(str(each) for each in shown), [company.accounts[each] for each in shown]


def segment_table(company: Company, year: int) -> Table:
    """Revenue by segment, with the operating subtotal and the eliminations."""
    columns, accounts = _years(company, year)
    names = tuple(segment.name for segment in company.segments)
    plan = [*((name, ()) for name in names), ("Operating segments", names), ("Eliminations", ()),
            ("Total revenue", ("Operating segments", "Eliminations"))]  # fmt: skip
    rows = _rows([{**each.segments, "Eliminations": each.other} for each in accounts], plan)
    return Table("segments", f"Revenue by segment ({_THOUSANDS})", columns, rows)


def quarter_table(company: Company, year: int) -> Table:
    """Revenue by quarter."""
    columns, accounts = _years(company, year)
    names = ("First quarter", "Second quarter", "Third quarter", "Fourth quarter")
    sold = [dict(zip(names, each.quarters, strict=True)) for each in accounts]
    rows = _rows(sold, [*((name, ()) for name in names), ("Full year", names)])
    return Table("quarters", f"Revenue by quarter ({_THOUSANDS})", columns, rows)


def region_table(company: Company, year: int) -> Table:
    """Revenue by region of the customer."""
    columns, accounts = _years(company, year)
    names = tuple(accounts[0].regions)
    rows = _rows([each.regions for each in accounts], [*((name, ()) for name in names), ("All regions", names)])
    return Table("regions", f"Revenue by region ({_THOUSANDS})", columns, rows)


def employee_table(company: Company, year: int) -> Table:
    """Employees by works at year-end."""
    columns, accounts = _years(company, year)
    towns = tuple(site.town for site in company.sites)
    rows = _rows([each.employees for each in accounts], [*((town, ()) for town in towns), ("All works", towns)])
    return Table("employees", "Employees by works at year-end (heads)", columns, rows)


def income_table(company: Company, year: int) -> Table:
    """The income statement, expenses in parentheses."""
    columns, accounts = _years(company, year)
    plan: list[tuple[str, tuple[str, ...]]] = [
        ("Revenue", ()),
        ("Cost of goods sold", ()),
        ("Gross profit", ("Revenue", "Cost of goods sold")),
        ("Selling and administration", ()),
        ("Research and development", ()),
        ("Operating income", ("Gross profit", "Selling and administration", "Research and development")),
        ("Interest expense", ()),
        ("Income tax", ()),
        ("Net income", ("Operating income", "Interest expense", "Income tax")),
    ]
    rows = _rows([each.income for each in accounts], plan)
    return Table("income", f"Income statement ({_THOUSANDS})", columns, rows)


def balance_table(company: Company, year: int) -> Table:
    """The balance sheet; total assets equal total liabilities and equity."""
    columns, accounts = _years(company, year)
    plan: list[tuple[str, tuple[str, ...]]] = [
        ("Cash", ()), ("Receivables", ()), ("Inventories", ()),
        ("Current assets", ("Cash", "Receivables", "Inventories")),
        ("Land and buildings", ()), ("Machines", ()), ("Goodwill", ()),
        ("Total assets", ("Current assets", "Land and buildings", "Machines", "Goodwill")),
        ("Payables", ()), ("Short-term loans", ()),
        ("Current liabilities", ("Payables", "Short-term loans")),
        ("Long-term loans", ()), ("Pensions", ()), ("Equity", ()),
        ("Total liabilities and equity", ("Current liabilities", "Long-term loans", "Pensions", "Equity")),
    ]  # fmt: skip
    rows = _rows([each.balance for each in accounts], plan)
    return Table("balance", f"Balance sheet at 31 December ({_THOUSANDS})", columns, rows)


def cash_table(company: Company, year: int) -> Table:
    """The cash flow from opening to closing cash."""
    columns, accounts = _years(company, year)
    operating = ("Net income", "Depreciation", "Change in working capital")
    financing = ("Loans repaid", "Paid to shareholders")
    plan: list[tuple[str, tuple[str, ...]]] = [
        *((label, ()) for label in operating),
        ("Cash from operations", operating),
        ("Purchase of machines", ()),
        *((label, ()) for label in financing),
        ("Change in cash", ("Cash from operations", "Purchase of machines", *financing)),
        ("Cash at the start", ()),
        ("Closing cash", ("Cash at the start", "Change in cash")),
    ]
    rows = _rows([each.cash_flow for each in accounts], plan)
    return Table("cash", f"Cash flow ({_THOUSANDS})", columns, rows)
