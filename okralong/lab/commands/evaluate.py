"""The commands ``evaluate``, ``tune`` and ``compare``; their imports happen on the call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.console import Console

from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK
from okralong.pipelines.core.wording import agreeing, counted

if TYPE_CHECKING:
    from okralong.lab.sweeps.comparison import Compared
    from okralong.lab.sweeps.config import Tune
    from okralong.lab.sweeps.engine import SweepResult
    from okralong.lab.sweeps.tuning import Point


def compare(
    run_a: Annotated[str, typer.Argument(help="A, the run folder to compare with, such as yesterday's.")],
    run_b: Annotated[str, typer.Argument(help="B, the run folder to judge, such as today's.")],
    questions: Annotated[
        str | None, typer.Option(help="The questions file with the gold answers; not needed for cells of a sweep.")
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric for --worse-than.")] = "f1",
    worse_than: Annotated[
        float | None, typer.Option(min=0.0, help="Exit with code 1 if the mean of B is worse by more than this.")
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
    from okralong.jobs.grid import Grid, Heading
    from okralong.jobs.terminal import widen_plain
    from okralong.lab.sweeps.markdown import shown_number

    widen_plain(console)
    figures = ("A", "B", "difference", "95 % interval", "p", "questions")
    headings = [Heading("metric", "short"), *(Heading(each, "number") for each in figures)]
    grid = Grid(headings, "B minus A, on the same questions")
    for each in found:
        means = map(shown_number, (each.first, each.second, each.difference))
        interval = f"[{shown_number(each.low)}, {shown_number(each.high)}]"
        grid.add(each.metric, *means, interval, shown_number(each.p), f"{each.n:,}")
    grid.print(console)


def evaluate(
    sweep: Annotated[str, typer.Argument(help="A sweep file; see configs/sweeps/.")],
    data: Annotated[
        Path, typer.Option(help="The folder of the data sets; configs/datasets.yaml describes its layout.")
    ],
    out: Annotated[Path, typer.Option(help="The sweep's folder: cells and tables. The same command resumes there.")],
    work: Annotated[Path, typer.Option(help="The folder that keeps archives and vectors for the next sweep.")] = Path(
        ".evidence"
    ),
    budget_usd: Annotated[float | None, typer.Option(help="A hard cap in US dollars over the whole sweep.")] = None,
    sets: Annotated[
        str | None, typer.Option(help="A file of other sets and their catalog; see configs/example_sets.yaml.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The most questions of each set.")] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="Use the embedded models, which need no key, in place of the sweep's.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the cells and their expected cost, then exit.")
    ] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Run every method on every set under one budget, and write scores, summaries, differences and a report page."""
    from okralong.jobs.report import write_report
    from okralong.jobs.terminal import say_line
    from okralong.lab.commands.sweep_table import show
    from okralong.lab.sweeps.config import OtherSets, Sweep
    from okralong.lab.sweeps.engine import expand_sweep, run_sweep
    from okralong.pipelines.core.config import load_config

    console = Console()
    given = {} if budget_usd is None else {"budget_usd": budget_usd}
    wanted = load_config(Sweep, sweep, given)
    wanted = wanted if sets is None else wanted.over(load_config(OtherSets, sets))
    wanted = wanted.embedded() if embedded else wanted
    wanted = wanted if limit is None else wanted.limited(limit)
    expanded = expand_sweep(wanted, data, out, work, console)
    show(expanded, console)
    if dry_run:
        return
    _agree(yes)
    result = run_sweep(expanded, address=address, console=console)
    for name in result.written:
        say_line(console, f"written: {result.folder / name}")
    if result.statuses:  # a sweep stopped before its first answer has no report
        page, *_ = write_report(str(result.folder), note=lambda line: say_line(console, line, style="yellow"))
        say_line(console, f"written: {page}")
    if result.stopped:
        say_line(console, f"stopped: {result.stopped}", style="red")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)


def _agree(yes: bool) -> None:
    """Ask whether to begin, unless ``yes``. Raises ConfigError without a terminal, typer.Exit for no."""
    from okralong.pipelines.core.types import ConfigError

    if not yes and not sys.stdin.isatty():
        raise ConfigError(
            "There is no terminal to confirm at. Add --yes to start without confirmation, or --dry-run to see only the "
            "cells and their cost."
        )
    if not yes and not typer.confirm("Begin?"):
        raise typer.Exit(EXIT_OK)


def tune(
    tune: Annotated[str, typer.Argument(help="A tune file: a policy, a grid of its values, sets, a metric.")],
    data: Annotated[
        Path, typer.Option(help="The folder of the data sets; configs/datasets.yaml describes its layout.")
    ],
    out: Annotated[Path, typer.Option(help="The folder of both sweeps. The same command resumes there.")],
    work: Annotated[Path, typer.Option(help="The folder that keeps archives and vectors for the next sweep.")] = Path(
        ".evidence"
    ),
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the search and its expected cost, then exit.")
    ] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Search a grid of policy values on the tune side, and report the chosen ones on the test side."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.commands.sweep_table import show
    from okralong.lab.sweeps.config import CHOSEN, Tune, policy_of
    from okralong.lab.sweeps.engine import expand_sweep, run_sweep, spent_so_far
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
    """Warn about failed questions. Raises typer.Exit for an incomplete sweep."""
    from okralong.jobs.terminal import say_line

    if result.exit_code == EXIT_FAILURES:
        failed = result.statuses["failed"]
        said = f"{counted(failed, 'question')} failed and {agreeing(failed, 'counts')} as wrong"
        say_line(console, said, style="yellow")
    elif result.exit_code != EXIT_OK:  # an incomplete search chooses nothing
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
    words = f"Means over the sets on the side {tune.search}; report the figures of {tune.report} instead."
    table = markdown_table(["values", *shown], rows, range(1, len(shown) + 1))
    return f"# {tune.title}: the search\n\n{words}\n\n{table}\n"


def _words(point: Point) -> str:
    return ", ".join(f"{key} = {value}" for key, value in point.values.items())


def calibrate(
    runs: Annotated[list[str], typer.Argument(help="Run folders, or sweeps' folders, whose cells are then read.")],
    out: Annotated[Path, typer.Option(help="The file for the model; `confidence` of an answer config names it.")],
    questions: Annotated[
        list[str] | None,
        typer.Option(help="Questions files with gold answers, one for all runs or one for each; not for sweeps."),
    ] = None,
    fewest: Annotated[int, typer.Option(min=1, help="Ways with fewer answers get no confidence.")] = 25,
) -> None:
    """Fit the model that estimates how probably an answer is right, on runs whose questions have gold answers."""
    from okralong.jobs.terminal import say_line
    from okralong.lab.confidence.answers import judged_answers
    from okralong.lab.confidence.figures import summary
    from okralong.lab.confidence.fit import fit_model, held_out

    console = Console()
    answers = judged_answers(runs, questions or ())
    model = fit_model(answers, fewest)
    found = {"Answers about other documents than those of the fit": held_out(answers, fewest=fewest)}
    if len({each.source for each in answers}) > 1:
        found["Data sets left out of the fit"] = held_out(answers, lambda each: each.source, fewest)
    console.print(summary(found), highlight=False, markup=False, soft_wrap=True)
    out.write_text(model.model_dump_json(indent=1) + "\n", encoding="utf-8")
    say_line(console, f"written: {out}, fitted on {counted(sum(model.fitted.values()), 'answer')}")
