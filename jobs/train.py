"""``okralong train``: training rows in, a trained analyzer or reader with its card and curves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from okralong.pipelines.lab.training.analyzer_data import TrainingRow
    from okralong.pipelines.lab.training.run import SelfTraining


def command(
    config: Annotated[str, typer.Argument(help="What to train, or to report on; see configs/training/.")],
    rows: Annotated[Path, typer.Option(help="The folder that `okralong train-data` wrote.")],
    out: Annotated[Path, typer.Option(help="Where the trained analyzer goes; a second start goes on from there.")],
    here: Annotated[bool, typer.Option(help="Train in this process, without Ray.")] = False,
    export: Annotated[bool, typer.Option(help="Train nothing: write what a bare machine needs.")] = False,
    report: Annotated[bool, typer.Option(help="Train nothing: hold trained analyzers against the test rows.")] = False,
    leave_out: Annotated[list[str] | None, typer.Option(help="A set whose rows are not learned from.")] = None,
) -> None:
    """Train an analyzer, for `okralong answer --analyzer`, or a reader, for llm.reader of an answer config."""
    if report:
        from okralong.jobs.train_report import report_on

        report_on(config, rows, out)
        return
    if _is_reader(config):
        if leave_out:
            raise typer.BadParameter("a reader's rows have no --leave-out: make rows of fewer sets")
        _reader(config, rows, out, here, export)
        return
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.lab.split import SIDES
    from okralong.pipelines.lab.training.analyzer_data import LEARNED, read_rows, without_sets
    from okralong.pipelines.lab.training.run import TrainConfig, train_session

    console = Console()
    settings = load_config(TrainConfig, config)
    recipe, folder = settings.recipe(), Folder.of(rows)
    train, validation = (read_rows(folder, side) for side in LEARNED)
    if leave_out:
        train, validation = without_sets(train, leave_out), without_sets(validation, leave_out, must_be_there=False)
    if settings.self_training is not None:
        known = [row for side in SIDES for row in read_rows(folder, side, may_be_empty=True)]
        train = _with_own_labels(settings.self_training, train[: recipe.rows], known, rows, console)
        recipe = replace(recipe, rows=None)
    say_line(console, f"{len(train):,} train and {len(validation):,} validation rows; {recipe.kind} on {recipe.model}")
    if export:
        from okralong.pipelines.lab.training.run import examples_of, export_files

        for path in export_files(recipe, examples_of(train), examples_of(validation), out):
            say_line(console, f"written: {path}")
        return
    _run(partial(train_session, recipe, train, validation, out.resolve(), leave_out or ()), here, console)
    say_line(console, (out / "README.md").read_text(encoding="utf-8"))
    say_line(console, f"written: {out}; use it with okralong answer --analyzer {out}")


def _is_reader(config: str) -> bool:
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.lab.training.run import TrainConfig

    return load_config(TrainConfig, config).kind == "reader"


def _reader(config: str, rows: Path, out: Path, here: bool, export: bool) -> None:
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.lab.training.reader_data import read_reading
    from okralong.pipelines.lab.training.run import (
        TrainConfig,
        reading_examples,
        rows_to_learn,
        train_reader,
        write_asked,
    )

    console = Console()
    recipe, folder = load_config(TrainConfig, config).recipe(), Folder.of(rows)
    train, validation = read_reading(folder, "train"), read_reading(folder, "validation")
    say_line(console, f"{len(train):,} train and {len(validation):,} validation rows; reader on {recipe.model}")
    if export:
        from okralong.pipelines.lab.training.run import export_files

        learned, held = (rows_to_learn(recipe, rows) for rows in (train, validation))
        for path in (
            *export_files(recipe, reading_examples(learned), reading_examples(held), out),
            write_asked(out, learned),
        ):
            say_line(console, f"written: {path}")
        return
    _run(partial(train_reader, recipe, train, validation, out.resolve()), here, console)
    say_line(console, (out / "README.md").read_text(encoding="utf-8"))
    say_line(console, f"written: {out}; use it with llm.reader: {out} in an answer config")


def _run(work: Callable[..., None], here: bool, console: Console) -> None:
    from okralong.jobs.terminal import say_line

    def say(line: str) -> None:
        say_line(console, line)

    if here:
        work(say=say)
        return
    from okralong.actors.cluster import connected
    from okralong.actors.trainer import run_on_cluster

    with connected():
        run_on_cluster(work, say)


def _with_own_labels(
    config: SelfTraining, train: list[TrainingRow], known: list[TrainingRow], rows: Path, console: Console
) -> list[TrainingRow]:
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.answering.analyzer import load_analyzer
    from okralong.pipelines.lab.training.run import self_labelled, unlabelled_questions

    questions = unlabelled_questions(config, rows)
    found = self_labelled(config, load_analyzer(config.teacher), questions, known)
    say_line(console, f"self-training: {len(found):,} of {len(questions):,} questions got a type")
    return [*train, *found]
