"""Vectors of the smallest chunks alone: what larger chunks that are found by them show of the evidence.

    python -m benchmarks.embedding.smallest --data DATA --out benchmarks/results/evidence/smallest.md

Against chunks that are each embedded by themselves (``embedding.of: each``): larger chunks that score as the best of
the smaller ones that they overlap (``smallest``, as it ships), as the best of those whose middle they hold, and by the
mean of the smaller ones' vectors. Recall is that of the evidence bench on the tune side of the split; questions,
archives, BM25, policies, curves and intervals are the same. ``--work`` keeps archives and vectors.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.embedding import variant_recall
from benchmarks.embedding.other_vectors import OtherVectors
from benchmarks.embedding.variant_recall import PLAIN, SCALES, SEED, SETS, Recall, compared, fewer, rows_of
from benchmarks.embedding.variants import Encoders
from okralong.lab.datasets.base import load_catalog
from okralong.lab.datasets.encoder import EACH, CachedEncoder
from okralong.lab.datasets.split import MANIFEST, Split
from okralong.lab.evidence.bench import Bench, Retrievals, Row
from okralong.lab.evidence.config import PlainMethod, PolicyMethod
from okralong.lab.evidence.sets import DataSetStore
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model

BEST: Final = "best of the overlapping"
MIDDLE: Final = "best of those with their middle inside"
MEAN: Final = "mean vector"
WAYS: Final = (PLAIN, BEST, MIDDLE, MEAN)

CHOSEN: Final = [choice for choice in SETS if choice.name != "qmsum"]
"""Without QMSum, whose documents are as long as those of all others together."""

METHODS: Final = {
    "dense, 5 chunks of 256": PlainMethod(
        retriever="semantic", granularity=256, count=5, counts=[1, 2, 3, 5, 8, 12, 16]
    ),
    "dense, 5 chunks of 512": PlainMethod(retriever="semantic", granularity=512, count=5, counts=[1, 2, 3, 5, 8, 12]),
    "default policy": PolicyMethod(policy="policy/default.yaml", analyzer="gold", scales=SCALES),
    "paper's policy": PolicyMethod(policy="policy/paper.yaml", analyzer="gold", scales=SCALES),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=Path(".evidence/smallest"))
    options = parser.parse_args()
    say = partial(print, flush=True)
    variant_recall.METHODS.clear()
    variant_recall.METHODS.update(METHODS)
    encoder = Encoders(resolve_embedding_model(EMBEDDED), options.work).cached(PLAIN)
    catalog, split = load_catalog("datasets.yaml"), Split.load(MANIFEST)
    store = DataSetStore(catalog, split, options.data, options.work, "tune", SEED, encoder, say)
    config = IndexConfig(granularities=[150, 256, 400, 512], embedding=EACH, compressor="none")
    rows: dict[str, list[Row]] = {}
    questions: dict[str, int] = {}
    for choice in CHOSEN:
        bench = store.bench(choice, fewer(store.pooled(choice)), config)
        questions[bench.name] = len(bench.pooled.questions)
        for way in WAYS:
            for method, found in rows_of(_found_by(bench, way, encoder), way).items():
                rows.setdefault(method, []).extend(found)
            say(f"{bench.name}: {way}")
    text = _report(compared(rows, WAYS), questions)
    print(text)
    if options.out:
        options.out.write_text(text)


def _found_by(bench: Bench, way: str, encoder: CachedEncoder) -> Bench:
    """The same bench with its larger chunks found in one of ``WAYS``."""
    archive = bench.retrievals.archive
    if way == PLAIN:
        return bench
    smallest = min(archive.granularities)
    numbers = range(archive.n_shards)
    shards = {(smallest, number): archive.shard(smallest, number) for number in numbers}
    for size in archive.granularities:
        if size != smallest:
            shards |= {(size, n): _shard(archive.shard(size, n), shards[smallest, n], way) for n in numbers}
    other = OtherVectors(archive.location, archive.folder, archive.manifest, shards=shards)
    return replace(bench, retrievals=Retrievals(other, encoder), followed={})


def _shard(shard: Shard, smallest: Shard, way: str) -> Shard:
    bare = replace(shard, vectors=np.empty((shard.n_chunks, 0), dtype=np.float32)).over(smallest)
    smaller = bare.smaller
    if smaller is None or way == BEST:
        return bare
    if way == MEAN:
        return replace(shard, vectors=smaller.mean(range(shard.n_chunks)))
    small, large = smallest.spans(), shard.spans()
    middles = small.places((small.starts + small.ends) // 2)
    first, end = (np.searchsorted(middles, large.places(each), side="left") for each in (large.starts, large.ends))
    empty = end <= first  # such a chunk keeps those that it overlaps
    first, end = np.where(empty, smaller.first, first), np.where(empty, smaller.end, end)
    return replace(bare, smaller=replace(smaller, first=first, end=end))


def _report(found: Mapping[str, Mapping[str, Recall]], questions: Mapping[str, int]) -> str:
    lines = [
        "# Vectors of the smallest chunks alone",
        "",
        "`python -m benchmarks.embedding.smallest --data DATA --out benchmarks/results/evidence/smallest.md`",
        "",
        "Chunks of 150 tokens are embedded; those of 256, 400 and 512 are found by the ones inside them. Evidence "
        "recall, tune side of the split, against each chunk embedded by itself (float32): the difference is recall at "
        "that one's tokens, less its recall, the mean over the sets, with a 95 % interval from a paired bootstrap over "
        "source documents. The policies have the sets' own labels and queries.",
        "",
        "Questions: " + ", ".join(f"{name} {count}" for name, count in questions.items()) + ".",
    ]
    for method, ways in found.items():
        lines += ["", f"## {method[0].upper()}{method[1:]}", ""]
        lines.append("| larger chunks | tokens | recall | at its tokens | " + " | ".join(questions) + " |")
        lines.append("|---" * (4 + len(questions)) + "|")
        for way, recall in ways.items():
            said = "-"
            if recall.difference is not None and recall.difference.value is not None:
                each = recall.difference
                said = f"{each.value:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"
            by_set = [
                "-" if one is None or one.value is None else f"{one.value:+.3f}" for one in recall.by_set.values()
            ]
            name = "each embedded" if way == PLAIN else way
            lines.append(f"| {name} | {recall.tokens:.0f} | {recall.recall:.3f} | {said} | {' | '.join(by_set)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
