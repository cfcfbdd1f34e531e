"""``okralong train-data``: the rows that the analyzer learns from, out of the data sets and the split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    data: Annotated[Path, typer.Argument(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="Where the rows and their card go.")],
    config: Annotated[str, typer.Option(help="Which sets, and how many rows; see configs/training/rows.yaml.")] = (
        "training/rows.yaml"
    ),
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next run.")] = Path(
        ".evidence"
    ),
) -> None:
    """Label questions by their sets and by what our retrievers find, and write rows for every side of the split."""
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.settings import load_config
    from okralong.pipelines.storage import Folder
    from okralong.pipelines.training.build import build_rows
    from okralong.pipelines.training.rows import write_rows
    from okralong.pipelines.training.rows_card import rows_card
    from okralong.pipelines.training.rows_config import RowsConfig

    console = Console()
    rows = build_rows(load_config(RowsConfig, config), data, work, lambda line: say_line(console, line))
    for side, found in rows.items():
        write_rows(Folder.of(out), side, found)
        say_line(console, f"{side}: {len(found):,} rows")
    (out / "card.md").write_text(rows_card(rows), encoding="utf-8")
    say_line(console, f"written: {out} (rows by side) and card.md")
