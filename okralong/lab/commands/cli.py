"""The commands of experiments: names, options and what is printed. What they need is loaded when one is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK

if TYPE_CHECKING:
    from okralong.lab.commands.sweep import SweepResult
    from okralong.lab.datasets.split import Side
    from okralong.lab.datasets.split_build import Account
    from okralong.lab.sweeps.comparison import Compared
    from okralong.lab.sweeps.config import Tune
    from okralong.lab.sweeps.tuning import Point


def compare(
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
    from okralong.lab.sweeps.comparison import compare_runs, regression

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
    from okralong.jobs.terminal import widen_plain
    from okralong.lab.sweeps.markdown import shown_number

    widen_plain(console)
    grid = Table(title="B less A, on the same questions", title_justify="left")
    for title in ("metric", "A", "B", "difference", "95 % interval", "p", "questions"):
        grid.add_column(title, justify="left" if title == "metric" else "right", no_wrap=True)
    for each in found:
        means = map(shown_number, (each.first, each.second, each.difference))
        interval = f"[{shown_number(each.low)}, {shown_number(each.high)}]"
        grid.add_row(each.metric, *means, interval, shown_number(each.p), f"{each.n:,}")
    console.print(grid)


def evaluate(
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
    from okralong.jobs.report import write_report
    from okralong.jobs.terminal import say_line
    from okralong.lab.commands.sweep import expand_sweep, run_sweep, show
    from okralong.lab.sweeps.config import Sweep
    from okralong.pipelines.core.config import load_config

    console = Console()
    given = {} if budget_usd is None else {"budget_usd": budget_usd}
    expanded = expand_sweep(load_config(Sweep, sweep, given), data, out, work, console)
    show(expanded, console)
    if dry_run:
        return
    _agree(yes)
    result = run_sweep(expanded, address=address, console=console)
    for name in result.written:
        say_line(console, f"written: {result.folder / name}")
    if result.statuses:  # a sweep that was stopped before its first answer has nothing to look at
        page, *_ = write_report(str(result.folder), note=lambda line: say_line(console, line, style="yellow"))
        say_line(console, f"written: {page}")
    if result.stopped:
        say_line(console, f"stopped: {result.stopped}", style="red")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def _agree(yes: bool) -> None:
    """Ask whether to begin, unless ``yes`` says so. Raises ConfigError where nobody can be asked, typer.Exit for no."""
    from okralong.pipelines.core.types import ConfigError

    if not yes and not sys.stdin.isatty():
        raise ConfigError(
            "There is no terminal to confirm at. Add --yes to begin without confirmation, or --dry-run to see only the "
            "cells and their cost."
        )
    if not yes and not typer.confirm("Begin?"):
        raise typer.Exit(EXIT_OK)


def evidence(
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


def tune(
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
    from okralong.jobs.terminal import say_line
    from okralong.lab.commands.sweep import expand_sweep, run_sweep, show, spent_so_far
    from okralong.lab.sweeps.config import CHOSEN, Tune, policy_of
    from okralong.lab.sweeps.results import read_scores
    from okralong.lab.sweeps.statistics import cells_of, summary_rows
    from okralong.lab.sweeps.tuning import choose, points_of
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.core.storage import Folder

    console = Console()
    chosen = load_config(Tune, tune)
    search = expand_sweep(chosen.searching(), data, out / "search", work, console)
    show(search, console)
    if dry_run:
        return
    _agree(yes)
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
    reported = run_sweep(expand_sweep(report, data, out / "report", work, console), address=address, console=console)
    _went_well(console, reported)
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
    from okralong.lab.sweeps.markdown import shown_number
    from okralong.pipelines.reporting.tables import markdown_table

    shown = list(dict.fromkeys([tune.metric, *tune.most, "weighted_tokens"]))
    rows = [
        [
            f"{_words(point)}{' (chosen)' if point is best else ''}",
            *(shown_number(point.means.get(name)) for name in shown),
        ]
        for point in points
    ]
    words = f"Means over the sets on the side {tune.search}; the figures that count are those of {tune.report}."
    table = markdown_table(["values", *shown], rows, range(1, len(shown) + 1))
    return f"# {tune.title}: the search\n\n{words}\n\n{table}\n"


def _words(point: Point) -> str:
    return ", ".join(f"{key} = {value}" for key, value in point.values.items())


def train(
    config: Annotated[str, typer.Argument(help="What to train, or to report on; see configs/training/.")],
    rows: Annotated[Path, typer.Option(help="The folder that `okralong train-data` wrote.")],
    out: Annotated[Path, typer.Option(help="Where the trained model goes; a second start goes on from there.")],
    here: Annotated[bool, typer.Option(help="Train in this process, without Ray.")] = False,
    export: Annotated[
        bool, typer.Option(help="Train nothing: write what a machine without Ray and Parquet needs to train.")
    ] = False,
    report: Annotated[
        bool, typer.Option(help="Train nothing: compare trained analyzers or readers on the test rows.")
    ] = False,
    leave_out: Annotated[list[str] | None, typer.Option(help="A set whose rows are not learned from.")] = None,
) -> None:
    """Train an analyzer (`okralong answer --analyzer`), a reader (llm.reader), a cross-encoder (reranker.model), a
    token classifier (token_classifier.model) or a question writer (`okralong train-data --writer`)."""
    if report:
        from okralong.lab.training.reports import report_on

        report_on(config, rows, out)
        return
    from okralong.jobs.terminal import say_line
    from okralong.lab.training.learners.fit import CARD, definition_of, prepared, train_session
    from okralong.lab.training.recipe import Recipe, export_files
    from okralong.lab.training.rows.tables import (
        ANALYZER_ROWS,
        KEEP,
        LEARNED,
        RANKING,
        READER_ROWS,
        without_sets,
    )
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
    """Who labels what the sets leave open."""

    NOBODY = "nobody"
    LLM = "llm"


class Learner(StrEnum):
    """Who learns from the rows."""

    ANALYZER = "analyzer"
    READER = "reader"
    CROSS_ENCODER = "cross_encoder"
    TOKEN_CLASSIFIER = "token_classifier"


def train_data(
    data: Annotated[Path, typer.Argument(help="The folder of the data sets, laid out as configs/datasets.yaml says.")],
    out: Annotated[Path, typer.Option(help="Where the rows and their card go.")],
    learner: Annotated[Learner, typer.Option("--for", help="Who learns from the rows.")] = Learner.ANALYZER,
    config: Annotated[
        str | None,
        typer.Option(
            help="Which sets, and how many rows; by default rows, reading, ranking or keep.yaml of training/."
        ),
    ] = None,
    work: Annotated[Path, typer.Option(help="Where archives and vectors are kept for the next run.")] = Path(
        ".evidence"
    ),
    label_with: Annotated[
        LabelWith, typer.Option(help="llm: the generator labels what the sets leave open, within budget_usd.")
    ] = LabelWith.NOBODY,
    llm: Annotated[str, typer.Option(help="The answer config whose llm part and budget_usd label.")] = "answer.yaml",
    writer: Annotated[
        Path | None, typer.Option(help="A trained question writer: the cross-encoder's train rows are what it writes.")
    ] = None,
    export: Annotated[
        bool, typer.Option(help="Write no rows: only what --writer needs to write on a machine without Parquet.")
    ] = False,
) -> None:
    """Label questions by their sets and by what our retrievers find, and write rows for every side of the split."""
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
        raise typer.BadParameter(f"the rows of a {learner.value} follow from the sets alone: leave --label-with out")
    if explained and label_with is LabelWith.NOBODY:
        raise typer.BadParameter(f"{config} has rationales, which a generator writes: give --label-with llm, and --llm")
    if label_with is LabelWith.LLM:
        label = Labeller(load_config(RunConfig, llm), out, console)
    if (writer is not None and learner is not Learner.CROSS_ENCODER) or (export and writer is None):
        raise typer.BadParameter("--writer is for --for cross_encoder, and --export for --writer")
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
        say_line(console, f"{side}: {len(found):,} rows")
    (out / "card.md").write_text(table.card(built, label.model if label else None), encoding="utf-8")
    say_line(console, f"written: {out} (rows by side) and card.md")
    if label is not None and label.over_budget:
        say_line(
            console,
            f"{label.over_budget:,} rows are left {'out' if explained else 'unlabelled'}: budget_usd is used up. A "
            "higher one goes on.",
        )
        raise typer.Exit(EXIT_OVER_BUDGET)


def train_sara(
    config: Annotated[str, typer.Argument(help="What to train; training/sara.yaml or sara_small.yaml of configs/.")],
    out: Annotated[Path, typer.Option(help="Where the result goes; a second start goes on from there.")],
    data: Annotated[
        Path | None, typer.Option(help="The folder of the data sets, laid out as configs/datasets.yaml says.")
    ] = None,
    work: Annotated[Path, typer.Option(help="Where sentence embeddings are kept for the next run.")] = Path(".sara"),
    here: Annotated[bool, typer.Option(help="Train in this process, without Ray.")] = False,
    report: Annotated[bool, typer.Option(help="Train nothing: measure what OUT holds on held-out documents.")] = False,
) -> None:
    """Train SARA's compressor and adapter, stage by stage, or measure them."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.training.learners.fit import CARD
    from okralong.lab.training.sara.examples import SaraConfig
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
