"""A million documents on a hundred nodes: which node holds what, how evenly questions fall, and what a lost node means.

    python -m benchmarks.scaling.placement --out benchmarks/results/scaling/placement.md

Real are the number of shards (`IndexConfig.shard_count`), which shard owns a document (`shard_of`), which shards a
question asks (`calls_by_shard`) and the processes of each (`replicas_by_shard`). Assumed are the sizes of the documents
(log-normal), how often each is asked about (Zipf's law), and that each process lands on a node by chance, as Ray's
manual says of actors that ask for no resource ("randomly choosing a node", docs.ray.io, Scheduling, DEFAULT). Costs of
a question are those of `costs.json`. The same seed gives the same table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.scaling.unit_costs import UnitCosts
from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.search import calls_by_shard, replicas_by_shard
from okralong.pipelines.indexing.config import IndexConfig

SIGMA: Final = 0.8
"""Of the logarithm of a document's tokens: the largest of a million are some forty times the mean. Assumed."""
DRAWS: Final = 25
"""Placements that are drawn; means over them are shown."""
GIB: Final = 2**30

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cluster:
    """What is simulated. ``tokens`` are a document's mean, ``bandwidth`` bytes a second into a node."""

    documents: int = 1_000_000
    nodes: int = 100
    questions: int = 10_000
    tokens: float = 24_000
    zipf: float = 1.0
    bandwidth: float = 1e9
    seed: int = 1
    chunks_per_shard: int = 100_000


@dataclass(frozen=True)
class Sharded:
    """The documents in their shards: the owner of each, and of each shard its tokens."""

    owners: NDArray[np.int64]
    tokens: Floats

    @classmethod
    def of(cls, cluster: Cluster) -> Sharded:
        """Draw the documents and deal them out."""
        draw = np.random.default_rng(cluster.seed)
        sizes = draw.lognormal(np.log(cluster.tokens) - SIGMA**2 / 2, SIGMA, cluster.documents)
        shards = shard_count(sizes.sum(), cluster.chunks_per_shard)
        owners = np.fromiter((shard_of(each, shards) for each in names(cluster.documents)), np.int64, cluster.documents)
        return cls(owners, np.bincount(owners, sizes, shards).astype(np.float64))


@dataclass(frozen=True)
class Asked:
    """A night's questions: how many ask each shard, of which so many about everything; the popular document's share."""

    calls: list[int]
    archive_wide: int
    hottest: float

    @classmethod
    def of(cls, cluster: Cluster, sharded: Sharded, share: float) -> Asked:
        """Draw them: ``share`` of them are about the whole archive, the others about a document each."""
        draw = np.random.default_rng(cluster.seed + 1)
        law = 1.0 / np.arange(1, cluster.documents + 1) ** cluster.zipf
        popular = draw.permutation(cluster.documents)
        archive_wide = round(cluster.questions * share)
        # Inverse of the law's distribution: `choice` with a million weights would do the same.
        places = np.searchsorted(np.cumsum(law / law.sum()), draw.random(cluster.questions - archive_wide))
        asked = popular[np.minimum(places, cluster.documents - 1)]
        scopes: list[Sequence[str]] = [(name_of(number),) for number in asked.tolist()]
        scopes += [()] * archive_wide
        hottest = np.bincount(asked).max() / len(asked) if len(asked) else 0.0
        return cls(calls_by_shard(scopes, len(sharded.tokens)), archive_wide, float(hottest))


@dataclass(frozen=True)
class Row:
    """Means over the placements drawn. Ratios are largest over mean; ``lost`` is of the node whose loss is worst."""

    share: float
    replicas: int
    processes: int
    hot_processes: int
    shard: float
    process: float
    node: float
    dealt_evenly: float
    hot_s: float
    node_gib: tuple[float, float]
    processes_gib: float
    lost_shards: tuple[float, float]
    lost_alone: float
    lost_gib: float
    lost_s: float
    dealing_s: float


def shard_count(tokens: float, chunks_per_shard: int) -> int:
    """Shards of an archive of so many tokens that was made in one night."""
    return IndexConfig(chunks_per_shard=chunks_per_shard).shard_count(int(tokens))


