"""``okralong corrections``: record, withdraw and list corrections of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.filesystems import located
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import InputError
from okralong.pipelines.core.wording import counted, shortened
from okralong.pipelines.run.rows import BEGUN, table

if TYPE_CHECKING:
    from okralong.pipelines.run.corrections import Correction, Wanted

SHOWN_CHARS: Final = 100
"""Maximum length of a printed answer. # project default"""


def corrections(
    folder: Annotated[str, typer.Argument(help="A run folder, a nightly's folder, or its folder current.")],
    files: Annotated[
        list[str] | None, typer.Argument(help="Files of okralong export (.xlsx) with the column corrected filled in.")
    ] = None,
    cell: Annotated[str | None, typer.Option(help="The query_id of one answer to correct.")] = None,
    value: Annotated[str | None, typer.Option(help="The right answer of --cell, or unanswerable.")] = None,
    note: Annotated[str, typer.Option(help="A note on the correction of --cell.")] = "",
    withdraw: Annotated[
        list[str] | None, typer.Option(help="A query_id whose correction is withdrawn; may be repeated.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Who corrects; by default the user of the system.")] = None,
    take_mine: Annotated[
        bool, typer.Option("--take-mine", help="Record the values of the files although the run has changed since.")
    ] = False,
    gold: Annotated[
        str | None, typer.Option(help="Also write the gold answers to this file (.jsonl): all that are not reopened.")
    ] = None,
) -> None:
    """Correct answers, from a filled Excel export or one by one; without new values, list the corrections.

    Answers are marked, never overwritten. A correction is reopened when the page that it rests on changes.
    """
    from okralong.pipelines.run.corrections import (
        FOLDER,
        GOLD,
        append_entries,
        corrections_of,
        entries_of,
        gold_bytes,
        gold_rows,
        whoever,
    )

    if (cell is None) != (value is None):
        raise InputError("--cell and --value belong together: --cell QUERY_ID --value 'the right answer'.")
    if note and cell is None:
        raise InputError("--note belongs to --cell. In a file, write notes in the column note.")
    console, run = Console(), run_of(folder)
    if files or cell is not None or withdraw:
        with run.at(FOLDER).locked("okralong corrections"):
            known = corrections_of(run)
            answers = {row["query_id"]: row for row in table(run, "answers")}
            begun = run.read_json(BEGUN)
            wanted = _from_files(console, files or [], begun, answers, known, take_mine)
            wanted += _from_options(run, cell, value, note, withdraw or [], answers, known)
            archive = _archive(console, begun)
            night = str(begun.get("night") or "")
            entries = entries_of(wanted, answers, known, archive, by or whoever(), night)
            append_entries(run, entries)
        for entry in entries:
            before, after = (_short(each) for each in (entry.previous, entry.corrected or "(withdrawn)"))
            say_line(console, f"{entry.query_id}: {before} -> {after}{_as_read(entry.answer_type, entry.corrected)}")
        done = sum(bool(entry.corrected) for entry in entries)
        say_line(console, f"recorded: {counted(done, 'correction')}, withdrawn: {len(entries) - done:,}")
    known = corrections_of(run)
    if not (files or cell is not None or withdraw):
        _list(console, known)
    if known:
        say_line(console, f"gold answers: {counted(len(gold_rows(known)), 'question')} in {run.at(FOLDER, GOLD).path}")
    if gold is not None:
        head, slash, name = gold.rpartition("/")
        Folder.of(head + slash if slash else ".").write_bytes(name, gold_bytes(known))
        say_line(console, f"written: {located(gold)[1]}")


def run_of(location: str) -> Folder:
    """Return the run folder at a location: itself, or the ``current`` of a nightly's folder.

    Raises:
        InputError: The folder is neither.
    """
    from okralong.pipelines.run.nightly import CURRENT

    folder = Folder.of(location)
    for each in (folder, folder.at(CURRENT)):
        if each.exists(BEGUN):
            return each
    raise InputError(
        f"{location} is neither a run folder (it has no {BEGUN}) nor a nightly's folder with a finished night. Give "
        "the folder of okralong answer --run, or the folder in the config of okralong nightly."
    )


