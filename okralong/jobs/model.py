"""``okralong model``: download a named local model from the hub, and list those that there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import OkraError

model_app = typer.Typer(help="Download local models from the hub, and list them.", no_args_is_help=True)


@model_app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="small, medium or large; see okralong model list.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the file. Default: models in the cache folder (OKRALONG_CACHE).")
    ] = None,
) -> None:
    """Download a model, check its hash and record it. Repeat the command to resume.

    Proxies come from HTTPS_PROXY, a mirror from HF_ENDPOINT, a token from HF_TOKEN.
    """
    from okralong.pipelines.models.downloads import download, named

    console = Console()
    row = named(name)
    say_line(console, f"{name}: {row.file} of {row.repository}, {row.gigabytes:g} GB, licence {row.licence}")
    found = download(name, folder)
    say_line(console, f"{found.file}, sha256 {found.sha256}", style="green")
    say_line(console, f"Use it with llm.model: {name} in answer.yaml, or --base-url embedded --model {name}.")


@model_app.command("list")
def list_() -> None:
    """List the models that can be downloaded, what each needs, and which are here."""
    from okralong.pipelines.models.downloads import downloaded, machine, model_table, recommended

    console = Console()
    memory, cores = machine()
    for name, row in model_table().items():
        say_line(
            console,
            f"{name}: {row.file} of {row.repository}, {row.licence}, {row.parameters:g} billion parameters, window "
            f"{row.window:,}, {row.gigabytes:g} GB on disk, {row.memory_needed_gb(cores):.1f} GB of memory, about "
            f"{row.prompt_speed(cores):.0f} prompt tokens/s here (estimate)",
        )
        try:
            found = downloaded(name)
            say_line(console, f"     here: {found.file if found else ''}", style="green")
        except OkraError as error:
            say_line(console, f"     {error}")
    best = recommended(memory, cores)
    say_line(console, f"Recommended for {memory:.0f} GB and {cores} cores: {best or 'none of them'}.")
