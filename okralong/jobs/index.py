"""``okralong index``: bring an archive up to date with its sources."""

from __future__ import annotations

import time
from collections.abc import Mapping
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from okralong.jobs.options import Address, IndexOptions
from okralong.jobs.terminal import say_line, seconds_by_stage
from okralong.pipelines.core.stopping import saying
from okralong.pipelines.core.types import EXIT_FAILURES
from okralong.pipelines.core.wording import agreeing, counted

if TYPE_CHECKING:
    from okralong.pipelines.indexing.job import IndexResult

FAILURES_SHOWN: Final = 5
OCR_REMEDY: Final = "pip install '.[ocr]' in the checkout, and ocr: auto in the index config"


def index(
    archive: Annotated[
        str, typer.Argument(help="The archive: a folder, or a URI supported by pyarrow (s3://, gs://).")
    ],
    *,
    sources: Annotated[list[str], typer.Option("--from", help="A folder, file or URI of documents; may be repeated.")],
    options: IndexOptions,
    address: Address = None,
) -> None:
    """Read documents, split them into chunks, embed the chunks and build the search index."""
    from okralong.actors.cluster import connected, placement_notes
    from okralong.actors.index_streams import index_archive
    from okralong.jobs.terminal import IndexPanel, ray_lines
    from okralong.pipelines.indexing.listing import check_local

    console = Console()
    check_local(sources)
    settings = options.settings()
    stopped = (
        "Stopped. The archive is unchanged. Files already read and texts already embedded are kept next to it; "
        "run the same command again to resume."
    )
    began = time.monotonic()
    with saying(stopped), ray_lines(console, archive), IndexPanel(console) as panel:
        panel.phase("Ray", "starting" if address is None else f"connecting to {address}")
        with connected(address):
            for note in placement_notes(settings.placement):
                say_line(console, note, style="yellow")
            started = time.monotonic() - began
            panel.phase("files", "listing and comparing with the archive")
            result = index_archive(archive, sources, settings, progress=panel.update, rehash=options.rehash)
    _summary(console, result, {"Ray": started, **result.seconds}, time.monotonic() - began)
    if result.failures:
        raise typer.Exit(EXIT_FAILURES)


PARTIAL_SHOWN: Final = 3
PARTIAL_CHARS: Final = 160


def _partial(documents: int, messages: list[str], archive: str) -> str:
    """Return the line about documents that were read in part."""
    short = (message.replace(" was read in part. Not read: ", ": ", 1) for message in messages[:PARTIAL_SHOWN])
    said = " ".join(shorten(message, PARTIAL_CHARS, placeholder=" …") for message in short)
    more = f" List all with: okralong failures {archive}" if len(messages) > PARTIAL_SHOWN else ""
    return f"{counted(documents, 'document')} {agreeing(documents, 'was')} read in part: {said}{more}"


def _done(what: str, count: int) -> str:
    """Format an entry of ``IndexResult.work``, such as ``files_read``."""
    nouns, done = what.split("_")
    return f"{counted(count, nouns.removesuffix('s'))} {done}"


def _summary(console: Console, result: IndexResult, seconds: Mapping[str, float], total: float) -> None:
    from okralong.pipelines.archive.archive import Archive

    chunks = ", ".join(f"{count:,} of {size} tokens" for size, count in result.chunks.items())
    lines = [f"{result.archive}, version {result.version}: {counted(result.documents, 'document')}, chunks: {chunks}"]
    if result.up_to_date:
        lines.append("up to date: neither documents nor config have changed")
    else:
        lines.append("documents: " + ", ".join(f"{count:,} {what}" for what, count in result.changes.items()))
        lines.append("work: " + ", ".join(_done(what, count) for what, count in result.work.items()))
        lines.append(f"seconds: {seconds_by_stage(seconds, total)}")
    for size, count in result.over_limit.items():
        if count:
            longer = f"{counted(count, 'chunk')} of {size} tokens {agreeing(count, 'exceeds')} the encoder's limit"
            lines.append(f"{longer}; {agreeing(count, 'its')} ends are not embedded")
    opened = Archive.open(f"{result.archive}@{result.version}")
    if not opened.has_vectors:
        lines.append("no vectors: searches use BM25 only (embedding.of: none)")
    ocr = opened.manifest.get("ocr") or {}
    if ocr.get("pages"):
        lines.append(f"OCR: {counted(ocr['pages'], 'page')} of {counted(ocr['documents'], 'document')}")
    if ocr.get("pages_without_text"):
        pages = int(ocr["pages_without_text"])
        have, were = agreeing(pages, "has"), agreeing(pages, "was")
        lines.append(f"{counted(pages, 'page')} {have} no readable text and {were} not read: {OCR_REMEDY}")
    if note := (opened.manifest.get("metadata") or {}).get("note"):
        lines.append(note)
    if partly := opened.read_in_part():
        lines += [_partial(opened.manifest["read_in_part"], partly, result.archive)]
    failed = opened.failures()
    lines += [f"not read: {message}" for message in failed[:FAILURES_SHOWN]]
    if len(failed) > FAILURES_SHOWN:
        lines.append(f"... and {len(failed) - FAILURES_SHOWN} more; list all with: okralong failures {result.archive}")
    for line in lines:
        say_line(console, line)
