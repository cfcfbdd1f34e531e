"""``okralong tune``: values of a policy chosen on one side of the split and reported on another."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.console import Console

from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, EXIT_STOPPED, GO_ON

if TYPE_CHECKING:
    from okralong.jobs.sweep_run import SweepResult
    from okralong.pipelines.lab.sweeps.run import Point, Tune


def command(
    tune: Annotated[str, typer.Argument(help="A tune file: a policy, a grid of its values, sets, a metric.")],
    data: Annotated[Path, typer.Option(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="The folder of both sweeps. The same command goes on there.")],
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next sweep.")] = Path(
        ".evidence"
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the search and what it may cost, and end.")] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Search a grid of policy values on the tune side, and report the chosen ones on the test side."""
    from okralong.jobs.evaluate import agreed
    from okralong.jobs.sweep_run import expand_sweep, run_sweep, show, spent_so_far
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.lab.sweeps.config import policy_of
    from okralong.pipelines.lab.sweeps.results import cells_of, read_scores, summary_rows
    from okralong.pipelines.lab.sweeps.run import CHOSEN, Tune, choose, points_of

    console = Console()
    chosen = load_config(Tune, tune)
    search = expand_sweep(chosen.searching(), data, out / "search", work, console)
    show(search, console)
    if dry_run:
        return
    agreed(yes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _went_well(console, run_sweep(search, address=address, console=console))
        rows = read_scores(Folder.of(search.folder.path))
        points = points_of(chosen, summary_rows(cells_of(rows), chosen.seed))
        best = choose(chosen, points)
        say_line(console, f"chosen on {chosen.search}: {_words(best)}")
        spent = sum(spent_so_far(search.folder).values())
        left = None if chosen.budget_usd is None else max(chosen.budget_usd - spent, 1e-9)
        report = chosen.reporting(best.values, left)
        policy = policy_of(report, report.variants[CHOSEN])
        folder = Folder.of(search.folder.path.parent)
        folder.write_bytes("chosen.yaml", yaml.safe_dump(policy.model_dump(mode="json"), sort_keys=False).encode())
        folder.write_bytes("search.md", _page(chosen, points, best).encode())
        reported = run_sweep(
            expand_sweep(report, data, out / "report", work, console), address=address, console=console
        )
        _went_well(console, reported)
    except KeyboardInterrupt:
        say_line(console, f"Stopped. {GO_ON}")
        raise typer.Exit(EXIT_STOPPED) from None
    say_line(console, f"written: {folder.path}/chosen.yaml, search.md, and the report on {chosen.report} in report/")


def _went_well(console: Console, result: SweepResult) -> None:
    """Go on with failed questions, which have no marks. Raises typer.Exit for a sweep that is not complete."""
    from okralong.jobs.terminal import say_line

    if result.exit_code == EXIT_FAILURES:
        say_line(console, f"{result.statuses['failed']} questions failed and count as wrong", style="yellow")
    elif result.exit_code != EXIT_OK:  # half of a search chooses nothing
        say_line(console, f"stopped: {result.stopped}", style="red")
        raise typer.Exit(result.exit_code)


def _page(tune: Tune, points: Sequence[Point], best: Point) -> str:
    from okralong.pipelines.lab.sweeps.pages import shown_number, table

    shown = list(dict.fromkeys([tune.metric, *tune.most, "weighted_tokens"]))
    rows = [
        [
            f"{_words(point)}{' (chosen)' if point is best else ''}",
            *(shown_number(point.means.get(name)) for name in shown),
        ]
        for point in points
    ]
    words = f"Means over the sets on the side {tune.search}; the figures that count are those of {tune.report}."
    return f"# {tune.title}: the search\n\n{words}\n\n{table(['values', *shown], rows)}\n"


def _words(point: Point) -> str:
    return ", ".join(f"{key} = {value}" for key, value in point.values.items())
