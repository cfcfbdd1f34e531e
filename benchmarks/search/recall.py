"""Measure the recall of the approximate index, on real embeddings and on clustered synthetic vectors.

    python -m benchmarks.search.recall --out benchmarks/results/search_recall.md [--archives A B ... --questions FILE]

For each set and `dense.index: ivf` of configs/index.yaml: recall at 20 against comparing with every vector, for
questions that the build has not seen (real: embedded as queries; synthetic: directions with a cosine of 0.6 to a
chunk), seconds to build, bytes, and median milliseconds per question, alternating with flat FAISS. Real vectors are
150-token chunks of generated reports with the reports' questions; or, because embedding is slow on a small machine,
those of ARCHIVES made with the packaged encoder (`okralong evidence` keeps some in its work folder), with the questions
of a jsonl file added. Exits with 1 if a recall is below 0.98.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np

from benchmarks.search.corpus import DIMENSION, GRANULARITY, TOPICS, Vectors, clustered, unit
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.dense import ApproximateIndex, build_approximate, products
from okralong.pipelines.archive.files import DenseConfig
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.samples.questions import generate

LEAST = 0.98
BEST = 20
SYNTHETIC = 100_000
SYNTHETIC_QUESTIONS = 400
REAL_CHUNKS = 3_000
REAL_QUESTIONS = 120


@dataclass(frozen=True)
class Measured:
    """Recall at 20, seconds to build, size, and milliseconds per question: flat and with the index."""

    recall: float
    built_with: float
    effort: int
    seconds: float
    megabytes: float
    flat_ms: float
    ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--archives", type=Path, nargs="*", default=[])
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--vectors", type=int, default=SYNTHETIC)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        real, asked = _real(options.archives, options.questions)
        for name, matrix, questions in (
            (f"{len(real):,} real, {len(asked)} questions", real, asked),
            (f"{options.vectors:,} synthetic, {SYNTHETIC_QUESTIONS} questions", *_synthetic(options.vectors)),
        ):
            config = DenseConfig.model_construct(index="ivf", above=1, recall=0.99)  # also for few vectors
            rows.append((name, _measure(matrix, questions, config, Path(scratch))))
            print(rows[-1], flush=True)
    lines = [
        f"| {name} | {one.recall:.4f} | {one.built_with:.4f} | {one.effort} | {one.seconds:.0f} "
        f"| {one.megabytes:.0f} | {one.flat_ms:.2f} | {one.ms:.2f} |\n"
        for name, one in rows
    ]
    text = (
        "# Approximate indexes\n\n`python -m benchmarks.search.recall`, "
        f"{DIMENSION} dimensions, recall at {BEST} against "
        f"every vector, wanted from the build 0.99, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores\n\n"
        "| vectors | recall | recall in the build | effort | build, s | MB | flat, ms | ms |\n"
        f"|---|---|---|---|---|---|---|---|\n{''.join(lines)}\nThe goal is a recall of {LEAST} or more.\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(int(any(one.recall < LEAST for _, one in rows)))


def _measure(matrix: Vectors, questions: Vectors, config: DenseConfig, work: Path) -> Measured:
    started = time.perf_counter()
    built = build_approximate(matrix, config)
    seconds = time.perf_counter() - started
    if built is None:
        raise SystemExit(f"{config.index} does not reach a recall of {config.recall} in the build.")
    file = work / "approximate.faiss"
    file.write_bytes(built.data)
    index = ApproximateIndex.open(file, built.effort, *matrix.shape)
    flat = faiss.IndexFlatIP(matrix.shape[1])
    flat.add(matrix)
    found, flat_s, index_s = 0, [], []
    for question in questions:
        started = time.perf_counter()
        _, best = flat.search(question[np.newaxis], BEST)
        middle = time.perf_counter()
        rows = index.candidates(question, BEST)
        rows = rows[np.argsort(-products(matrix, question, rows), kind="stable")[:BEST]]
        index_s.append(time.perf_counter() - middle)
        flat_s.append(middle - started)
        found += len(np.intersect1d(rows, best[0]))
    return Measured(
        found / (BEST * len(questions)),
        built.recall,
        built.effort,
        seconds,
        len(built.data) / 1e6,
        1000 * statistics.median(flat_s),
        1000 * statistics.median(index_s),
    )


def _synthetic(count: int) -> tuple[Vectors, Vectors]:
    draw = np.random.default_rng(3)
    topics = unit(draw.standard_normal((TOPICS, DIMENSION)))
    matrix = clustered(draw, topics, np.arange(count) // 500)
    near = matrix[draw.integers(count, size=SYNTHETIC_QUESTIONS)]
    return matrix, unit(0.6 * near + 0.8 * unit(draw.standard_normal((SYNTHETIC_QUESTIONS, DIMENSION))))


def _real(archives: list[Path], questions: Path | None) -> tuple[Vectors, Vectors]:
    """Return distinct chunks of 150 tokens, and questions, embedded by the packaged encoder."""
    from okralong.pipelines.indexing.embedding import SentenceEmbedder  # brings torch: seconds

    encoder = SentenceEmbedder(resolve_embedding_model("embedded").path)
    sample = generate(reports=24, questions=REAL_QUESTIONS, seed=5, words=16_000 if not archives else 3_000)
    asked = [question.question for question in sample.questions]
    if questions:
        asked += [json.loads(line)["question"] for line in questions.read_text(encoding="utf-8").splitlines()]
    if archives:
        shards = [each for place in archives for each in Archive.open(place).clients(GRANULARITY)]
        chunks = np.unique(np.concatenate([each.shard.vectors for each in shards]), axis=0)
        # unique has sorted them, which no archive is.
        chunks = np.random.default_rng(1).permutation(chunks)
    else:
        texts = [chunk.text for document in sample.documents for chunk in chunk_document(document, GRANULARITY)]
        drawn = np.sort(np.random.default_rng(1).permutation(len(texts))[:REAL_CHUNKS])
        chunks = encoder.encode([texts[number] for number in drawn])
    return chunks, encoder.encode_queries(asked)


if __name__ == "__main__":
    main()
