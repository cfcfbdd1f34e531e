"""Measure the index job's memory over an archive and one ten times as large: peaks must agree within a fifth.

    python -m benchmarks.index_memory --out benchmarks/results/index_memory.md

Uses generated reports, real parsers, chunker, Ray Data and shards. The encoder is a one-layer BERT with random weights
and vectors of 64 floats, because embedding would otherwise take all the time, and its memory is that of a batch. A
shard has as many chunks in both archives (``chunks_per_shard``), as for large archives by default. The figure is the
proportional set size of the job's process and its descendants, Ray's included, every 0.2 s; shared pages count once.
Exits with 1 if the ratio of the peaks exceeds the limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from benchmarks.watched import watched
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.samples.questions import generate, write_sample

LIMIT: Final = 1.2
TIMES: Final = 10
WORDS: Final = 6_000
CONFIG: Final = {"granularities": [150, 400], "chunks_per_shard": 500}


@dataclass(frozen=True)
class Measured:
    """An index job: documents, chunks, seconds, and the peaks in MiB of all processes and of its own."""

    documents: int
    chunks: int
    shards: int
    seconds: float
    peak: float
    driver: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--reports", type=int, default=24, help="Reports of the smaller archive.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_encoder(folder / "encoder")
        config = folder / "index.yaml"
        config.write_text(yaml.safe_dump(CONFIG | {"embedding": {"model": str(folder / "encoder")}}))
        rows = []
        for times in (1, TIMES):
            sources = folder / f"sources-{times}"
            write_sample(generate(reports=options.reports * times, questions=1, seed=times, words=WORDS), sources)
            rows.append(_measure(folder / f"archive-{times}", sources / "reports", config))
            print(rows[-1], flush=True)
    small, large = rows
    ratio = large.peak / small.peak
    text = (
        "# Memory of the index job\n\n`python -m benchmarks.index_memory "
        f"--reports {options.reports} --out benchmarks/results/index_memory.md`, "
        f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores\n\n"
        "| documents | chunks | shards | seconds | peak of all processes, MiB | of the command's own, MiB |\n"
        "|---|---|---|---|---|---|\n"
        + "".join(
            f"| {row.documents:,} | {row.chunks:,} | {row.shards} | {row.seconds:.0f} | {row.peak:,.0f} | "
            f"{row.driver:,.0f} |\n"
            for row in rows
        )
        + f"\nPeak over peak: {ratio:.2f} for {large.chunks / small.chunks:.1f} times the chunks, against a limit of "
        f"{LIMIT}; the command's own process: {large.driver / small.driver:.2f}.\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    sys.exit(ratio > LIMIT)


def _measure(archive: Path, sources: Path, config: Path) -> Measured:
    command = [sys.executable, "-m", "okralong.jobs.cli", "index", str(archive)]
    seen = watched([*command, "--from", str(sources), "--config", str(config)])
    manifest = Archive.open(archive).manifest
    chunks = sum(manifest["chunks"].values())
    return Measured(manifest["documents"], chunks, manifest["shards"], seen.seconds, seen.peak, seen.own)


def _write_encoder(folder: Path) -> None:
    """Write an encoder folder: the packaged encoder's tokenizer, and a one-layer BERT with random weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    tokenizer = AutoTokenizer.from_pretrained(resolve_embedding_model("embedded").path)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=512,
    )
    BertModel(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    words = Transformer(str(folder / "bert"), max_seq_length=512)
    SentenceTransformer(modules=[words, Pooling(64)]).save(str(folder))


if __name__ == "__main__":
    main()
