"""One budget for many cells: a cell's share is taken out before it begins, and what is left is put back after it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from okralong.pipelines.core.storage import MANIFEST, Folder
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.replay import calls_begun

# --------
# One budget for many cells: what a cell may spend is taken out before it begins, and its rest put back after it.

HELD: Final = ("ok", "unknown")
"""Statuses of attempts that cost something, or may have."""


@dataclass
class SharedBudget:
    """``total_usd`` for all cells, None without a cap; ``spent`` is what each has cost before.

    The grants of cells that run and what all others have spent never pass the total together. Safe between threads.
    """

    total_usd: float | None
    spent: dict[str, float]
    _granted: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def free_usd(self) -> float | None:
        """What is neither spent nor granted."""
        if self.total_usd is None:
            return None
        idle = sum(usd for cell, usd in self.spent.items() if cell not in self._granted)
        return max(0.0, self.total_usd - idle - sum(self._granted.values()))

    def grant(self, cell: str, sharers: int) -> float | None:
        """The cap of a cell, with what it has spent before: an even share of what is free for the ``sharers``, the cell
        itself among them, that may be waiting for some. None without a cap."""
        with self._lock:
            free = self.free_usd
            if free is None:
                return None
            self._granted[cell] = self.spent.get(cell, 0.0) + free / max(1, sharers)
            return self._granted[cell]

    def settle(self, cell: str, spent_usd: float) -> None:
        """A cell has ended and has cost so much in all: the rest of its grant is free again."""
        with self._lock:
            self._granted.pop(cell, None)
            self.spent[cell] = spent_usd


def spent_usd(run: Folder) -> float:
    """What a run folder counts against its cap: what was billed, and the reserves of attempts of unknown end.

    A process that was killed left attempts without a ledger row, which the run's next process writes: they count here
    already, since other cells may be given the rest before.
    """
    rows = read_run_table(run, "ledger", ["call_id", "attempt", "status", "cost_usd"]).to_pylist()
    settled = {(row["call_id"], row["attempt"]) for row in rows}
    owed = {} if run.exists(MANIFEST) else calls_begun(run)
    counted = [row for row in rows if row["status"] in HELD]
    counted += [call for key, call in owed.items() if key not in settled and call["status"] in HELD]
    return math.fsum(row["cost_usd"] or 0.0 for row in counted)


def spent_before(folders: Mapping[str, Folder]) -> dict[str, float]:
    """By cell: what its folder holds already."""
    return {cell: spent_usd(folder) for cell, folder in folders.items()}
