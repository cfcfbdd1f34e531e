"""The estimate job: simulate every question, optionally answer a pilot, and print the expected costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from okralong.actors.forecaster import AnyForecaster
from okralong.actors.generator import as_served, reading_vectors
from okralong.actors.host import host_for
from okralong.jobs.answer import Starting, answer_prepared, say_of_questions
from okralong.jobs.grid import Grid, Heading
from okralong.jobs.run_folder import RunResult, archive_of_run, begin, statuses
from okralong.jobs.terminal import EstimatePanel, say_line, widen_plain
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.loops import run_coroutine
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import EXIT_FAILURES, EXIT_OK, ConfigError
from okralong.pipelines.core.wording import agreeing, counted
from okralong.pipelines.methods.registry import FullPolicy, describe
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.dry_run import Outlook, side_by_side
from okralong.pipelines.run.estimate import (
    SHARE,
    Again,
    Figures,
    Range,
    Setting,
    StrategyEstimate,
    draw_pilot,
    estimate,
)
from okralong.pipelines.run.observed import AskedQuestion, asked_in
from okralong.pipelines.run.prepare import Prepared, Scoped, prepare
from okralong.pipelines.run.priors import Priors
from okralong.pipelines.run.question_sources import Questions
from okralong.pipelines.run.rows import BEGUN

PRIORS = "estimate.yaml"


@dataclass(frozen=True)
class Asking:
    """The pilot: ``pilot`` questions, drawn with ``seed``, are answered into the folder ``run``.

    Answers that ``run`` already holds refine the estimate even without a pilot.
    """

    pilot: int = 0
    run: str | None = None
    seed: int = 7


@dataclass(frozen=True)
class EstimateResult:
    """An estimate.

    Attributes:
        questions: Number of questions that can be asked.
        bad: Number of rows that cannot be asked.
        asked: Number of questions already answered, at a cost of ``asked_usd``.
        left_out: By strategy, the reason why it is not shown.
        notes: Assumptions behind the figures.
        stopped: Why the pilot stopped, or "".
    """

    model: str
    questions: int
    bad: int
    asked: int
    asked_usd: float
    strategies: Mapping[str, StrategyEstimate]
    left_out: Mapping[str, str]
    notes: Sequence[str] = field(default_factory=tuple)
    stopped: str = ""
    exit_code: int = EXIT_OK


def estimate_questions(
    archive: str,
    questions: Questions,
    config: RunConfig,
    asking: Asking,
    *,
    address: str | None = None,
    console: Console | None = None,
) -> EstimateResult:
    """Estimate a run. Only the pilot costs money; its answers are kept in the run's folder.

    Raises:
        ConfigError: A pilot has no folder, or the calls of the strategy cannot be predicted.
        OkraError: Archive, config or questions cannot be used. No money is spent then.
    """
    console = console or Console()
    if asking.pilot and asking.run is None:
        raise ConfigError(
            "A pilot is answered into the folder of the planned run, so that it is not paid for twice. Name the folder "
            "with --run, or omit --pilot."
        )
    if (why := describe(config.strategy, load_config(FullPolicy, config.policy)).needs.unforeseen) is not None:
        raise ConfigError(
            f"The calls of the strategy {config.strategy!r} cannot be predicted: {why}. Answer a few questions with a "
            "small budget_usd to see what they cost, or estimate another strategy. Nothing was spent."
        )
    prepared = prepare(
        archive if asking.run is None else archive_of_run(Folder.of(asking.run), archive), questions, config
    )
    say_of_questions(console, prepared)
    return estimate_prepared(prepared, asking, address=address, console=console)


def estimate_prepared(
    prepared: Prepared, asking: Asking, *, address: str | None = None, console: Console | None = None
) -> EstimateResult:
    """Estimate a run whose inputs are already checked."""
    console = console or Console()
    llm = as_served(prepared.llm, reading_vectors(prepared))
    price = prepared.prices.price(llm.model, llm.price)
    strategies, left_out = _available(prepared)
    run = Folder.of(asking.run) if asking.run is not None else None
    if run is not None and run.exists(BEGUN):
        begin(run, prepared)  # raises if the folder holds another run
        statuses(run, prepared)
    pilot: RunResult | None = None
    host = host_for(prepared, len(prepared.questions), address)
    with host.started():
        with host.forecasters(prepared, strategies, llm) as hands:
            outlooks = run_coroutine(_look(hands, prepared, console))
        if asking.pilot and asking.run is not None:
            pilot = _ask(prepared, outlooks, asking, asking.run, console)
    asked = asked_in(run, token_counter(llm.tokenizer)) if run is not None else {}
    asked = {outlook.query_id: asked[outlook.query_id] for outlook in outlooks if outlook.query_id in asked}
    priors, stronger, second = load_config(Priors, PRIORS), None, llm.stronger
    if second is not None:
        theirs = priors.thinking(second.reasoning_effort, second.room_for_thought)
        stronger = Again(second.completion_limit, prepared.prices.price(second.model, second.price), theirs)
    priors = priors.thinking(llm.reasoning_effort, llm.room_for_thought)
    setting = Setting(priors, llm.completion_limit, price, asking.seed, stronger=stronger)
    found = estimate(outlooks, strategies, setting, asked)
    cannot = len(prepared.bad) + len(prepared.unscoped)
    faulty = cannot or any(each.problems for each in found.values())
    code = pilot.exit_code if pilot is not None and pilot.stopped else EXIT_FAILURES if faulty else EXIT_OK
    return EstimateResult(
        model=Path(llm.model).name if Path(llm.model).is_absolute() else llm.model,
        questions=len(prepared.questions),
        bad=cannot,
        asked=len(asked),
        asked_usd=sum(each.billed_usd for each in asked.values()),
        strategies=found,
        left_out=left_out,
        notes=_notes(prepared, asked),
        stopped=pilot.stopped if pilot is not None else "",
        exit_code=code,
    )


def _available(prepared: Prepared) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the strategies to compare over this archive, and why the others are left out."""
    held = set(prepared.manifest["granularities"])
    strategies = side_by_side(prepared.config.strategy)
    specs = {name: describe(name, prepared.policy) for name in strategies}
    missing = {name: sorted(set(spec.needs.granularities) - held) for name, spec in specs.items()}
    left_out = {
        name: f"the archive was indexed without chunks of {', '.join(map(str, sizes))} tokens"
        for name, sizes in missing.items()
        if sizes
    }
    if not prepared.archive.has_vectors:
        why = "the archive was indexed without vectors (embedding.of: none)"
        left_out |= {name: why for name, spec in specs.items() if spec.needs.vectors}
    return tuple(name for name in strategies if name not in left_out), left_out


