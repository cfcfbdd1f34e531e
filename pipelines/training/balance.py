"""As many rows of each type as of any other, dealt over the sources in turn."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from okralong.pipelines.answering.analysis import TYPES
from okralong.pipelines.training.rows import TrainingRow


def balanced(rows: Iterable[TrainingRow], per_type: int, seed: int) -> list[TrainingRow]:
    """At most ``per_type`` rows of each type, in a seeded order that does not depend on the order given.

    Rows without a type are left out.

    A source that has fewer rows of a type than its turn would give leaves its place to the others. Within a source,
    rows with passages go first: they teach all three labels.
    """
    ordered = sorted(rows, key=lambda row: (row.source, row.query_id))
    random.Random(seed).shuffle(ordered)
    ordered.sort(key=lambda row: not row.passages)
    hands: dict[tuple[str | None, str], deque[TrainingRow]] = {}
    for row in ordered:
        hands.setdefault((row.type, row.source), deque()).append(row)
    kept = [row for kind in TYPES for row in _dealt([hand for (t, _), hand in hands.items() if t == kind], per_type)]
    random.Random(seed + 1).shuffle(kept)
    return kept


def _dealt(hands: list[deque[TrainingRow]], limit: int) -> list[TrainingRow]:
    kept: list[TrainingRow] = []
    while hands and len(kept) < limit:
        kept += [hand.popleft() for hand in hands[: limit - len(kept)]]
        hands = [hand for hand in hands if hand]
    return kept
