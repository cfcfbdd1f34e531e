"""A sweep on the terminal before it runs: how many cells, and what they may cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from okralong.jobs.terminal import say_line
from okralong.pipelines.lab.sweeps.config import DEFAULT, CellPlan, Sweep
from okralong.pipelines.lab.sweeps.outline import Outlay, total

PLAIN_WIDTH = 160
"""Columns of the table where the output is no terminal."""


def print_outline(
    console: Console, sweep: Sweep, plans: Sequence[CellPlan], outlays: Mapping[str, Outlay], done: int
) -> None:
    """Print a row for each method and variant over sets and seeds, and the whole. ``done`` cells are finished."""
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    grid = Table(title=f"{sweep.title}: {len(plans)} cells, {done} of them finished", title_justify="left")
    for title in ("method", "variant"):
        grid.add_column(title, overflow="fold")
    for title in ("cells", "questions", "calls", "prompt", "completion", "dollars"):
        grid.add_column(title, justify="right", no_wrap=True)
    for method, variant in sweep.systems():
        own = [p for p in plans if (p.named.method, p.named.variant) == (method, variant)]
        _row(grid, method, "" if variant == DEFAULT else variant, [outlays[p.named.cell] for p in own])
    grid.add_section()
    _row(grid, "all", "", [outlays[plan.named.cell] for plan in plans])
    console.print(grid)
    sets = {plan.named.set: outlays[plan.named.cell].questions for plan in plans}
    say_line(console, "sets: " + ", ".join(f"{name} ({questions:,} questions)" for name, questions in sets.items()))
    guessed = sorted({p.config.strategy for p in plans if not outlays[p.named.cell].described})
    if guessed:
        say_line(console, f"- nothing is known of {', '.join(guessed)}; its figures are a wide guess")
    say_line(
        console,
        "- an outline without an index, from the sizes of policies and documents (configs/sweep_outline.yaml); no "
        "reply is counted as shared",
    )
    cap = "no cap" if sweep.budget_usd is None else f"the cap is ${sweep.budget_usd:g}"
    say_line(console, f"- budget over the whole sweep: {cap}")


def _row(grid: Table, method: str, variant: str, outlays: Sequence[Outlay]) -> None:
    sum_ = total(outlays)
    tokens = (f"{value:,.0f}" for value in (sum_.calls, sum_.prompt_tokens, sum_.completion_tokens))
    dollars = f"${sum_.usd:,.2f} [{sum_.low_usd:,.2f}, {sum_.high_usd:,.2f}]"
    grid.add_row(method, variant, str(len(outlays)), f"{sum_.questions:,}", *tokens, dollars)
