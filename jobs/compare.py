"""``okralong compare``: two runs over the same questions; a regression beyond a bound ends with exit code 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from okralong.pipelines.core.types import EXIT_FAILURES

if TYPE_CHECKING:
    from okralong.pipelines.lab.sweeps.results import Compared

PLAIN_WIDTH = 120
"""Columns of the table where the output is no terminal."""


def command(
    run_a: Annotated[str, typer.Argument(help="The run folder that is compared with: yesterday's.")],
    run_b: Annotated[str, typer.Argument(help="The run folder that is judged: today's.")],
    questions: Annotated[
        str | None, typer.Option(help="The questions file with the gold answers; cells of a sweep know theirs.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric that --worse-than is about.")] = "f1",
    worse_than: Annotated[
        float | None, typer.Option(min=0.0, help="End with exit code 1 when B is worse by more than this, in the mean.")
    ] = None,
) -> None:
    """Compare two runs question by question, with intervals and p-values; usable in a nightly check."""
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.lab.sweeps.results import compare_runs, regression

    console = Console()
    found = compare_runs(run_a, run_b, questions)
    _print(console, found)
    if worse_than is None:
        return
    worse = regression(found, metric, worse_than)
    if worse is not None:
        said = f"{metric} is worse by {worse.worse_by():.4g}, beyond the bound of {worse_than:g}"
        say_line(console, f"regression: {said}", style="red")
        raise typer.Exit(EXIT_FAILURES)
    say_line(console, f"{metric} is not worse by more than {worse_than:g}")


def _print(console: Console, found: list[Compared]) -> None:
    from okralong.pipelines.lab.sweeps.pages import shown_number

    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    grid = Table(title="B less A, on the same questions", title_justify="left")
    for title in ("metric", "A", "B", "difference", "95 % interval", "p", "questions"):
        grid.add_column(title, justify="left" if title == "metric" else "right", no_wrap=True)
    for each in found:
        interval = f"[{shown_number(each.low)}, {shown_number(each.high)}]"
        figures = (
            shown_number(each.first),
            shown_number(each.second),
            shown_number(each.difference),
            interval,
            shown_number(each.p),
        )
        grid.add_row(each.metric, *figures, f"{each.n:,}")
    console.print(grid)
