"""Read the workbooks that people give to commands in a confined process: a small one may be crafted to take hours.

    python -m okralong.pipelines.core.workbook_process SECONDS MEMORY PARENT

The process reads one workbook, a frame on standard input, and writes its sheets to standard output as a frame each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any, Final

from okralong.pipelines.core.confined_process import (
    CLOCK_SECONDS_PER_CPU_SECOND,
    OUT_OF_MEMORY,
    ConfinedProcess,
    FrameReader,
    Head,
    ProcessLost,
    allow_seconds,
    confine,
    end_with_parent,
    silence,
    write_frame,
)
from okralong.pipelines.core.types import DocumentError
from okralong.pipelines.core.workbooks import Cell, Layout, Sheet, address, read_workbook

SECONDS: Final = 120.0
MEMORY_BYTES: Final = 2 << 30
MOST_BYTES: Final = 200_000_000
"""Processor time, memory and size of a workbook: the defaults of ``LimitsConfig`` for documents."""
_MOST_SHEET_BYTES: Final = 1 << 30
"""The largest sheet that is received; its process has less than twice as much. # project default"""


_MOST_PLACES: Final = 20_000_000
"""Cells of a sheet's rows, with the empty ones before the last: rows of one far cell would fill the memory. # project
default"""


@dataclass(frozen=True, slots=True)
class ReadSheet:
    """A sheet that was read: its rows by number, with the cells that are neither empty nor blank.

    ``problem`` says why it has no rows.
    """

    uri: str
    name: str
    hidden: bool
    rows: dict[int, list[Cell]]
    problem: str = ""

    def cells(self) -> dict[int, list[Cell]]:
        """Return the rows. Raises DocumentError if the sheet is damaged."""
        if self.problem:
            raise DocumentError(self.problem)
        return self.rows

    def values(self) -> Iterator[list[Any]]:
        """Yield the values of each row from the first, None for an empty cell.

        Raises:
            DocumentError: The sheet is damaged, or a formula has no saved value.
        """
        expected, places = 1, 0
        for number, cells in self.cells().items():
            yield from ([] for _ in range(expected, number))
            places += cells[-1].column + 1
            if places > _MOST_PLACES:
                raise DocumentError(
                    f"{self.uri}, sheet {self.name}, row {number}, ends in column "
                    f"{address(number, cells[-1].column)} like many others. Delete the columns that no header names."
                )
            values: list[Any] = [None] * (cells[-1].column + 1)
            for cell in cells:
                if cell.formula:
                    raise DocumentError(
                        f"{self.uri}, sheet {self.name}, cell {address(number, cell.column)}, has a formula without a "
                        f"saved value ({cell.formula}). Open the file in a spreadsheet program and save it."
                    )
                values[cell.column] = cell.value
            yield values
            expected = number + 1


def read_sheets(data: bytes, uri: str) -> list[ReadSheet]:
    """Return the sheets of a workbook called ``uri``, also hidden ones, in order.

    Raises:
        DocumentError: The file is not a workbook, or needs too much time or memory.
    """
    if len(data) > MOST_BYTES:
        raise DocumentError(f"{uri} has {len(data) / 1e6:.0f} MB, more than {MOST_BYTES / 1e6:.0f}. Split it.")
    process = ConfinedProcess(__spec__.name, str(SECONDS), str(MEMORY_BYTES), most_body=_MOST_SHEET_BYTES)
    deadline = time.monotonic() + SECONDS * CLOCK_SECONDS_PER_CPU_SECOND
    found: list[ReadSheet] = []
    try:
        process.send({"uri": uri}, data)
        while True:
            head, body = process.read(deadline)
            if head["kind"] == "bad":
                raise DocumentError(str(head["why"]))
            if head["kind"] == "done":
                return found
            rows = {int(number): [_received(each) for each in cells] for number, cells in json.loads(body)}
            found.append(ReadSheet(uri, str(head["name"]), bool(head["hidden"]), rows, str(head["problem"])))
    except ProcessLost as lost:
        needs = {
            "memory": f"needs more than {MEMORY_BYTES / 2**30:g} GiB of memory",
            "processor": f"takes more than {SECONDS:g} s of processor time",
        }.get(lost.loss.how, "ended the process that read it, or took too long")
        raise DocumentError(
            f"{uri} {needs}. Copy the rows into a new workbook, or save the sheet as CSV, and give that."
        ) from None
    finally:
        process.end()


def _sent(cell: Cell) -> list[Any]:
    value = cell.value
    if isinstance(value, datetime | date | time_of_day):
        value = [type(value).__name__, value.isoformat()]
    elif isinstance(value, timedelta):
        value = ["timedelta", value.total_seconds()]
    return [cell.column, value, *cell[2:]]


def _received(given: list[Any]) -> Cell:
    column, value, *rest = given
    if isinstance(value, list):
        kind, words = value
        value = timedelta(seconds=words) if kind == "timedelta" else _TIMES[kind].fromisoformat(words)
    return Cell(column, value, *rest)


_TIMES: Final[dict[str, Any]] = {"datetime": datetime, "date": date, "time": time_of_day}


def main() -> None:
    """Read one workbook; the arguments are seconds, bytes of memory and the parent's process id."""
    seconds, memory_bytes, parent = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    end_with_parent(parent)
    with os.fdopen(os.dup(1), "wb") as out:
        confine(memory_bytes)
        silence()
        write_frame(out, {"kind": "ready"})
        try:
            head, data = FrameReader(0, MOST_BYTES).read(time.monotonic() + seconds)
            allow_seconds(seconds)
            book = read_workbook(data, str(head["uri"]))
            for sheet in book.sheets + book.hidden_sheets:
                write_frame(out, *_frame(sheet, hidden=sheet in book.hidden_sheets))
            write_frame(out, {"kind": "done"})
        except DocumentError as error:
            write_frame(out, {"kind": "bad", "why": str(error)})
        except MemoryError:
            os._exit(OUT_OF_MEMORY)


def _frame(sheet: Sheet, *, hidden: bool) -> tuple[Head, bytes]:
    rows, problem = [], ""
    try:
        rows = [
            (row.number, cells)
            for row in sheet.rows(Layout())
            if (cells := [_sent(cell) for cell in row.cells if not _is_blank(cell)])
        ]
    except DocumentError as error:
        problem = str(error)
    return {"kind": "sheet", "name": sheet.name, "hidden": hidden, "problem": problem}, json.dumps(
        [row for row in rows if row[1]]
    ).encode()


def _is_blank(cell: Cell) -> bool:
    return isinstance(cell.value, str) and not (cell.value.strip() or cell.calculated or cell.error)


if __name__ == "__main__":
    main()
