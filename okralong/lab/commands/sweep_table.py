"""Print the table of a sweep's cells and their expected cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from okralong.jobs.grid import Grid, Heading
from okralong.jobs.terminal import say_line, widen_plain
from okralong.lab.sweeps.config import DEFAULT
from okralong.lab.sweeps.engine import Expanded
from okralong.lab.sweeps.outline import CostEstimate, total
from okralong.pipelines.core.wording import counted


def show(expanded: Expanded, console: Console) -> None:
    """Print a row with the expected cost for each method and variant over sets and seeds, and the total."""
    sweep, plans, costs = expanded.sweep, expanded.plans, expanded.costs
    widen_plain(console)
    title = f"{sweep.title}: {counted(len(plans), 'cell')}, {expanded.finished} of them finished"
    figures = ("cells", "questions", "calls", "prompt", "completion", "dollars")
    grid = Grid([Heading("method"), Heading("variant"), *(Heading(each, "number") for each in figures)], title, head=2)
    for method, variant in sweep.systems():
        own = [p for p in plans if (p.named.method, p.named.variant) == (method, variant)]
        _row(grid, method, "" if variant == DEFAULT else variant, [costs[p.named.cell] for p in own])
    if expanded.judge is not None:
        _row(grid, "the judge", "", [expanded.judge], cells="")
    grid.end_section()
    every = [costs[plan.named.cell] for plan in plans] + ([expanded.judge] if expanded.judge is not None else [])
    _row(grid, "all", "", every, cells=str(len(plans)))
    grid.print(console)
    sets = {plan.named.set: costs[plan.named.cell].questions for plan in plans}
    say_line(
        console, "sets: " + ", ".join(f"{name} ({counted(questions, 'question')})" for name, questions in sets.items())
    )
    guessed = sorted({p.config.strategy for p in plans if not costs[p.named.cell].described})
    if guessed:
        say_line(console, f"- no sizes are known for {', '.join(guessed)}; the figures are rough guesses")
    say_line(
        console,
        "- an outline without an index, from the sizes of policies and documents (configs/outline.yaml); no "
        "reply is counted as shared",
    )
    cap = "no cap" if sweep.budget_usd is None else f"the cap is ${sweep.budget_usd:g}"
    say_line(console, f"- budget over the whole sweep: {cap}")


def _row(grid: Grid, method: str, variant: str, costs: Sequence[CostEstimate], cells: str | None = None) -> None:
    sum_ = total(costs)
    tokens = (f"{value:,.0f}" for value in (sum_.calls, sum_.prompt_tokens, sum_.completion_tokens))
    dollars = f"${sum_.usd:,.2f} [{sum_.low_usd:,.2f}, {sum_.high_usd:,.2f}]"
    count = str(len(costs)) if cells is None else cells
    grid.add(method, variant, count, f"{sum_.questions:,}", *tokens, dollars)
