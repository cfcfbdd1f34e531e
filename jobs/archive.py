"""``okralong archive``: the versions of an archive, what changed between them, and taking things away."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer(help="The versions of an archive: log, diff, vacuum, purge.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
IDS_SHOWN = 20


@app.command("log")
def log(archive: Place) -> None:
    """List the versions that can be read, the newest first."""
    from okralong.pipelines.archive.versions import before_versions, read_version, version_numbers
    from okralong.pipelines.core.storage import Folder

    folder = Folder.of(archive)
    numbers = version_numbers(folder)
    old = before_versions(folder)
    if not numbers and old is None:
        _none(archive)
    lines = []
    for number in reversed(numbers):
        manifest = read_version(folder, number)
        changes = manifest.get("changes") or {}
        counts = ", ".join(f"{changes[what]:,} {what}" for what in ("added", "changed", "removed") if changes.get(what))
        purge = f"; purged so far: {', '.join(manifest['purged'])}" if manifest.get("purged") else ""
        lines.append(
            f"version {number}  {manifest['written_at']}  {manifest['documents']:,} documents  {counts or 'no changes'}"
            f"  ({manifest['failures']:,} not read){purge}"
        )
    if old is not None:
        lines.append(f"version 0  {old.get('written_at', '')}  in the layout before versions")
    _say(*lines)


@app.command("diff")
def diff(
    archive: Place,
    old: Annotated[int, typer.Argument(help="A version.")],
    new: Annotated[int | None, typer.Argument(help="A later one; without it, the latest.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Name all documents, not the first ones.")] = False,
) -> None:
    """Name the documents that were added (+), changed (~) and removed (-) between two versions."""
    from okralong.pipelines.archive.versions import diff_versions, read_version, version_numbers
    from okralong.pipelines.core.storage import Folder

    folder = Folder.of(archive)
    numbers = version_numbers(folder) or _none(archive)
    before, after = read_version(folder, old), read_version(folder, numbers[-1] if new is None else new)
    found = diff_versions(folder, before, after)
    lines = [
        f"version {before['version']} to {after['version']}: {len(found.added):,} added, "
        f"{len(found.changed):,} changed, {len(found.removed):,} removed"
    ]
    for mark, doc_ids in (("+", found.added), ("~", found.changed), ("-", found.removed)):
        shown = doc_ids if full else doc_ids[:IDS_SHOWN]
        lines += [f"{mark} {doc_id}" for doc_id in shown]
        if len(shown) < len(doc_ids):
            lines.append(f"{mark} ... and {len(doc_ids) - len(shown):,} more (--full)")
    _say(*lines)


@app.command("vacuum")
def vacuum(
    archive: Place,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions stay.")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and take nothing away.")] = False,
) -> None:
    """Take away old versions, what only they held, and what killed index jobs left behind."""
    from okralong.pipelines.archive.versions import before_versions, version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing import maintenance as work

    folder = Folder.of(archive)
    if not version_numbers(folder) and before_versions(folder) is None:
        _none(archive)
    with folder.locked("okralong archive vacuum"):
        done = work.vacuum(folder, keep, dry_run=dry_run)
    _say(*_vacuumed(done, "would go" if dry_run else "gone"))


@app.command("purge")
def purge(
    archive: Place,
    document: Annotated[str, typer.Argument(help="A doc_id.")],
    run: Annotated[
        list[str] | None, typer.Option(help="A run folder from which it is purged as well; may be repeated.")
    ] = None,
) -> None:
    """Take a document out for good: out of the archive, with all earlier versions, and out of the runs named."""
    from okralong.pipelines.archive.versions import version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.core.types import InputError
    from okralong.pipelines.indexing import maintenance as work
    from okralong.pipelines.run.rows import BEGUN, purge_run

    folder = Folder.of(archive)
    if not version_numbers(folder):
        _none(archive)
    runs = [Folder.of(each) for each in run or ()]
    for each in runs:
        if not each.exists(BEGUN):
            raise InputError(f"{each.path} is no run folder (it has no {BEGUN}). Mend --run; nothing was purged.")
    with folder.locked("okralong archive purge"):
        done = work.purge(folder, document)
    _say(
        f"{document} is purged: version {done.version} is without it, and the only one",
        *_vacuumed(done.vacuumed, "gone"),
    )
    for each in runs:
        questions = purge_run(each, document)
        shown = ", ".join(questions[:IDS_SHOWN]) + (" ..." if len(questions) > IDS_SHOWN else "")
        _say(f"{each.path}: {len(questions)} questions rested on it{': ' if questions else ''}{shown}")
    _say("Not reached: the source files, other runs, backups, the model's logs, and what a provider of a model keeps.")


def _vacuumed(done: Any, word: str) -> list[str]:
    kept, others = (", ".join(map(str, numbers)) or "none" for numbers in (done.kept, done.versions))
    return [
        f"versions kept: {kept}; {word}: {others}",
        f"{word}: {done.files:,} files, {done.bytes / 1e6:,.1f} MB",
    ]


def _none(archive: str) -> Any:
    from okralong.pipelines.core.types import ArchiveError

    raise ArchiveError(
        f"{archive} holds no archive with versions. Check the path, or run okralong index {archive} --from DIR."
    )


def _say(*lines: str) -> None:
    from okralong.jobs.terminal import say_line

    console = Console()
    for line in lines:
        say_line(console, line)
