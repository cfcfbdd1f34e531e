"""Share one budget among many cells: a cell's grant is reserved before it starts, the rest released at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.replay import calls_begun

HELD: Final = ("ok", "unknown")
"""Statuses of attempts that cost or may have cost something."""


@dataclass
class SharedBudget:
    """The budget of all cells; ``total_usd`` is None without a cap, ``spent`` is what each cell has cost before.

    The grants of running cells and the spending of all others never exceed the total. Thread-safe.
    """

    total_usd: float | None
    spent: dict[str, float]
    _granted: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def free_usd(self) -> float | None:
        """Dollars neither spent nor granted."""
        if self.total_usd is None:
            return None
        idle = sum(usd for cell, usd in self.spent.items() if cell not in self._granted)
        return max(0.0, self.total_usd - idle - sum(self._granted.values()))

    def grant(self, cell: str, sharers: int) -> float | None:
        """Grant a cell an even share of the free dollars, and return its cap including its earlier spending.

        ``sharers`` counts the cells that may be waiting for a share, including this one. Returns None without a cap.
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
    """Return the dollars that a run folder counts against its cap: billed, or reserved with unknown outcome.

    A killed process leaves attempts without a ledger row, which the run's next process writes. They count here already,
    because other cells may be granted the rest before then.
    """
    rows = read_run_table(run, "ledger", ["call_id", "attempt", "status", "cost_usd"]).to_pylist()
    settled = {(row["call_id"], row["attempt"]) for row in rows}
    owed = {} if run.exists(MANIFEST) else calls_begun(run)
    counted = [row for row in rows if row["status"] in HELD]
    counted += [call for key, call in owed.items() if key not in settled and call["status"] in HELD]
    return math.fsum(row["cost_usd"] or 0.0 for row in counted)


def spent_before(folders: Mapping[str, Folder]) -> dict[str, float]:
    """Return the dollars in each cell's folder."""
    return {cell: spent_usd(folder) for cell, folder in folders.items()}
