"""Share one budget among many cells: a grant is reserved before a cell starts, and its rest released at the end."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.llm.journal import FragmentedTable, read_run_table, read_settled
from okralong.pipelines.llm.records import CallKey

HELD: Final = ("ok", "unknown")
"""Statuses of attempts that cost something, or may have."""


@dataclass
class SharedBudget:
    """The budget of all cells. ``total_usd`` is None without a cap; ``spent`` has what each cell has cost so far.

    The grants of running cells plus the costs of all others never exceed the total. Thread-safe.
    """

    total_usd: float | None
    spent: dict[str, float]
    _granted: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def free_usd(self) -> float | None:
        """The dollars that are neither spent nor granted; None without a cap."""
        if self.total_usd is None:
            return None
        idle = sum(usd for cell, usd in self.spent.items() if cell not in self._granted)
        return max(0.0, self.total_usd - idle - sum(self._granted.values()))

    def grant(self, cell: str, sharers: int) -> float | None:
        """Grant a cell an equal share of the free dollars, and return its cap, which includes its earlier costs.

        ``sharers`` is the number of cells that may need a share, including this one. Returns None without a cap.
        """
        with self._lock:
            free = self.free_usd
            if free is None:
                return None
            self._granted[cell] = self.spent.get(cell, 0.0) + free / max(1, sharers)
            return self._granted[cell]

    def settle(self, cell: str, spent_usd: float) -> None:
        """Record the total cost of a cell that has ended, and release the rest of its grant."""
        with self._lock:
            self._granted.pop(cell, None)
            self.spent[cell] = spent_usd


def spent_usd(run: Folder) -> float:
    """Return the dollars that count against the cap of a run: those billed, and reserves whose outcome is unknown.

    A killed process leaves attempts that have no ledger row until the run's next process writes it. They are counted
    here, because the dollars might be granted to other cells before then.
    """
    rows = read_run_table(run, "ledger", ["call_id", "attempt", "status", "cost_usd"]).to_pylist()
    settled = {(row["call_id"], row["attempt"]) for row in rows}
    owed = {} if run.exists(MANIFEST) else calls_begun(run)
    counted = [row for row in rows if row["status"] in HELD]
    counted += [call for key, call in owed.items() if key not in settled and call["status"] in HELD]
    return math.fsum(row["cost_usd"] or 0.0 for row in counted)


def spent_before(folders: Mapping[str, Folder]) -> dict[str, float]:
    """Return the dollars spent so far in the folder of each cell."""
    return {cell: spent_usd(folder) for cell, folder in folders.items()}


def calls_begun(run: Folder) -> dict[CallKey, Mapping[str, Any]]:
    """Return the attempts in a run's journal, each as its ledger row, or as the row it will have if it has none yet.

    Another process may be writing the run. Raises ArchiveError if its files keep disappearing.
    """

    def calls(journal: FragmentedTable) -> dict[CallKey, Mapping[str, Any]]:
        begun: dict[CallKey, Mapping[str, Any]] = {}
        for table in journal.read_fragments(["kind", "body"]):
            for body in table.filter(pc.is_in(table["kind"], pa.array(["request", "reply"])))["body"].to_pylist():
                call = json.loads(body)["call"]
                begun[call["call_id"], call["attempt"]] = call
        return begun

    return read_settled(run, "journal", calls)