def _from_files(
    console: Console,
    files: Sequence[str],
    begun: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Correction],
    take_mine: bool,
) -> list[Wanted]:
    """Return what the files change. Raises InputError with every row that is wrong or conflicts."""
    if not files:
        return []
    from okralong.pipelines.reporting.filled import changes_of, read_filled

    found = changes_of([read_filled(file) for file in files], begun, answers, known)
    for line in found.notes:
        say_line(console, line, style="yellow")
    wrong = [*found.problems, *(() if take_mine else found.conflicts)]
    if wrong:
        how = " To record the values of conflicting rows all the same, add --take-mine." if found.conflicts else ""
        lines = "\n".join(f"- {each}" for each in wrong)
        raise InputError(f"Nothing was recorded: {counted(len(wrong), 'row')} cannot be.{how}\n{lines}")
    for line in found.conflicts:
        say_line(console, f"--take-mine: {line}", style="yellow")
    return list(found.wanted)


def _from_options(
    run: Folder,
    cell: str | None,
    value: str | None,
    note: str,
    withdraw: Sequence[str],
    answers: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Correction],
) -> list[Wanted]:
    """Return what ``--cell`` and ``--withdraw`` ask for. Raises InputError for ids and values that do not fit."""
    from okralong.pipelines.reporting.filled import misfit
    from okralong.pipelines.run.corrections import Wanted

    found = []
    if cell is not None:
        if cell not in answers:
            near = ", ".join(sorted(answers)[:8])
            raise InputError(f"{run.path} has no answer {cell!r}. Its first ones are: {near}. Nothing was recorded.")
        words = (value or "").strip()
        if not words:
            raise InputError(f"--value is empty. To withdraw a correction: --withdraw {cell}. Nothing was recorded.")
        if why := misfit(answers[cell], words):
            raise InputError(f"{cell}: {why} Nothing was recorded.")
        found.append(Wanted(cell, words, note.strip()))
    for query_id in dict.fromkeys(withdraw):
        if query_id not in known:
            there = ", ".join(sorted(known)[:8]) or "none"
            raise InputError(f"{query_id!r} has no correction; corrected are: {there}. Nothing was recorded.")
        found.append(Wanted(query_id, ""))
    return found


def _archive(console: Console, begun: Mapping[str, Any]) -> Any:
    from okralong.pipelines.reporting.cited import archive_of

    archive, missing = archive_of(begun)
    if missing:
        say_line(
            console,
            "The run's archive is missing or has changed: corrections recorded now are not reopened when their pages "
            "change.",
            style="yellow",
        )
    return archive


def _as_read(answer_type: str, words: str) -> str:
    from okralong.pipelines.run.corrections import value_read

    found = value_read(answer_type, words) if words else ""
    return f" (read as {found})" if found and found != words else ""


def _list(console: Console, known: Mapping[str, Correction]) -> None:
    """Print each correction with its state, the reopened ones first."""
    if not known:
        say_line(
            console,
            "no corrections. Fill in the column corrected of an export (okralong export FOLDER --to answers.xlsx), "
            "then run okralong corrections FOLDER answers.xlsx.",
        )
        return
    for query_id, one in sorted(known.items(), key=lambda each: not each[1].reopened):
        say_line(console, f"{query_id}: {_short(one.entry.previous)}, {one}", style="yellow" if one.reopened else "")
        for source in one.entry.sources if one.reopened else ():
            say_line(console, f"    rests on {', '.join(filter(None, (source.doc_id, source.section)))}")
    opened = sum(bool(each.reopened) for each in known.values())
    say_line(console, f"{counted(len(known), 'correction')}, {opened:,} reopened")


def _short(words: str) -> str:
    return shortened(words, SHOWN_CHARS)
