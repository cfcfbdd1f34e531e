"""``okralong train-sara``: texts and questions in, a trained compressor and adapter of SARA out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
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
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.lab.training.run import CARD
    from okralong.pipelines.lab.training.sara_data import SaraConfig
    from okralong.pipelines.lab.training.sara_eval import report_sara, train_sara

    console = Console()
    settings = load_config(SaraConfig, config)
    data = None if data is None else data.resolve()
    if report:
        page, values = report_sara(settings, data, work.resolve(), out.resolve(), lambda line: say_line(console, line))
        say_line(console, page.read_text(encoding="utf-8"))
        say_line(console, f"written: {page} and {values}")
        return
    if here:
        train_sara(settings, data, work.resolve(), out.resolve(), lambda line: say_line(console, line))
    else:
        from okralong.actors.cluster import connected
        from okralong.actors.trainer import run_on_cluster

        with connected():
            run_on_cluster(
                partial(train_sara, settings, data, work.resolve(), out.resolve()), lambda line: say_line(console, line)
            )
    say_line(console, (out / CARD).read_text(encoding="utf-8"))
    say_line(console, f"written: {out}; measure it with --report")
