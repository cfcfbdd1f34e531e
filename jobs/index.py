"""``okralong index``: a folder of documents in, an archive of chunks, embeddings and a search index out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from okralong.pipelines.core.types import EXIT_FAILURES

if TYPE_CHECKING:
    from okralong.pipelines.indexing.job import IndexResult

FAILURES_SHOWN = 5


def command(
    archive: Annotated[str, typer.Argument(help="The archive: a folder, or a URI that pyarrow knows (s3://, gs://).")],
    sources: Annotated[list[str], typer.Option("--from", help="A folder, file or URI of documents; may be repeated.")],
    config: Annotated[str, typer.Option(help="A YAML config; see configs/index.yaml.")] = "index.yaml",
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Hash every file, also one of known size and time of change.")
    ] = False,
    address: Annotated[str | None, typer.Option(help="A Ray cluster's address; none = a private one here.")] = None,
) -> None:
    """Read documents, cut them into chunks, embed the chunks and build the search index."""
    from okralong.actors.cluster import connected, homes_to_come
    from okralong.jobs.progress import IndexBar
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.job import index_archive

    console = Console()
    settings = load_config(IndexConfig, config)
    with connected(address), IndexBar(console) as bar:
        for note in homes_to_come(settings.placement):
            say_line(console, note, style="yellow")
        result = index_archive(archive, sources, settings, progress=bar.update, rehash=rehash)
    _summary(console, result)
    if result.failures:
        raise typer.Exit(EXIT_FAILURES)


def _summary(console: Console, result: IndexResult) -> None:
    from okralong.jobs.terminal import say_line
    from okralong.pipelines.archive.archive import Archive

    chunks = ", ".join(f"{count:,} of {size} tokens" for size, count in result.chunks.items())
    lines = [f"{result.archive}, version {result.version}: {result.documents} documents, chunks: {chunks}"]
    if result.up_to_date:
        lines.append("up to date: neither the documents nor the config have changed, nothing was done")
    else:
        lines.append("documents: " + ", ".join(f"{count:,} {what}" for what, count in result.changes.items()))
        work = (f"{count:,} {what.replace('_', ' ')}" for what, count in result.work.items())
        lines.append("work: " + ", ".join(work))
        lines.append("seconds: " + ", ".join(f"{stage} {spent:.1f}" for stage, spent in result.seconds.items()))
    for size, count in result.over_limit.items():
        if count:
            lines.append(
                f"{count:,} chunks of {size} tokens are longer than the encoder sees; their tails have no vector"
            )
    if result.skipped:
        lines.append(f"skipped {len(result.skipped)} files of a kind that is not read, e.g. {result.skipped[0]}")
    failures = Archive.open(f"{result.archive}@{result.version}").failures()
    lines += [f"not read: {message}" for message in failures[:FAILURES_SHOWN]]
    if len(failures) > FAILURES_SHOWN:
        lines.append(f"... and {len(failures) - FAILURES_SHOWN} more in {result.archive}/failures")
    for line in lines:
        say_line(console, line)
