"""The commands ``train``, ``train-data`` and ``train-sara``; their imports happen on the call."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from okralong.pipelines.core.wording import agreeing, counted

if TYPE_CHECKING:
    from okralong.lab.datasets.split import Side


def train(
    config: Annotated[str, typer.Argument(help="What to train, or to report on; see configs/training/.")],
    rows: Annotated[Path, typer.Option(help="The folder that `okralong train-data` wrote.")],
    out: Annotated[Path, typer.Option(help="The folder for the trained model; the same command resumes there.")],
    here: Annotated[bool, typer.Option(help="Train in this process, without Ray.")] = False,
    export: Annotated[
        bool, typer.Option(help="Do not train; write the files for training on a machine without Ray and Parquet.")
    ] = False,
    report: Annotated[
        bool, typer.Option(help="Do not train; compare trained analyzers or readers on the test rows.")
    ] = False,
    leave_out: Annotated[list[str] | None, typer.Option(help="A set whose rows are excluded from training.")] = None,
) -> None:
    """Train an analyzer, a reader, a cross-encoder, a token classifier or a question writer.

    The result is used by `okralong answer --analyzer`, llm.reader, reranker.model, token_classifier.model or `okralong
    train-data --writer`.
    """
    if report:
        from okralong.lab.training.reports import report_on

        report_on(config, rows, out)
        return
    from okralong.jobs.terminal import say_line
    from okralong.lab.training.learners.fit import CARD, definition_of, prepared, train_session
    from okralong.lab.training.recipe import Recipe, export_files
    from okralong.lab.training.rows.tables import ANALYZER_ROWS, KEEP, LEARNED, RANKING, READER_ROWS, without_sets
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder

    console = Console()
    recipe = load_config(Recipe, config)
    definition = definition_of(recipe)
    tables: dict[str, Any] = {
        "reader": READER_ROWS,
        "cross_encoder": RANKING,
        "question_writer": RANKING,
        "token_classifier": KEEP,
    }
    table = tables.get(recipe.kind, ANALYZER_ROWS)
    if recipe.kind in tables and leave_out:
        raise typer.BadParameter(f"a {recipe.kind}'s rows have no --leave-out: make rows of fewer sets")
    train, validation = (table.read(Folder.of(rows), side) for side in LEARNED)
    if leave_out:
        train, validation = without_sets(train, leave_out), without_sets(validation, leave_out, must_be_there=False)
    say_line(console, f"{len(train):,} train and {len(validation):,} validation rows; {recipe.kind} on {recipe.model}")
    if export:
        learned, held = prepared(recipe, train, validation)
        files = export_files(recipe, definition.examples(learned), definition.examples(held), out)
        for path in (*files, *definition.beside(learned, out)):
            say_line(console, f"written: {path}")
        return
    _run(partial(train_session, recipe, train, validation, out.resolve(), leave_out or ()), here, console)
    say_line(console, (out / CARD).read_text(encoding="utf-8"))
    say_line(console, f"written: {out}; use it with {definition.use.format(out=out)}")


def _run(work: Callable[..., None], here: bool, console: Console) -> None:
    """Run ``work(say=...)`` in this process, or as a task of Ray."""
    from okralong.jobs.terminal import say_line

    if here:
        work(say=partial(say_line, console))
        return
    from okralong.actors.cluster import connected, run_on_cluster

    with connected():
        run_on_cluster(work, partial(say_line, console))


class LabelWith(StrEnum):
    """The source of labels that the sets lack."""

    NOBODY = "nobody"
    LLM = "llm"


class Learner(StrEnum):
    """The model that learns from the rows."""

    ANALYZER = "analyzer"
    READER = "reader"
    CROSS_ENCODER = "cross_encoder"
    TOKEN_CLASSIFIER = "token_classifier"


def train_data(
    data: Annotated[
        Path, typer.Argument(help="The folder of the data sets; configs/datasets.yaml describes its layout.")
    ],
    out: Annotated[Path, typer.Option(help="The folder for the rows and their card.")],
    learner: Annotated[Learner, typer.Option("--for", help="The model that learns from the rows.")] = Learner.ANALYZER,
    config: Annotated[
        str | None,
        typer.Option(
            help="Which sets, and how many rows; by default rows, reading, ranking or keep.yaml of training/."
        ),
    ] = None,
    work: Annotated[Path, typer.Option(help="The folder that keeps archives and vectors for the next run.")] = Path(
        ".evidence"
    ),
    label_with: Annotated[
        LabelWith, typer.Option(help="llm: the generator adds missing labels, within budget_usd.")
    ] = LabelWith.NOBODY,
    llm: Annotated[str, typer.Option(help="The answer config whose llm part and budget_usd label.")] = "answer.yaml",
    writer: Annotated[
        Path | None, typer.Option(help="A trained question writer, which writes the cross-encoder's train rows.")
    ] = None,
    export: Annotated[
        bool, typer.Option(help="Write no rows, only the input of --writer for a machine without Parquet.")
    ] = False,
) -> None:
    """Label questions from their sets and from retrieval, and write rows for every side of the split."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.training.labeller import Labeller
    from okralong.lab.training.rows.analyzer_rows import RowsConfig, build_rows
    from okralong.lab.training.rows.cross_encoder_rows import RankingConfig, build_ranking
    from okralong.lab.training.rows.reader_rows import ReadingConfig, build_reading
    from okralong.lab.training.rows.tables import ANALYZER_ROWS, KEEP, RANKING, READER_ROWS
    from okralong.lab.training.rows.token_classifier_rows import KeepConfig, build_keep
    from okralong.lab.training.rows.written import written_questions
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.core.types import EXIT_OVER_BUDGET
    from okralong.pipelines.run.config import RunConfig

    console = Console()
    say, label = partial(say_line, console), None
    built: dict[Side, Any]
    table: Any
    reading = load_config(ReadingConfig, config or "training/reading.yaml") if learner is Learner.READER else None
    explained = reading is not None and reading.rationales
    if learner is not Learner.ANALYZER and not explained and label_with is not LabelWith.NOBODY:
        raise typer.BadParameter(f"the rows of a {learner.value} follow from the sets alone: omit --label-with")
    if explained and label_with is LabelWith.NOBODY:
        raise typer.BadParameter(f"{config} has rationales, which a generator writes: give --label-with llm, and --llm")
    if label_with is LabelWith.LLM:
        label = Labeller(load_config(RunConfig, llm), out, console)
    if (writer is not None and learner is not Learner.CROSS_ENCODER) or (export and writer is None):
        raise typer.BadParameter("--writer requires --for cross_encoder, and --export requires --writer")
    if learner is Learner.CROSS_ENCODER:
        ranking = load_config(RankingConfig, config or "training/ranking.yaml")
        written = None if writer is None else written_questions(ranking, data, work, out, writer, export, say)
        if export:
            return
        built, table = build_ranking(ranking, data, work, say, written), RANKING
    elif learner is Learner.TOKEN_CLASSIFIER:
        built, table = build_keep(load_config(KeepConfig, config or "training/keep.yaml"), data, say), KEEP
    elif reading is not None:
        built = build_reading(reading, data, work, say)
        if label is not None:
            built = {side: label.explain(found) for side, found in built.items()}
        table = READER_ROWS
    else:
        built = build_rows(load_config(RowsConfig, config or "training/rows.yaml"), data, work, say, label)
        table = ANALYZER_ROWS
    for side, found in built.items():
        table.write(Folder.of(out), side, found)
        say_line(console, f"{side}: {counted(len(found), 'row')}")
    (out / "card.md").write_text(table.card(built, label.model if label else None), encoding="utf-8")
    say_line(console, f"written: {out} (rows by side) and card.md")
    if label is not None and label.over_budget:
        rows = f"{counted(label.over_budget, 'row')} {agreeing(label.over_budget, 'is')}"
        how = "out" if explained else "unlabelled"
        say_line(console, f"{rows} left {how}: budget_usd is used up. A higher one resumes.")
        raise typer.Exit(EXIT_OVER_BUDGET)


