"""The endpoints, models and dated snapshots that a run's replies came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from okralong.pipelines.core.wording import counted


class Snapshot(NamedTuple):
    """The endpoint and model of a paid reply, and the snapshot and server that it names.

    All four are "" for replies recorded by releases that did not store them.
    """

    endpoint: str
    model: str
    snapshot: str
    system_fingerprint: str


def origin(row: Mapping[str, Any]) -> Snapshot:
    """Return where the reply of a ledger row came from."""
    # Rows of releases that did not record endpoints have a model, but it alone does not identify the origin.
    known = row.get("endpoint") is not None
    return Snapshot(*(row[name] or "" for name in Snapshot._fields)) if known else Snapshot("", "", "", "")


def snapshot_rows(replies: Mapping[Snapshot, int]) -> list[dict[str, Any]]:
    """Return rows for the manifest, in a fixed order: each origin with its number of paid replies."""
    return [{**origin._asdict(), "replies": count} for origin, count in sorted(replies.items())]


def drift(replies: Mapping[Snapshot, int]) -> str | None:
    """Return a warning if the replies come from more than one snapshot, else None.

    An alias such as ``gpt-4o`` may stand for another snapshot from one day to the next; each reply names the snapshot
    that wrote it. Only that name is compared, since ``system_fingerprint`` differs between servers of one snapshot.
    """
    counts: Counter[str] = Counter()
    for origin, count in replies.items():
        if origin.snapshot:
            counts[origin.snapshot] += count
    if len(counts) < 2:
        return None
    named = ", ".join(f"{snapshot} ({counted(count, 'reply')})" for snapshot, count in counts.most_common())
    return (
        f"The replies of this run come from {len(counts)} snapshots: {named}. They may answer differently. Set "
        "llm.model, and that of each of llm.endpoints, to one dated snapshot, and begin another run; totals.snapshots "
        "in the manifest says which endpoint served which."
    )