def name_of(number: int) -> str:
    """The id of a document."""
    return f"company-{number // 12:06d}/report-{number % 12:02d}"


def names(documents: int, first: int = 0) -> Iterator[str]:
    """The ids of documents number ``first`` and so on."""
    return map(name_of, range(first, first + documents))


def shards_touched(cluster: Cluster, shards: int, new: int) -> float:
    """The share of shards that ``new`` documents fall into."""
    return len({shard_of(name, shards) for name in names(new, cluster.documents)}) / shards


def simulate(cluster: Cluster, sharded: Sharded, asked: Asked, replicas: int, costs: UnitCosts, share: float) -> Row:
    """One row: the night's questions over the shards with so many replicas."""
    started = time.perf_counter()
    dealt = np.array(replicas_by_shard(asked.calls, replicas))
    dealing_s = time.perf_counter() - started
    smallest = costs.chunks_a_token[str(min(costs.sizes))]
    wide_s = (
        costs.retrievals
        * asked.archive_wide
        * (costs.flat_s_a_chunk * sharded.tokens * smallest + 3 * costs.shard_call_s)
    )
    one_s = costs.retrievals * (costs.document_s + costs.shard_call_s)
    work = (np.array(asked.calls) - asked.archive_wide) * one_s + wide_s
    chunks = sharded.tokens * sum(costs.chunks_a_token.values())
    size = chunks * costs.bytes_a_chunk["index"]
    number = np.repeat(np.arange(len(dealt)), dealt)  # the shard of each process
    each = work[number] / dealt[number]
    draw = np.random.default_rng(cluster.seed + 2)
    seen = [_placed(cluster, draw.integers(cluster.nodes, size=len(number)), number, each, size) for _ in range(DRAWS)]
    in_turn = _placed(cluster, np.arange(len(number)) % cluster.nodes, number, each, size)
    mean = np.array(seen).mean(axis=0)
    return Row(
        share=share,
        replicas=replicas,
        processes=len(number),
        hot_processes=int(dealt.max()),
        shard=_uneven(work),
        process=_uneven(each),
        node=mean[0],
        dealt_evenly=in_turn[0],
        hot_s=float(each.max()),
        node_gib=(mean[1], mean[2]),
        processes_gib=len(number) / cluster.nodes * costs.process_bytes / GIB,
        lost_shards=(mean[3], mean[4]),
        lost_alone=mean[5],
        lost_gib=mean[6],
        lost_s=mean[7],
        dealing_s=dealing_s,
    )


def _placed(
    cluster: Cluster, nodes: NDArray[np.int64], number: NDArray[np.int64], each: Floats, size: Floats
) -> tuple[float, ...]:
    load = np.bincount(nodes, each, cluster.nodes).astype(np.float64)
    # Two processes of one shard on one node map the same pages.
    pairs = np.unique(nodes * len(size) + number)
    homes, shards = pairs // len(size), pairs % len(size)
    mapped = np.bincount(homes, size[shards], cluster.nodes)
    held = np.bincount(homes, minlength=cluster.nodes)
    alone = np.bincount(shards, minlength=len(size))[shards] == 1
    worst = int(mapped.argmax())
    lost = shards[homes == worst]
    # Its processes start again on other nodes, by chance; the node that gets most sets the time.
    new_homes = np.random.default_rng(cluster.seed + 3).integers(cluster.nodes - 1, size=len(lost))
    arriving = np.bincount(new_homes, size[lost], cluster.nodes)
    return (
        _uneven(load),
        float(mapped.mean()) / GIB,
        float(mapped.max()) / GIB,
        float(held.mean()),
        float(held.max()),
        float(np.bincount(homes[alone], minlength=cluster.nodes).mean()),
        float(size[lost].sum()) / GIB,
        float(arriving.max()) / cluster.bandwidth,
    )


