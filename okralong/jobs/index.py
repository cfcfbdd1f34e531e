"""``okralong index``: bring an archive up to date with its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from okralong.jobs.options import Address, IndexOptions
from okralong.jobs.terminal import say_line
from okralong.pipelines.core.stopping import saying
from okralong.pipelines.core.types import EXIT_FAILURES

if TYPE_CHECKING:
    from okralong.pipelines.indexing.job import IndexResult

FAILURES_SHOWN: Final = 5
OCR_REMEDY: Final = "pip install 'okralong[ocr]', and ocr: auto in the index config"


def index(
    archive: Annotated[str, typer.Argument(help="The archive: a folder, or a URI that pyarrow knows (s3://, gs://).")],
    *,
    sources: Annotated[list[str], typer.Option("--from", help="A folder, file or URI of documents; may be repeated.")],
    options: IndexOptions,
    address: Address = None,
) -> None:
    """Read documents, cut them into chunks, embed the chunks and build the search index."""
    from okralong.actors.cluster import connected, placement_notes
    from okralong.actors.index_streams import index_archive
    from okralong.jobs.terminal import IndexPanel, ray_lines
    from okralong.pipelines.indexing.listing import check_local

    console = Console()
    check_local(sources)
    settings = options.settings()
    stopped = (
        "Stopped. The archive is as it was. Files that were read and texts that were embedded are kept beside it; "
        "run the same command again to go on from there."
    )
    with saying(stopped), ray_lines(console, archive), IndexPanel(console) as panel:
        panel.phase("Ray", "starts" if address is None else f"at {address}")
        with connected(address):
            for note in placement_notes(settings.placement):
                say_line(console, note, style="yellow")
            panel.phase("files", "are listed and compared with what the archive holds")
            result = index_archive(archive, sources, settings, progress=panel.update, rehash=options.rehash)
    _summary(console, result)
    if result.failures:
        raise typer.Exit(EXIT_FAILURES)


def _summary(console: Console, result: IndexResult) -> None:
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
    opened = Archive.open(f"{result.archive}@{result.version}")
    if not opened.has_vectors:
        lines.append("no vectors: the archive is searched by BM25 alone (embedding.of: none)")
    ocr = opened.manifest.get("ocr") or {}
    if ocr.get("pages"):
        lines.append(f"by OCR: {ocr['pages']:,} pages of {ocr['documents']:,} documents")
    if ocr.get("pages_without_text"):
        lines.append(f"{ocr['pages_without_text']:,} pages have no text layer and were not read: {OCR_REMEDY}")
    if note := (opened.manifest.get("metadata") or {}).get("note"):
        lines.append(note)
    failed = opened.failures()
    lines += [f"not read: {message}" for message in failed[:FAILURES_SHOWN]]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - FAILURES_SHOWN} more; all of them: okralong failures {result.archive}")
    for line in lines:
        say_line(console, line)
