"""Open an archive and query it, in a separate process: processor time, and memory by kind.

python -m benchmarks.scaling.asking ARCHIVE      prints JSON
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.scaling.meter import private_mib
from okralong.pipelines.answering.retrieve import fuse
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search

K: Final = 20
WORDS: Final = 6
"""Search terms of a question: one of twelve words has about that many that are not stop words."""
QUESTIONS: Final = 24
TIMES: Final = 3


def ask(location: str) -> dict[str, Any]:
    """Return processor milliseconds and MiB of private memory of opening and querying an archive.

    Opening includes all shards; one question is about a document and one about everything (both retrievers, fused;
    warm, best of three, median over questions).
    """
    before, started = private_mib(), time.process_time()
    archive = Archive.open(location)
    documents = archive.doc_ids()
    opened = time.process_time()
    size = archive.granularities[0]
    clients = archive.clients(size)
    mapped, holding = time.process_time(), private_mib()
    asked = asyncio.run(_questions(archive, size, np.random.default_rng(0)))
    found: dict[str, Any] = {
        "documents": len(documents),
        "open_ms": 1000 * (opened - started),
        "open_shards_ms": 1000 * (mapped - opened),
        "open_mib": holding - before,
    }
    for name, scoped in (("document", True), ("archive", False)):
        spent = [
            asyncio.run(_best(clients, query, vector, (doc_id,) if scoped else ())) for query, vector, doc_id in asked
        ]
        found[f"{name}_ms"] = 1000 * statistics.median(spent)
        found[f"{name}_mib"] = private_mib() - before
    return found


async def _questions(
    archive: Archive, size: int, draw: np.random.Generator
) -> list[tuple[str, NDArray[np.float32], str]]:
    """Yield words of a chunk, a vector with a cosine of 0.6 to its own, and its document."""
    asked = []
    for number in draw.integers(archive.n_shards, size=QUESTIONS).tolist():
        shard = archive.shard(size, number)
        if not shard.n_chunks:
            continue
        row = int(draw.integers(shard.n_chunks))
        (chunk,) = shard.chunks([row])
        words = chunk.text.split()
        away = draw.standard_normal(shard.vectors.shape[1])
        vector = 0.6 * shard.vectors[row] + 0.8 * away / np.linalg.norm(away)
        query = " ".join(draw.choice(words, size=min(WORDS, len(words)), replace=False))
        asked.append((query, (vector / np.linalg.norm(vector)).astype(np.float32), chunk.doc_id))
    return asked


async def _best(clients: Any, query: str, vector: NDArray[np.float32], scope: tuple[str, ...]) -> float:
    spent = []
    for _ in range(TIMES):
        started = time.process_time()
        hits = fuse(await search(clients, query, vector, scope, K), 1.0, 1.0)
        spent.append(time.process_time() - started)
        assert hits, "a chunk's own words find nothing"
    return min(spent)


if __name__ == "__main__":
    print(json.dumps(ask(str(Path(sys.argv[1]).resolve()))))
