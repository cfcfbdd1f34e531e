"""Replies that other runs have paid for: a run that sends an equal request takes their reply and pays nothing.

The request hash covers everything that can change a reply, so an equal hash is the whole condition. What is read is
what the other runs had when this one was started; a reply that one of them receives later is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow.compute as pc

from okralong.pipelines.answering.journal import read_run_table
from okralong.pipelines.answering.llm.calls import Call, Outcome
from okralong.pipelines.answering.llm.replies import RawReply, from_journal, to_journal
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError

_COLUMNS: Final = ["kind", "request_hash", "body"]


@dataclass(frozen=True)
class SharedReplies:
    """The replies of some runs, by request hash: the run that has it, and the body of its journal row."""

    bodies: dict[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def load(cls, runs: Sequence[str]) -> SharedReplies:
        """What the journals of ``runs`` hold now; of two runs that have a reply, the one named first gives it.

        Raises ArchiveError when a journal is of another schema version.
        """
        bodies: dict[str, tuple[str, str]] = {}
        for run in runs:
            journal = read_run_table(Folder.of(run), "journal", _COLUMNS)
            for row in journal.filter(pc.equal(journal["kind"], "reply")).to_pylist():
                bodies.setdefault(row["request_hash"], (run, row["body"]))
        return cls(bodies)

    def take(self, call: Call) -> tuple[RawReply, Outcome] | None:
        """The reply to an equal request and the outcome that the ledger is told, or None when nobody has asked it.

        Its tokens are those that the other run paid for, at the prices of this one; it costs nothing.
        """
        if call.request_hash not in self.bodies:
            return None
        run, body = self.bodies[call.request_hash]
        known = from_journal(body)
        free = replace(known, reply=replace(known.reply, cost_usd=0.0, latency_s=0.0, queue_s=0.0))
        said = f"the reply to an equal request, from the run {run}"
        return free, Outcome(call, "cached", 0, free.reply.usage, 0.0, 0.0, error=said, reply=to_journal(free))


def sharing_runs(runs: Sequence[str]) -> tuple[str, ...]:
    """The absolute places of the runs that a config names. Raises ConfigError for one that has no journal."""
    places = []
    for run in runs:
        folder = Folder.of(run)
        if not folder.exists("journal"):
            raise ConfigError(
                f"replies_from names {run}, which holds no journal: it is no run folder, or nothing was asked there "
                "yet. Give folders that okralong answer --run has written, or take it out. Nothing was spent."
            )
        places.append(folder.path if folder.is_local else run)
    return tuple(places)
