"""Which shard owns a document.

A hash of the doc_id decides. Filling shards evenly in order would balance a small archive better, but every document
that came or went would move others and rebuild every shard; a hash leaves them where they are, needs no table to look
up, and evens out as documents grow many. Scores do not depend on the choice.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

REMEMBERED: Final = 65_536
"""Documents whose shard is remembered; ours: some megabytes, and those that a run's questions are about."""


@lru_cache(maxsize=REMEMBERED)
def shard_of(doc_id: str, shards: int) -> int:
    """The number of the shard, from 0 to ``shards`` - 1, that owns all chunks of a document."""
    digest = hashlib.sha256(doc_id.encode()).digest()
    return int.from_bytes(digest[:8], "big") % shards
