"""Which snapshots of a model wrote a run's replies, and a warning when there are several.

An alias such as ``gpt-4o`` points at another snapshot from one day to the next, and each reply says at which. The
name alone decides: ``system_fingerprint`` differs from server to server of one snapshot, so it is kept and counted, and
nobody is warned of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from okralong.pipelines.answering.llm.ports import Snapshot


def snapshot_rows(replies: Mapping[Snapshot, int]) -> list[dict[str, Any]]:
    """For the manifest: each origin with its count of paid replies, in a fixed order."""
    return [{**origin._asdict(), "replies": count} for origin, count in sorted(replies.items())]


def drift(replies: Mapping[Snapshot, int]) -> str | None:
    """What to tell the user when the replies come from more than one snapshot; None when they do not."""
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
