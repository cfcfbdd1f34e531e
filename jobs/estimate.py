"""``okralong estimate``: what a run will cost, with a range, before it is paid for."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from okralong.pipelines.core.types import EXIT_OK, EXIT_STOPPED


def command(
    archive: Annotated[str, typer.Argument(help="An archive made by okralong index.")],
    questions: Annotated[str, typer.Option(help="Questions: a path or URI of jsonl, csv or parquet.")],
    pilot: Annotated[int, typer.Option(min=0, help="So many questions are answered for real, into --run.")] = 0,
    run: Annotated[
        str | None, typer.Option(help="The run to come: its answers, and the pilot's, are learned from and kept.")
    ] = None,
    config: Annotated[str, typer.Option(help="The answer config of the run; see configs/answer.yaml.")] = "answer.yaml",
    strategy: Annotated[str | None, typer.Option(help="The strategy of the run, shown beside the others.")] = None,
    analyzer: Annotated[
        str | None, typer.Option(help="heads, label_scorer, rules, llm, or a folder that okralong train wrote.")
    ] = None,
    budget_usd: Annotated[float | None, typer.Option(help="A hard cap in US dollars, for the pilot.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, written to the pilot's ledger rows.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same pilot and same dice.")] = 7,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all figures to this file as well.")] = None,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Estimate tokens and dollars of a run: retrieval, analysis and plans are real, the generator is not asked."""
    from okralong.jobs.estimate_run import Asking, estimate_questions
    from okralong.jobs.estimate_table import print_estimate
    from okralong.jobs.tags import read_tags
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.answering.analyzer import analyzer_keys
    from okralong.pipelines.core.codec import encode
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.run.config import RunConfig

    given: dict[str, Any] = {"strategy": strategy, "budget_usd": budget_usd}
    given |= analyzer_keys(analyzer) if analyzer else {}
    settings = load_config(RunConfig, config, {key: value for key, value in given.items() if value is not None})
    settings = settings.model_copy(update={"tags": settings.tags | read_tags(tag or ())})
    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asking = Asking(pilot=pilot, run=run, seed=seed)
        result = estimate_questions(archive, questions, settings, asking, address=address, console=console)
    except KeyboardInterrupt:
        say_line(console, "Stopped. What the pilot has answered is kept; run the same command again to go on.")
        raise typer.Exit(EXIT_STOPPED) from None
    print_estimate(console, result)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(f"{json.dumps(json.loads(encode(result)), indent=1)}\n", encoding="utf-8")
    if result.exit_code != EXIT_OK:
        raise typer.Exit(result.exit_code)
