"""The pilot: which questions are answered for real before the others, so that they teach the most about them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from okralong.pipelines.answering.estimate.forecast import Outlook


def draw_pilot(outlooks: Sequence[Outlook], size: int, seed: int) -> list[str]:
    """The query_ids of ``size`` questions (all, if there are fewer): one of each workflow, then in proportion.

    A larger pilot of one seed holds the smaller ones, so that it pays only for what it adds.
    """
    workflows: dict[str, list[str]] = defaultdict(list)
    for outlook in outlooks:
        workflows[outlook.workflow].append(outlook.query_id)
    places: dict[str, tuple[bool, float, str]] = {}
    for members in workflows.values():
        members.sort(key=lambda query_id: hashlib.sha256(f"{seed}/{query_id}".encode()).digest())
        for rank, query_id in enumerate(members):
            places[query_id] = rank > 0, (rank + 0.5) / len(members), query_id
    return sorted(places, key=lambda query_id: places[query_id])[:size]