async def _look(hands: Sequence[AnyForecaster], prepared: Prepared, console: Console) -> list[Outlook]:
    """Simulate every question, with the run's concurrency, and return the outlooks in order."""
    places = asyncio.Semaphore(prepared.config.concurrency)
    with EstimatePanel(console, len(prepared.questions)) as bar:

        async def look(number: int, scoped: Scoped) -> Outlook:
            async with places:
                hand = hands[number % len(hands)]
                outlook = await hand.dry_run(scoped.question, scoped.doc_ids)
                bar.advance()
                return outlook

        return list(await asyncio.gather(*(look(at, each) for at, each in enumerate(prepared.questions))))


def _ask(prepared: Prepared, outlooks: Sequence[Outlook], asking: Asking, run: str, console: Console) -> RunResult:
    """Answer the pilot's questions into the run's folder, which stays unfinished."""
    able = [outlook for outlook in outlooks if prepared.config.strategy in outlook.forecasts]
    drawn = set(draw_pilot(able, asking.pilot, asking.seed))
    chosen = [scoped for scoped in prepared.questions if scoped.question.query_id in drawn]
    # The run itself reports rows that cannot be asked.
    part = replace(prepared, questions=chosen, unscoped=[], bad=[])
    return answer_prepared(part, run, Starting(console=console, whole=False))


def _notes(prepared: Prepared, asked: Mapping[str, AskedQuestion]) -> tuple[str, ...]:
    config = prepared.config
    learned = (
        f"reply lengths, call counts and workflow use come from the {counted(len(asked), 'question')} already asked "
        f"with {config.strategy}"
    )
    assumed = (
        "reply lengths and turns are assumed (configs/estimate.yaml), without cached tokens; a pilot measures them"
    )
    analyses = "the generator is the analyzer: its calls are counted, with labels from the keyword rules"
    thought = (
        f"{prepared.llm.model} reasons before it answers: the length is assumed (configs/estimate.yaml), up to "
        f"{prepared.llm.room_for_thought:,} tokens per reply"
    )
    thinks = (thought,) if prepared.llm.room_for_thought and not asked else ()
    left_out = "failed and repeated attempts are not included; batch is the endpoint's price for batch calls"
    by_generator = (analyses,) if config.analyzer.kind == "llm" else ()
    return learned if asked else assumed, *thinks, *by_generator, *_note_on_again(prepared, asked), left_out


def _note_on_again(prepared: Prepared, asked: Mapping[str, AskedQuestion]) -> tuple[str, ...]:
    again, stronger = prepared.policy.escalate, prepared.llm.stronger
    if again is None or not prepared.strategy.needs.escalates:
        return ()
    how = f"escalated to {stronger.model}" if stronger else "repeated with the full text"
    share = sum(any(call.again for call in each.calls) for each in asked.values())
    said = (
        f"this happened to {share} of the {counted(len(asked), 'asked question')}, and the same share is "
        "assumed for the others"
        if asked
        else "how many is unknown before a pilot: the range covers none to all, the expected value has the share "
        "in configs/estimate.yaml"
    )
    return (f'answers with a confidence below {again.under:g} are {how}, shown as "asked again"; {said}',)


