"""Exported Excel files in which a person has filled in ``corrected`` and ``note``.

``read_filled`` reads a file; ``changes_of`` compares it with what was exported (``workbook.Marks``) and with the run as
it is now. Rows are found by query_id, so they may be sorted, filtered or deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.core.types import DocumentError, InputError
from okralong.pipelines.core.wording import counted, shortened
from okralong.pipelines.core.workbook_process import read_sheets
from okralong.pipelines.core.workbooks import Cell
from okralong.pipelines.reporting.workbook import MARK_COLUMNS, MARKS, answer_hash, run_id_of
from okralong.pipelines.run.corrections import Correction, Wanted, answer_of, value_read

ANSWERS: Final = "answers"
"""The sheet that is read."""
SHOWN_CHARS: Final = 80
"""Maximum length of an answer in a message. # project default"""


@dataclass(frozen=True, slots=True)
class FilledCell:
    """A row of the sheet: its number, and why it cannot be read, or ""."""

    row: int
    query_id: str
    corrected: str = ""
    note: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A row of ``workbook.Marks``."""

    query_id: str
    answer: str
    answer_hash: str
    corrected: str
    note: str


@dataclass(frozen=True, slots=True)
class Filled:
    """A filled file. ``facts`` and ``marks`` (by query_id) are what it was exported with."""

    file: str
    facts: Mapping[str, str]
    marks: Mapping[str, Mark]
    cells: Sequence[FilledCell]


def read_filled(file: str | Path) -> Filled:
    """Read a file. Raises InputError if it is not an Excel file that ``okralong export`` wrote."""
    try:
        sheets = {each.name: each for each in read_sheets(Path(file).read_bytes(), str(file))}
        if MARKS not in sheets or ANSWERS not in sheets:
            raise InputError(
                f"{file} lacks the sheet {ANSWERS} or the hidden sheet {MARKS} that okralong export writes, so it "
                "cannot be compared with the run. Export again with okralong export FOLDER --to answers.xlsx, fill in "
                "that file and save it as .xlsx. Nothing was recorded."
            )
        marked, rows = sheets[MARKS].cells(), sheets[ANSWERS].cells()
    except FileNotFoundError:
        raise InputError(f"There is no file {file}.") from None
    except (OSError, DocumentError) as error:
        raise InputError(f"{str(error).rstrip('.')}. Nothing was recorded.") from None
    width = len(MARK_COLUMNS)
    lines = [[_plain(row.get(column)) for column in range(width)] for row in map(_by_column, marked.values())]
    start = next((at for at, line in enumerate(lines) if tuple(line) == MARK_COLUMNS), len(lines))
    facts = {line[0]: line[1] for line in lines[:start]}
    marks = {line[0]: Mark(*line) for line in lines[start + 1 :]}
    return Filled(str(file), facts, marks, list(_cells(str(file), rows)))


def _by_column(cells: Sequence[Cell]) -> dict[int, Cell]:
    return {cell.column: cell for cell in cells}


def _plain(cell: Cell | None) -> str:
    return "" if cell is None else str(cell.value)


def _cells(file: str, rows: Mapping[int, Sequence[Cell]]) -> Iterator[FilledCell]:
    """Yield the rows of the sheet that have an id or are filled in. Raises InputError if a column is missing."""
    head = {_plain(cell).strip(): cell.column for cell in reversed(rows.get(1, ()))}
    if missing := [name for name in ("query_id", "corrected") if name not in head]:
        raise InputError(
            f"{file}, sheet {ANSWERS}: row 1 has no column {' and no column '.join(missing)}. Restore the header of "
            "the export. Nothing was recorded."
        )
    for number, row in rows.items():
        if number == 1:
            continue
        by_column = _by_column(row)
        cells = {name: by_column.get(head[name]) for name in ("query_id", "corrected", "note") if name in head}
        told = [f"{name} {why}" for name in ("corrected", "note") if (why := _refused(cells.get(name)))]
        words = {name: "" if told else _words(cell) for name, cell in cells.items()}
        query_id = _plain(cells["query_id"]).strip()
        if query_id or told or words["corrected"] or words.get("note"):
            yield FilledCell(number, query_id, words["corrected"], words.get("note", ""), "; ".join(told))


def _refused(cell: Cell | None) -> str:
    """Return why a cell is not read, or ""."""
    if cell is not None and (formula := cell.formula or cell.calculated):
        return f"is a formula ({_short(formula)}): write the value itself"
    if cell is not None and cell.error:
        return f"is an error ({cell.value}): write the value itself"
    return ""


def _words(cell: Cell | None) -> str:
    """Return a cell as a person sees it: 0.12 in a cell of percentages as "12 %", an amount with its currency."""
    if cell is None:
        return ""
    value = cell.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ", "seconds")
    if isinstance(value, date):
        return value.isoformat()
    if not isinstance(value, int | float):
        return str(value).strip()
    shown = re.sub(r"\[(?!\$)[^\]]*\]", "", str(cell.number_format or ""))  # colors and conditions
    figure = Decimal(repr(value)) * 100 if "%" in shown else Decimal(repr(value))
    digits = f"{figure:f}".rstrip("0").rstrip(".") if "." in f"{figure:f}" else f"{figure:f}"
    if "%" in shown:
        return f"{digits} %"
    named = re.search(r"\[\$([^\]-]+)", shown)
    sign = named[1].strip() if named else next((each for each in "$€£¥" if each in shown.replace("[$", "")), "")
    return f"{sign} {digits}" if sign else digits


# --------
# Comparing files with the run.


@dataclass(frozen=True, slots=True)
class Changes:
    """What a file changes.

    Attributes:
        wanted: The cells to record.
        problems: Why rows cannot be recorded, a sentence each.
        conflicts: Which cells differ from another file or from what the run holds by now, a sentence each. Those of
            questions that are still asked are among ``wanted``.
        notes: What a person should know besides.
    """

    wanted: Sequence[Wanted]
    problems: Sequence[str]
    conflicts: Sequence[str]
    notes: Sequence[str]


def changes_of(
    files: Sequence[Filled],
    begun: Mapping[str, Any],
    answers: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Correction],
) -> Changes:
    """Compare filled files with a run.

    Args:
        files: The files.
        begun: The run's ``run.json``.
        answers: Its rows of ``answers`` by query_id.
        known: Its corrections that stand.

    Raises:
        InputError: A file was exported from another run or nightly.
    """
    wanted: dict[str, tuple[Wanted, str]] = {}
    problems: list[str] = []
    conflicts: list[str] = []
    notes: list[str] = []
    for filled in files:
        notes += _provenance(filled, begun)
        held = {cell.query_id for cell in filled.cells}
        if lost := [each for each in filled.marks if each not in held]:
            named = ", ".join(lost[:5]) + (" ..." if len(lost) > 5 else "")
            missing = f"{counted(len(lost), 'row')} of the export that the file lacks"
            notes.append(f"{filled.file}: skipped {missing}: {named}")
        for cell in filled.cells:
            place = f"{filled.file}, sheet {ANSWERS}, row {cell.row}{f' ({cell.query_id})' if cell.query_id else ''}"
            one, problem, conflict = _change(filled, cell, answers, known)
            if problem:
                problems.append(f"{place}: {problem}")
            if one is None:
                if conflict:
                    conflicts.append(f"{place}: {conflict}")
                continue
            before = wanted.get(one.query_id)
            if before is not None and before[0] != one:
                conflicts.append(
                    f"{place}: {_short(one.corrected or '(empty)')} differs from {before[1]}; keep one of them"
                )
            elif conflict:
                conflicts.append(f"{place}: {conflict}")
            wanted[one.query_id] = one, place
    return Changes([one for one, _ in wanted.values()], problems, conflicts, notes)


def _provenance(filled: Filled, begun: Mapping[str, Any]) -> list[str]:
    """Return a note if the file is of an earlier night. Raises InputError if it is of another run or nightly."""
    if filled.facts.get("run_id") != run_id_of(begun):
        place = filled.facts.get("run") or "another run"
        night = f" (night {filled.facts['night']})" if filled.facts.get("night") else ""
        raise InputError(
            f"{filled.file} was exported from {place}{night}, which is another run. Give that folder, or export this "
            "one and copy the corrections into the new file. Nothing was recorded."
        )
    now = str(begun.get("night") or "")
    if filled.facts.get("night") != now:
        return [
            f"{filled.file} was exported in the night {filled.facts.get('night')}, and the newest is {now}: answers "
            "that have changed since are conflicts"
        ]
    return []


def _change(
    filled: Filled, cell: FilledCell, answers: Mapping[str, Mapping[str, Any]], known: Mapping[str, Correction]
) -> tuple[Wanted | None, str, str]:
    """Return what a row changes, why it cannot be recorded at all, and what it conflicts with."""
    if cell.problem:
        return None, f"{cell.problem}.", ""
    if not cell.query_id:
        return None, "it is filled in but has no query_id. Copy the id from the export.", ""
    mark = filled.marks.get(cell.query_id)
    if mark is None:
        return None, "this query_id was not in the export. Restore the id, or clear the row.", ""
    if (cell.corrected, cell.note) == (mark.corrected, mark.note):
        return None, "", ""
    row, standing = answers.get(cell.query_id), known.get(cell.query_id)
    if row is None:
        return None, "", "this question is no longer asked, so it is not recorded. Clear the row."
    now = (standing.entry.corrected, standing.entry.note) if standing else ("", "")
    if now == (cell.corrected, cell.note) and not (standing and standing.reopened):
        return None, "", ""  # recorded before
    if not cell.corrected and not mark.corrected:
        return None, "it has a note but no value in corrected. Write the right answer there.", ""
    if cell.corrected and (why := misfit(row, cell.corrected)):
        return None, why, ""
    one = Wanted(cell.query_id, cell.corrected, cell.note if cell.corrected else "")
    if now != (mark.corrected, mark.note) and standing:
        who = f"{standing.entry.by} on {standing.entry.at:%Y-%m-%d %H:%M} UTC"
        return one, "", f"{who} corrected it to {_short(standing.entry.corrected)} after this file was exported"
    if now != (mark.corrected, mark.note):
        return one, "", "its correction was withdrawn after this file was exported"
    if answer_hash(row) != mark.answer_hash:
        return (
            one,
            "",
            f"the answer has changed since the export: {_short(mark.answer)} is now {_short(answer_of(row))}",
        )
    return one, "", ""


def misfit(row: Mapping[str, Any], corrected: str) -> str:
    """Return why a corrected value does not fit the answer type of a row of ``answers``, or ""."""
    try:
        value_read(row["answer_type"] or "", corrected)
    except ValueError as error:
        kind = row["answer_type"] or "text"
        return f"{_short(corrected)} does not fit the answer_type {_short(kind)}: {error}. Correct the cell."
    return ""


def _short(words: str) -> str:
    return shortened(" ".join(words.split()), SHOWN_CHARS)