def train_sara(
    config: Annotated[str, typer.Argument(help="What to train; training/sara.yaml or sara_small.yaml of configs/.")],
    out: Annotated[Path, typer.Option(help="The folder for the result; the same command resumes there.")],
    data: Annotated[
        Path | None, typer.Option(help="The folder of the data sets; configs/datasets.yaml describes its layout.")
    ] = None,
    work: Annotated[Path, typer.Option(help="The folder that keeps sentence embeddings for the next run.")] = Path(
        ".sara"
    ),
    here: Annotated[bool, typer.Option(help="Train in this process, without Ray.")] = False,
    report: Annotated[
        bool, typer.Option(help="Do not train; measure the result in OUT on held-out documents.")
    ] = False,
) -> None:
    """Train SARA's compressor and adapter, stage by stage, or measure them."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.training.learners.fit import CARD
    from okralong.lab.training.sara.config import SaraConfig
    from okralong.lab.training.sara.report import report_sara
    from okralong.lab.training.sara.train import train_sara
    from okralong.pipelines.core.config import load_config

    console = Console()
    settings = load_config(SaraConfig, config)
    data = None if data is None else data.resolve()
    if report:
        page, values = report_sara(settings, data, work.resolve(), out.resolve(), partial(say_line, console))
        say_line(console, page.read_text(encoding="utf-8"))
        say_line(console, f"written: {page} and {values}")
        return
    _run(partial(train_sara, settings, data, work.resolve(), out.resolve()), here, console)
    say_line(console, (out / CARD).read_text(encoding="utf-8"))
    say_line(console, f"written: {out}; measure it with --report")