# An estimate on the terminal: the strategies side by side, as a whole, by type and by workflow.

PROBLEMS_SHOWN = 5
WIDE_COLUMNS = 200  # project default
"""Width of the table in characters if the output is not a terminal."""


def print_estimate(console: Console, result: EstimateResult) -> None:
    """Print the figures and their assumptions."""
    widen_plain(console, WIDE_COLUMNS)
    groups = _groups(result.strategies)
    # Only a pilot can have seen any.
    shown = [each for found in groups.values() for each in found.values()]
    cached = any(each.cached_tokens.high for each in shown)
    ways = _ways(shown)
    titles = ("prompt", *(("cached",) if cached else ()), "completion", "weighted tokens", *ways)
    title = f"{counted(result.questions, 'question')} to {result.model}"
    names = [Heading("questions"), Heading("strategy")]
    grid = Grid([*names, *(Heading(each, "number") for each in titles)], title, head=2)
    for name, found in groups.items():
        for strategy, figures in found.items():
            grid.add(f"{name} ({figures.questions:,})", strategy, *_cells(figures, cached, ways))
        grid.end_section()
    grid.print(console)
    say_line(console, f"expected [low, high]: {SHARE:.0%} of the simulated runs lie in this range")
    if result.asked:
        usd = f"${result.asked_usd:.4f}"
        answered = f"{result.asked:,} of the questions {agreeing(result.asked, 'is')} already answered"
        say_line(console, f"{answered}; the figures include {agreeing(result.asked, 'its')} {usd}")
    for note in result.notes:
        say_line(console, f"- {note}")
    for strategy, why in result.left_out.items():
        say_line(console, f"- {strategy} is not shown: {why}")
    if result.bad:
        say_line(console, f"- {counted(result.bad, 'row')} cannot be asked; see above for the reasons")
    for strategy, estimated in result.strategies.items():
        for query_id, why in list(estimated.problems.items())[:PROBLEMS_SHOWN]:
            say_line(console, f"- {strategy}, {query_id}: {why}")
        if (more := len(estimated.problems) - PROBLEMS_SHOWN) > 0:
            say_line(console, f"- {strategy}: {counted(more, 'more question')} cannot be asked")
    if result.stopped:
        say_line(console, f"stopped: {result.stopped}", style="red")


def _groups(strategies: Mapping[str, StrategyEstimate]) -> dict[str, dict[str, Figures]]:
    """Return the figures by group and strategy: all questions, then each type, then each workflow."""
    groups: dict[str, dict[str, Figures]] = {}
    for strategy, found in strategies.items():
        groups.setdefault("all", {})[strategy] = found.total
        for kind, figures in found.by_type.items():
            groups.setdefault(kind, {})[strategy] = figures
    for strategy, found in strategies.items():
        if found.again is not None:
            groups.setdefault("of these asked again", {})[strategy] = found.again
    for strategy, found in strategies.items():
        for workflow, figures in found.by_workflow.items():
            groups.setdefault(f"{workflow} workflow", {})[strategy] = figures
    return groups


def _ways(figures: Sequence[Figures]) -> dict[str, Callable[[Figures], Range | None]]:
    """Return the ways to pay for a run that any of the figures has, in the order of the table's columns."""
    ways: dict[str, Callable[[Figures], Range | None]] = {"real time": lambda each: each.usd}
    if any(each.warm_usd for each in figures):
        ways["prefixes cached"] = lambda each: each.warm_usd or each.usd
    if any(each.flex_usd for each in figures):
        ways["flex"] = lambda each: each.flex_usd
    ways["batch"] = lambda each: each.batch_usd
    return ways


def _cells(figures: Figures, cached: bool, ways: Mapping[str, Callable[[Figures], Range | None]]) -> list[str]:
    kept = (figures.cached_tokens,) if cached else ()
    tokens = (figures.prompt_tokens, *kept, figures.completion_tokens, figures.weighted_tokens)
    costs = [each(figures) for each in ways.values()]
    return [*(_tokens(each) for each in tokens), *("-" if each is None else _dollars(each) for each in costs)]


def _tokens(each: Range) -> str:
    return f"{_short(each.expected)} [{_short(each.low)}, {_short(each.high)}]" if each.high else "0"


def _short(tokens: float) -> str:
    """Format with three digits and a unit: 842, 12.3k, 1.04M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if tokens >= size:
            return f"{tokens / size:.3g}{unit}"
    return f"{tokens:.0f}"


def _dollars(each: Range) -> str:
    digits = 2 if each.high >= 10 else 4
    return f"${each.expected:,.{digits}f} [{each.low:,.{digits}f}, {each.high:,.{digits}f}]"
