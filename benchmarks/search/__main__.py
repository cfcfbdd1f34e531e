"""Compare search with direct calls of bm25s, FAISS and numpy, alternating between both for each question.

    python -m benchmarks.search --out benchmarks/results/search.md

Makes an archive of 200,000 chunks (synthetic words and vectors: `corpus.py`), with one shard and with four. Measures,
warm and in this process, a question about one document and one about the whole archive, both retrievers fused, against
`direct.py`, and opening mapped shards against reading their files into memory. Both must find the same chunks. Prints
medians; exits with 1 if a ratio exceeds its limit. `--work` keeps the archive.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.search.corpus import GRANULARITY, Asked, Vectors, open_archive, questions
from benchmarks.search.direct import Direct
from okralong.pipelines.answering.retrieve import fuse
from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import LocalShard, search
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.core.types import Hit

LIMITS = {"document": 1.5, "archive": 1.3, "open": 0.2}
SHARDS = (1, 4)
K = 20
DOCUMENT_QUESTIONS = 200
ARCHIVE_QUESTIONS = 40
OPENINGS = 7

Row = tuple[str, int, float, float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--chunks", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        archives = {shards: open_archive(work, options.chunks, shards) for shards in SHARDS}
        rows = asyncio.run(_compare(archives))
        rows += [_open(archive) for archive in archives.values()]
    lines = [
        f"| {what} | {shards} | {1000 * peer:.3f} | {1000 * ours:.3f} | {ours / peer:.2f} | {limit} |\n"
        for what, shards, peer, ours, limit in rows
    ]
    text = (
        f"# Search against direct calls\n\n`python -m benchmarks.search`, {options.chunks:,} chunks, "
        f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores\n\n"
        "| what | shards | direct, ms | okralong, ms | ratio | limit |\n|---|---|---|---|---|---|\n" + "".join(lines)
    )
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(int(any(ours / peer > limit for _, _, peer, ours, limit in rows)))


async def _compare(archives: dict[int, Archive]) -> list[Row]:
    ids, doc_ids, texts, vectors = _everything(archives[1])
    whole = Direct.of(ids, texts, vectors, Path(archives[1].folder.path) / "bm25s")
    scoped = questions(texts, vectors, DOCUMENT_QUESTIONS)
    of_document = {}
    for doc_id in {asked.doc_id for asked in scoped}:
        first, end = doc_ids.index(doc_id), len(doc_ids) - doc_ids[::-1].index(doc_id)
        of_document[doc_id] = Direct.of(ids[first:end], texts[first:end], vectors[first:end])
    rows = []
    for shards, archive in archives.items():
        clients = archive.clients(GRANULARITY)
        pairs = [await _both(clients, of_document[asked.doc_id], asked, (asked.doc_id,)) for asked in scoped]
        rows.append(_row("one document", shards, pairs, LIMITS["document"]))
        pairs = [await _both(clients, whole, asked, ()) for asked in scoped[:ARCHIVE_QUESTIONS]]
        rows.append(_row("whole archive", shards, pairs, LIMITS["archive"]))
    return rows


def _everything(archive: Archive) -> tuple[list[str], list[str], list[str], Vectors]:
    """Return all chunks' ids, doc_ids, texts and vectors, in memory."""
    shard = archive.shard(GRANULARITY, 0)
    chunks = shard.chunks(range(shard.n_chunks))
    ids, doc_ids, texts = ([getattr(chunk, name) for chunk in chunks] for name in ("chunk_id", "doc_id", "text"))
    return ids, doc_ids, texts, np.array(shard.vectors)


async def _both(
    clients: Sequence[LocalShard], direct: Direct, asked: Asked, scope: tuple[str, ...]
) -> tuple[float, float]:
    """Return the best seconds of three of each, alternating."""
    peer, ours = [], []
    for _ in range(3):
        started = time.perf_counter()
        expected = direct.search(asked.query, asked.vector, K)
        peer.append(time.perf_counter() - started)
        started = time.perf_counter()
        found = fuse(await search(clients, asked.query, asked.vector, scope, K), 1.0, 1.0)
        ours.append(time.perf_counter() - started)
    _same(found, expected)
    return min(peer), min(ours)


def _same(found: Sequence[Hit], expected: Sequence[tuple[str, str, float]]) -> None:
    """Return whether scores agree in order; chunks may only differ at equal scores."""
    mine, theirs = [hit.score for hit in found[:K]], [score for _, _, score in expected[:K]]
    if not np.allclose(mine, theirs, atol=1e-3):
        raise SystemExit(f"The two find different chunks: {found[:3]} and {expected[:3]}")


def _row(what: str, shards: int, pairs: Sequence[tuple[float, float]], limit: float) -> Row:
    peer, ours = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    return what, shards, peer, ours, limit


def _open(archive: Archive) -> Row:
    names = archive.manifest["files"]["index"][str(GRANULARITY)]
    folders = [layout.granularity_folder(archive.folder, GRANULARITY).at(name) for name in names]

    def load() -> None:
        for folder in folders:
            for file in Path(folder.path).iterdir():
                if file.suffix == ".npy":
                    np.load(file)
                elif file.suffix == ".arrow":
                    pa.ipc.open_file(pa.OSFile(str(file))).read_all()

    pairs = [(_seconds(load), _seconds(lambda: [Shard.open(folder) for folder in folders])) for _ in range(OPENINGS)]
    return _row("opening", archive.n_shards, pairs, LIMITS["open"])


def _seconds(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
