"""``okralong train-data``: the rows that the analyzer or the reader learns from, out of the data sets and the split."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


class LabelWith(StrEnum):
    """Who labels what the sets leave open."""

    NOBODY = "nobody"
    LLM = "llm"


class Learner(StrEnum):
    """Who learns from the rows."""

    ANALYZER = "analyzer"
    READER = "reader"


def command(
    data: Annotated[Path, typer.Argument(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="Where the rows and their card go.")],
    learner: Annotated[Learner, typer.Option("--for", help="Who learns from the rows.")] = Learner.ANALYZER,
    config: Annotated[
        str | None, typer.Option(help="Which sets, and how many rows; by default training/rows.yaml or reading.yaml.")
    ] = None,
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next run.")] = Path(
        ".evidence"
    ),
    label_with: Annotated[
        LabelWith, typer.Option(help="llm: the generator labels what the sets leave open, within budget_usd.")
    ] = LabelWith.NOBODY,
    llm: Annotated[str, typer.Option(help="The answer config whose llm part and budget_usd label.")] = "answer.yaml",
) -> None:
    """Label questions by their sets and by what our retrievers find, and write rows for every side of the split."""
    if learner is Learner.READER:
        if label_with is not LabelWith.NOBODY:
            raise typer.BadParameter("the reader's rows follow from the sets alone: leave --label-with out")
        _reading(config or "training/reading.yaml", data, out, work)
        return
    from okralong.jobs.label import Labeller
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.core.types import EXIT_OVER_BUDGET
    from okralong.pipelines.lab.training.analyzer_data import RowsConfig, build_rows, rows_card, write_rows
    from okralong.pipelines.lab.training.run import UNLABELLED
    from okralong.pipelines.run.config import RunConfig

    console = Console()
    label = Labeller(load_config(RunConfig, llm), out, console) if label_with is LabelWith.LLM else None
    built = build_rows(
        load_config(RowsConfig, config or "training/rows.yaml"), data, work, lambda line: say_line(console, line), label
    )
    for side, found in built.rows.items():
        write_rows(Folder.of(out), side, found)
        say_line(console, f"{side}: {len(found):,} rows")
    lines = [json.dumps({"query_id": each.query_id, "question": each.question}) for each in built.unlabelled]
    (out / UNLABELLED).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (out / "card.md").write_text(rows_card(built.rows, label.model if label else None), encoding="utf-8")
    say_line(console, f"written: {out} (rows by side) and card.md")
    if label is not None and label.over_budget:
        say_line(
            console, f"{label.over_budget:,} rows are left unlabelled: budget_usd is used up. A higher one goes on."
        )
        raise typer.Exit(EXIT_OVER_BUDGET)


def _reading(config: str, data: Path, out: Path, work: Path) -> None:
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.lab.training.reader_data import ReadingConfig, build_reading, reading_card, write_reading

    console = Console()
    built = build_reading(load_config(ReadingConfig, config), data, work, lambda line: say_line(console, line))
    for side, found in built.items():
        write_reading(Folder.of(out), side, found)
        say_line(console, f"{side}: {len(found):,} rows")
    (out / "card.md").write_text(reading_card(built), encoding="utf-8")
    say_line(console, f"written: {out} (rows by side) and card.md")
