"""``okralong split``: a folder of data sets in, one manifest that says what stands on which side out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from okralong.pipelines.lab.split import Account


def command(
    data: Annotated[Path, typer.Argument(help="The folder that holds the data sets.")],
    out: Annotated[Path, typer.Option(help="Where manifest.parquet and card.md go.")],
    catalog: Annotated[str, typer.Option(help="A YAML of the sets' files; see configs/datasets.yaml.")] = (
        "datasets.yaml"
    ),
    rules: Annotated[str, typer.Option(help="A YAML of sides and shares; see configs/split/rules.yaml.")] = (
        "split/rules.yaml"
    ),
) -> None:
    """Split all sets at hand into train, validation, tune and test; no question or document stands on two sides."""
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.lab.datasets.base import load_catalog
    from okralong.pipelines.lab.datasets.registry import read_dataset
    from okralong.pipelines.lab.split import SplitRules, build_split, card, write_manifest

    console = Console()
    chosen = load_config(SplitRules, rules)
    sources = load_catalog(catalog).sources
    absent = [source for source in sources if source.hub is None and not (data / source.path).exists()]
    datasets = [read_dataset(source, data) for source in sources if source not in absent]
    split, account = build_split(datasets, chosen)
    write_manifest(out / "manifest.parquet", split.sides, split.about)
    (out / "card.md").write_text(card(account, split, chosen), encoding="utf-8")
    if absent:
        say_line(console, f"not in {data}, so not split: {', '.join(source.path for source in absent)}")
    for line in _summary(account):
        say_line(console, line)
    say_line(console, f"{out / 'manifest.parquet'} and card.md are written")


def _summary(account: Account) -> list[str]:
    """One line a source: how many of its questions stand where."""
    return [
        f"{source}: " + ", ".join(f"{count:,} {side}" for side, count in by_side.items() if count)
        for source, by_side in account.counts.items()
    ]
