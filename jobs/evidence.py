"""``okralong evidence``: how much of the gold evidence each policy shows for how many tokens, without a generator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    sweep: Annotated[str, typer.Argument(help="A sweep file; see configs/evidence/.")],
    data: Annotated[Path, typer.Option(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="Where the tables, figures and picture go.")] = Path("evidence"),
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next run.")] = Path(
        ".evidence"
    ),
    side: Annotated[
        str | None, typer.Option(help="Another side of the split than the file says, in files of their own.")
    ] = None,
) -> None:
    """Run retrieval, analysis, organizing and context processing over data sets with known evidence, and measure."""
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.lab.evidence.config import Sweep
    from okralong.pipelines.lab.evidence.report import over_sets, set_figures, write_report
    from okralong.pipelines.lab.evidence.sweep import run_sweep
    from okralong.pipelines.lab.evidence.writers import model_writers

    console = Console()
    chosen = load_config(Sweep, sweep, {} if side is None else {"side": side})
    with model_writers(chosen, work) as models:
        rows = run_sweep(chosen, data, work, lambda line: say_line(console, line), models)
    names = list(dict.fromkeys(row.dataset for row in rows))
    figures = [set_figures(chosen, name, rows) for name in names]
    for path in write_report(out, sweep, chosen, figures, over_sets(chosen, rows, names), side is not None):
        say_line(console, f"written: {path}")
