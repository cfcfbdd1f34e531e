"""``okralong archive``: the versions of an archive."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.core.wording import counted

IDS_SHOWN: Final = 20


archive_app = typer.Typer(
    help="Inspect and clean up the versions of an archive: log, diff, documents, tables, sections, vacuum, purge.",
    no_args_is_help=True,
)

Place = Annotated[str, typer.Argument(help="An archive made by okralong index.")]


@archive_app.command("log")
def log(archive: Place) -> None:
    """List the readable versions, newest first, then the purged documents with time and user."""
    from okralong.pipelines.archive.versions import read_version, version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing.maintenance import purges

    folder = Folder.of(archive)
    numbers = version_numbers(folder) or _none(archive)
    lines = []
    for number in reversed(numbers):
        manifest = read_version(folder, number)
        changes = manifest.get("changes") or {}
        counts = ", ".join(f"{changes[what]:,} {what}" for what in ("added", "changed", "removed") if changes.get(what))
        lines.append(
            f"version {number}  {manifest['written_at']}  {counted(manifest['documents'], 'document')}"
            f"  {counts or 'no changes'}  ({manifest['failures']:,} not read)"
            f"{'  no vectors' if manifest['embedding'].get('of') == 'none' else ''}"
        )
    told = purges(folder)
    lines += [
        f"purged {each['at']} by {each['by']}: {each['doc_id']} from versions "
        f"{', '.join(map(str, each['rewritten'])) or 'none'}; published version {each['version']}"
        for each in reversed(told)
    ]
    before = set(read_version(folder, numbers[-1]).get("purged") or ()) - {each["doc_id"] for each in told}
    if before:
        lines.append(f"purged before purges were logged: {', '.join(sorted(before))}")
    _say(*lines)


@archive_app.command("diff")
def diff(
    archive: Place,
    old: Annotated[int, typer.Argument(help="A version.")],
    new: Annotated[int | None, typer.Argument(help="A later version; the latest if omitted.")] = None,
    full: Annotated[bool, typer.Option("--full", help="List all documents instead of the first ones.")] = False,
) -> None:
    """List the documents added (+), changed (~) and removed (-) between two versions."""
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


@archive_app.command("documents")
def documents(
    archive: Annotated[str, typer.Argument(help="An archive, or one version of it: archive@3.")],
    to: Annotated[
        str | None, typer.Option(help="Write the list to this file: .xlsx, .csv, .jsonl, .parquet or .duckdb.")
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="Include the text of each document.")] = False,
) -> None:
    """List the documents of a version with their metadata."""
    from okralong.pipelines.archive.archive import Archive
    from okralong.pipelines.reporting.export import format_of, write_tables

    kind = format_of(to) if to is not None else None
    opened = Archive.open(archive)
    table = opened.contents(text=text)
    if to is not None and kind is not None:
        (path,) = write_tables({"documents": table}, to, kind)
        _say(f"{path}: {counted(table.num_rows, 'document')} of version {opened.version}")
        return
    for row in table.to_pylist():
        pages = f"  {counted(row['pages'], 'page')}" if row.get("pages") else ""
        day, title = (f"  {row[name]}" if row.get(name) else "" for name in ("date", "title"))
        partly = f"  (not read: {row['not_read']})" if row.get("not_read") else ""
        _say(f"{row['doc_id']}  {counted(row['tokens'], 'token')}{pages}{day}{title}{partly}")
        if text:
            _say(row["text"])
    _say(f"version {opened.version}: {counted(table.num_rows, 'document')}")


@archive_app.command("tables")
def tables(
    archive: Annotated[str, typer.Argument(help="An archive, or one version of it: archive@3.")],
    document: Annotated[str, typer.Argument(help="A doc_id.")],
    page: Annotated[str | None, typer.Option(help="Only tables that begin on this page, sheet or slide.")] = None,
    to: Annotated[
        str | None, typer.Option(help="Write their cells to this file: .xlsx, .csv, .jsonl, .parquet or .duckdb.")
    ] = None,
) -> None:
    """Print the tables that were read from a document, or write a row per cell to a file."""
    from okralong.pipelines.archive.archive import Archive
    from okralong.pipelines.archive.tables import cells_of
    from okralong.pipelines.reporting.export import format_of, write_tables
    from okralong.pipelines.statements.compact import compact
    from okralong.pipelines.statements.text_tables import tables_of

    kind = format_of(to) if to is not None else None
    opened = Archive.open(archive).document(document)
    found = [table for table in tables_of(opened) if page in (None, table.page)]
    if to is not None and kind is not None:
        cells = cells_of(opened, page)
        (path,) = write_tables({"cells": cells}, to, kind)
        _say(f"{path}: {counted(cells.num_rows, 'cell')} of {counted(len(found), 'table')}")
        return
    for table in found:
        _say(*compact(table).splitlines(), "")
    _say(f"{document}: {counted(len(found), 'table')}")


@archive_app.command("vacuum")
def vacuum(
    archive: Place,
    keep: Annotated[int, typer.Option(min=1, help="Number of newest versions to keep.")] = 2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed, but remove nothing.")] = False,
) -> None:
    """Remove old versions, data that only they use, and leftovers of killed index jobs."""
    from okralong.pipelines.archive.versions import version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing import maintenance as work

    folder = Folder.of(archive)
    if not version_numbers(folder):
        _none(archive)
    with folder.locked("okralong archive vacuum"):
        done = work.vacuum(folder, keep, dry_run=dry_run)
    _say(*_vacuumed(done, "would remove" if dry_run else "removed"))


@archive_app.command("purge")
def purge(
    archive: Place,
    document: Annotated[str, typer.Argument(help="A doc_id.")],
    run: Annotated[
        list[str] | None, typer.Option(help="A run folder to purge the document from as well; may be repeated.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation; for use without a terminal.")
    ] = False,
) -> None:
    """Remove a document permanently from every version of the archive and from the given runs.

    Shows first what will be removed, and asks for confirmation.
    """
    from okralong.pipelines.archive.versions import version_numbers
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.indexing import maintenance as work
    from okralong.pipelines.run.rows import BEGUN, purge_run, questions_on

    folder = Folder.of(archive)
    if not version_numbers(folder):
        _none(archive)
    runs = [Folder.of(each) for each in run or ()]
    for each in runs:
        if not each.exists(BEGUN):
            raise InputError(f"{each.path} is not a run folder (it has no {BEGUN}). Correct --run; nothing was purged.")
    plan = work.plan_purge(folder, document)
    numbers = ", ".join(map(str, plan.versions))
    alone = f"; {', '.join(map(str, plan.alone))} contain nothing else and will be removed" if plan.alone else ""
    _say(
        f"{document}: {counted(plan.tokens, 'token')}, read from {', '.join(plan.origins) or 'an unknown file'}",
        f"will be removed from versions {numbers}{alone}; other documents are kept"
        if plan.versions
        else "was purged before; any leftovers will be removed",
        *(
            f"{each.path}: {counted(len(questions_on(each, document)), 'answer')} based on it will be removed"
            for each in runs
        ),
    )
    if not yes:
        _ask(f"purge {document}")
    with folder.locked("okralong archive purge"):
        done = work.purge(folder, document)
    gone = done.vacuumed
    _say(
        f"{document} is purged; the newest version is {done.version}",
        f"removed: {counted(gone.files, 'file')}, {gone.bytes / 1e6:,.1f} MB; data shared with other documents was "
        "rewritten",
    )
    for each in runs:
        questions = purge_run(each, document)
        shown = ", ".join(questions[:IDS_SHOWN]) + (" ..." if len(questions) > IDS_SHOWN else "")
        _say(f"{each.path}: removed answers to {counted(len(questions), 'question')}{': ' if questions else ''}{shown}")
    _say("Not covered: source files, other runs, backups, the model's logs, and data kept by a model provider.")


def _ask(what: str) -> None:
    """Ask for confirmation. Raises InputError if there is no terminal or the user declines."""
    if not sys.stdin.isatty():
        raise InputError(
            f"{what[0].upper()}{what[1:]}: this cannot be undone, and there is no terminal to confirm at. Nothing was "
            "done. Add --yes to proceed without confirmation."
        )
    if not typer.confirm(f"{what[0].upper()}{what[1:]}? This cannot be undone"):
        raise InputError("Nothing was done.")


def _vacuumed(done: Any, word: str) -> list[str]:
    kept, others = (", ".join(map(str, numbers)) or "none" for numbers in (done.kept, done.versions))
    return [
        f"versions kept: {kept}; {word}: {others}",
        f"{word}: {counted(done.files, 'file')}, {done.bytes / 1e6:,.1f} MB",
    ]


def _none(archive: str) -> Any:
    raise ArchiveError(
        f"{archive} is not an archive, or has no versions. Check the path, or run okralong index {archive} --from DIR."
    )


def _say(*lines: str) -> None:
    console = Console()
    for line in lines:
        say_line(console, line)
