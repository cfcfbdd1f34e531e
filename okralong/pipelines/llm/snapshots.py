"""Which endpoint, model and dated snapshot the replies of a run came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple


class Snapshot(NamedTuple):
    """Where a paid reply came from: the endpoint and the model that were asked, and what the reply names itself.

    All four are "" for replies from before this was kept.
    """

    endpoint: str
    model: str
    snapshot: str
    system_fingerprint: str


def origin(row: Mapping[str, Any]) -> Snapshot:
    """Where the reply of a ledger row came from."""
    # Rows from before endpoints were kept name a model, which alone says nothing of the reply.
    known = row.get("endpoint") is not None
    return Snapshot(*(row[name] or "" for name in Snapshot._fields)) if known else Snapshot("", "", "", "")


def snapshot_rows(replies: Mapping[Snapshot, int]) -> list[dict[str, Any]]:
    """For the manifest: each origin with its count of paid replies, in a fixed order."""
    return [{**origin._asdict(), "replies": count} for origin, count in sorted(replies.items())]


def drift(replies: Mapping[Snapshot, int]) -> str | None:
    """What to tell the user when the replies come from more than one snapshot; None when they do not.

    An alias such as ``gpt-4o`` points at another snapshot from one day to the next, and each reply says at which. The
    name alone decides: ``system_fingerprint`` differs from server to server of one snapshot, so it is kept and counted,
    and nobody is warned of it.
    """
    counts: Counter[str] = Counter()
    for origin, count in replies.items():
        if origin.snapshot:
            counts[origin.snapshot] += count
    if len(counts) < 2:
        return None
    named = ", ".join(f"{snapshot} ({count} replies)" for snapshot, count in counts.most_common())
    return (
        f"The replies of this run come from {len(counts)} snapshots: {named}. They may answer differently. Set "
        "llm.model, and that of each of llm.endpoints, to one dated snapshot, and begin another run; totals.snapshots "
        "in the manifest says which endpoint served which."
    )
