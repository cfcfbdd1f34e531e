"""``okralong index``: a folder of documents in, an archive of chunks, embeddings and a search index out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from okralong.pipelines.errors import EXIT_FAILURES


def command(
    archive: Annotated[str, typer.Argument(help="The archive: a folder, or a URI that pyarrow knows (s3://, gs://).")],
    sources: Annotated[list[Path], typer.Option("--from", help="A folder or file of documents; may be repeated.")],
    config: Annotated[str, typer.Option(help="A YAML config; see configs/index.yaml.")] = "index.yaml",
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Read documents, cut them into chunks, embed the chunks and build the search index."""
    from okralong.jobs.progress import IndexBar

    from okralong.actors.cluster import connected
    from okralong.pipelines.indexing.job import index_archive
    from okralong.pipelines.indexing.settings import IndexConfig
    from okralong.pipelines.settings import load_config

    console = Console()
    settings = load_config(IndexConfig, config)
    with connected(address), IndexBar(console) as bar:
        result = index_archive(archive, [str(source) for source in sources], settings, progress=bar.update)
    console.print(result.summary(), highlight=False)
    for failure in result.failures[:5]:
        console.print(f"  not read: {failure}", markup=False, highlight=False)
    if len(result.failures) > 5:
        console.print(f"  ... and {len(result.failures) - 5} more in {archive}/failures")
    if result.failures:
        raise typer.Exit(EXIT_FAILURES)