def _uneven(values: Floats) -> float:
    return float(values.max() / values.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=Cluster.documents)
    parser.add_argument("--nodes", type=int, default=Cluster.nodes)
    parser.add_argument("--questions", type=int, default=Cluster.questions)
    parser.add_argument("--tokens", type=float, default=Cluster.tokens, help="of a document, o200k, the mean")
    parser.add_argument("--zipf", type=float, default=Cluster.zipf, help="exponent of the documents' popularity")
    parser.add_argument("--bandwidth", type=float, default=Cluster.bandwidth, help="bytes a second into a node")
    parser.add_argument("--archive-wide", type=float, nargs="+", default=[0.0, 0.01, 0.1], help="shares of questions")
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--new", type=int, default=1000, help="documents of a night")
    parser.add_argument("--chunks-per-shard", type=int, default=Cluster.chunks_per_shard)
    parser.add_argument("--seed", type=int, default=Cluster.seed)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    cluster = Cluster(**{name: getattr(given, name) for name in Cluster.__annotations__})
    costs, sharded = UnitCosts.load(), Sharded.of(cluster)
    assert abs(sharded.tokens.sum() / cluster.documents / cluster.tokens - 1) < 0.05, "documents are not of that size"
    rows = []
    asked = {share: Asked.of(cluster, sharded, share) for share in given.archive_wide}
    for share, of_share in asked.items():
        assert (
            sum(of_share.calls)
            == (cluster.questions - of_share.archive_wide) + len(sharded.tokens) * of_share.archive_wide
        )
        rows += [simulate(cluster, sharded, of_share, replicas, costs, share) for replicas in given.replicas]
    text = _report(cluster, sharded, asked[given.archive_wide[0]], rows, costs, given.new)
    print(text)
    print("seconds of replicas_by_shard:", [round(row.dealing_s, 2) for row in rows])
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _report(cluster: Cluster, sharded: Sharded, asked: Asked, rows: Sequence[Row], costs: UnitCosts, new: int) -> str:
    shards = len(sharded.tokens)
    documents = np.bincount(sharded.owners, minlength=shards)
    chunks = sharded.tokens * costs.chunks_a_token[str(min(costs.sizes))]
    touched = shards_touched(cluster, shards, new)
    text = (
        "# Placement\n\n`python -m benchmarks.scaling.placement`, seed "
        f"{cluster.seed}\n\n{cluster.documents:,} documents of {cluster.tokens:,.0f} tokens in the mean (log-normal, "
        f"sigma {SIGMA}), {shards:,} shards, {cluster.nodes} nodes, {cluster.questions:,} questions, Zipf's exponent "
        f"{cluster.zipf:g}: the most popular document has {asked.hottest:.1%} of those about one.\n\n"
        f"- Documents a shard: {documents.mean():.0f} in the mean, {documents.min()} to {documents.max()}; chunks of "
        f"{min(costs.sizes)} tokens {chunks.mean():,.0f}, at most {chunks.max():,.0f} ({_uneven(chunks):.2f} of the "
        "mean).\n"
        f"- {new:,} new documents fall into {touched:.0%} of the shards.\n\n"
        "| archive-wide | replicas | processes | of the hottest shard | work, max / mean: shard | process | node | "
        "node, dealt in turn | hottest process, s a night | mapped files a node, GiB: mean, max | "
        "processes a node, GiB |\n"
        f"{'|---' * 11}|\n"
    )
    for row in rows:
        text += (
            f"| {row.share:.0%} | {row.replicas} | {row.processes:,} | {row.hot_processes} | {row.shard:.1f} | "
            f"{row.process:.1f} | {row.node:.2f} | {row.dealt_evenly:.2f} | {row.hot_s:,.1f} | {row.node_gib[0]:.1f}, "
            f"{row.node_gib[1]:.1f} | {row.processes_gib:.1f} |\n"
        )
    text += (
        "\nA node is lost:\n\n| replicas | shards on a node: mean, max | of them nowhere else | GiB to open again, of "
        f"the fullest node | seconds, {cluster.bandwidth / 1e9:g} GB/s into a node |\n{'|---' * 5}|\n"
    )
    for row in rows:
        if row.share == rows[0].share:
            text += (
                f"| {row.replicas} | {row.lost_shards[0]:.1f}, {row.lost_shards[1]:.1f} | {row.lost_alone:.1f} | "
                f"{row.lost_gib:.1f} | {row.lost_s:.1f} |\n"
            )
    return text


if __name__ == "__main__":
    main()
