"""``okralong evaluate``: methods over data sets with known answers, scored, with intervals and paired tests."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from okralong.pipelines.core.types import EXIT_OK, EXIT_STOPPED, GO_ON


def command(
    sweep: Annotated[str, typer.Argument(help="A sweep file; see configs/sweeps/.")],
    data: Annotated[Path, typer.Option(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="The sweep's folder: cells and tables. The same command goes on there.")],
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next sweep.")] = Path(
        ".evidence"
    ),
    budget_usd: Annotated[float | None, typer.Option(help="A hard cap in US dollars over the whole sweep.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and what they may cost, and end.")] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Run every method on every set, under one budget, and write scores, summaries, differences and a page of all."""
    from okralong.jobs.report import write
    from okralong.jobs.sweep_run import expand_sweep, run_sweep, show
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.lab.sweeps.config import Sweep

    console = Console()
    given = {} if budget_usd is None else {"budget_usd": budget_usd}
    expanded = expand_sweep(load_config(Sweep, sweep, given), data, out, work, console)
    show(expanded, console)
    if dry_run:
        return
    agreed(yes)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = run_sweep(expanded, address=address, console=console)
    except KeyboardInterrupt:
        say_line(console, f"Stopped. {GO_ON}")
        raise typer.Exit(EXIT_STOPPED) from None
    for name in result.written:
        say_line(console, f"written: {result.folder / name}")
    if result.statuses:  # a sweep that was stopped before its first answer has nothing to look at
        say_line(console, f"written: {write(str(result.folder))[0]}")
    if result.stopped:
        say_line(console, f"stopped: {result.stopped}", style="red")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def agreed(yes: bool) -> None:
    """Ask whether to begin, unless that is said already. Raises ConfigError where nobody can be asked."""
    from okralong.pipelines.core.types import ConfigError

    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("Nobody is here to be asked whether to begin. Add --yes, or --dry-run to look only.")
    if not typer.confirm("Begin?"):
        raise typer.Exit(EXIT_OK)
