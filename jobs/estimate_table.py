"""An estimate on the terminal: the strategies side by side, as a whole, by type and by workflow."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from okralong.jobs.estimate_run import EstimateResult
from okralong.jobs.terminal import say_line
from okralong.pipelines.run.estimate import SHARE, Figures, Range, StrategyEstimate

PROBLEMS_SHOWN = 5
PLAIN_WIDTH = 200
"""Columns of the table where the output is no terminal: it has more of them than a run's summary."""


def print_estimate(console: Console, result: EstimateResult) -> None:
    """Print the figures, and what they rest on."""
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    grid = Table(title=f"{result.questions:,} questions to {result.model}", title_justify="left")
    for title in ("questions", "strategy"):
        grid.add_column(title, overflow="fold")
    groups = _groups(result.strategies)
    # Only a pilot can have seen any.
    cached = any(each.cached_tokens.high for found in groups.values() for each in found.values())
    titles = ("prompt", *(("cached",) if cached else ()), "completion", "weighted tokens", "real time", "batch")
    for title in titles:
        grid.add_column(title, justify="right", no_wrap=True)
    for name, found in groups.items():
        for strategy, figures in found.items():
            grid.add_row(f"{name} ({figures.questions:,})", strategy, *_cells(figures, cached))
        grid.add_section()
    console.print(grid)
    say_line(console, f"expected [low, high]: the actual lies between them in {SHARE:.0%} of the draws")
    if result.asked:
        say_line(console, f"{result.asked:,} of the questions are asked already, for ${result.asked_usd:.4f} of it")
    for note in result.notes:
        say_line(console, f"- {note}")
    for strategy, why in result.left_out.items():
        say_line(console, f"- {strategy} is left out: {why}")
    if result.bad:
        say_line(console, f"- {result.bad} rows cannot be asked; okralong answer says why")
    for strategy, estimate in result.strategies.items():
        for query_id, why in list(estimate.problems.items())[:PROBLEMS_SHOWN]:
            say_line(console, f"- {strategy}, {query_id}: {why}")
        if (more := len(estimate.problems) - PROBLEMS_SHOWN) > 0:
            say_line(console, f"- {strategy}: {more} more questions cannot be asked")
    if result.stopped:
        say_line(console, f"stopped: {result.stopped}", style="red")


def _groups(strategies: Mapping[str, StrategyEstimate]) -> dict[str, dict[str, Figures]]:
    """Figures by group and strategy: all questions, then each type, then each workflow."""
    groups: dict[str, dict[str, Figures]] = {}
    for strategy, found in strategies.items():
        groups.setdefault("all", {})[strategy] = found.total
        for kind, figures in found.by_type.items():
            groups.setdefault(kind, {})[strategy] = figures
    for strategy, found in strategies.items():
        for workflow, figures in found.by_workflow.items():
            groups.setdefault(f"{workflow} workflow", {})[strategy] = figures
    return groups


def _cells(figures: Figures, cached: bool) -> list[str]:
    kept = (figures.cached_tokens,) if cached else ()
    tokens = (figures.prompt_tokens, *kept, figures.completion_tokens, figures.weighted_tokens)
    batch = "-" if figures.batch_usd is None else _dollars(figures.batch_usd)
    return [*(_tokens(each) for each in tokens), _dollars(figures.usd), batch]


def _tokens(each: Range) -> str:
    return f"{_short(each.expected)} [{_short(each.low)}, {_short(each.high)}]" if each.high else "0"


def _short(tokens: float) -> str:
    """Three digits and a unit: 842, 12.3k, 1.04M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:.0f}"


def _dollars(each: Range) -> str:
    digits = 2 if each.high >= 10 else 4
    return f"${each.expected:,.{digits}f} [{each.low:,.{digits}f}, {each.high:,.{digits}f}]"
