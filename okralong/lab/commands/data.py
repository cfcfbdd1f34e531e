"""The commands ``split`` and ``evidence``; their imports happen on the call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from okralong.lab.datasets.split_build import Account


def evidence(
    sweep: Annotated[str, typer.Argument(help="A sweep file; see configs/evidence/.")],
    data: Annotated[
        Path, typer.Option(help="The folder of the data sets; configs/datasets.yaml describes its layout.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for tables, figures and picture.")] = Path("evidence"),
    work: Annotated[Path, typer.Option(help="The folder that keeps archives and vectors for the next run.")] = Path(
        ".evidence"
    ),
    side: Annotated[
        str | None, typer.Option(help="Another side of the split than the file's; results go to separate files.")
    ] = None,
) -> None:
    """Run retrieval, analysis, organizing and context processing over data sets with known evidence, and measure."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.evidence.config import Sweep
    from okralong.lab.evidence.figures import over_sets, set_figures
    from okralong.lab.evidence.report import write_report
    from okralong.lab.evidence.sweep import run_sweep
    from okralong.lab.evidence.writers import model_writers
    from okralong.pipelines.core.config import load_config

    console = Console()
    chosen = load_config(Sweep, sweep, {} if side is None else {"side": side})
    with model_writers(chosen, work) as models:
        rows = run_sweep(chosen, data, work, lambda line: say_line(console, line), models)
    names = list(dict.fromkeys(row.dataset for row in rows))
    figures = [set_figures(chosen, name, rows) for name in names]
    for path in write_report(out, sweep, chosen, figures, over_sets(chosen, rows, names), side is not None):
        say_line(console, f"written: {path}")


def split(
    data: Annotated[Path, typer.Argument(help="The folder that holds the data sets.")],
    out: Annotated[Path, typer.Option(help="The folder for manifest.parquet and card.md.")],
    catalog: Annotated[str, typer.Option(help="A YAML of the sets' files; see configs/datasets.yaml.")] = (
        "datasets.yaml"
    ),
    rules: Annotated[str, typer.Option(help="A YAML of sides and shares; see configs/split/rules.yaml.")] = (
        "split/rules.yaml"
    ),
) -> None:
    """Split all data sets into train, validation, tune and test; no question or document is on two sides."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.datasets.catalog import load_catalog
    from okralong.lab.datasets.registry import read_dataset
    from okralong.lab.datasets.split_build import build_split, card
    from okralong.lab.datasets.split_components import SplitRules
    from okralong.pipelines.core.config import load_config

    console = Console()
    chosen = load_config(SplitRules, rules)
    sources = load_catalog(catalog).sources
    absent = [source for source in sources if source.hub is None and not (data / source.path).exists()]
    datasets = [read_dataset(source, data) for source in sources if source not in absent]
    split, account = build_split(datasets, chosen)
    split.write(out / "manifest.parquet")
    (out / "card.md").write_text(card(account, split, chosen), encoding="utf-8")
    if absent:
        say_line(console, f"missing in {data}, so not split: {', '.join(source.path for source in absent)}")
    for line in _summary(account):
        say_line(console, line)
    say_line(console, f"{out / 'manifest.parquet'} and card.md are written")


def _summary(account: Account) -> list[str]:
    """Return a line per source with the number of its questions on each side."""
    return [
        f"{source}: " + ", ".join(f"{count:,} {side}" for side, count in by_side.items() if count)
        for source, by_side in account.counts.items()
    ]
