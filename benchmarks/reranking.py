"""Measure the shipped cross-encoder's time for a question's candidates, and the time to embed them.

    python -m benchmarks.reranking [--queries 16] [--candidates 30] [--words 110]

The ratio to an encoder of the same size, over the same texts in the same run, transfers to other machines. Texts are
generated reports in chunks of about 150 tokens.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.models.weights import EMBEDDED, available_cores, device, resolve_embedding_model
from okralong.pipelines.reporting.tables import markdown_table
from okralong.pipelines.samples.questions import generate

REPEATS = 3


def seconds(work: Callable[[], object]) -> float:
    """Return the shortest of some runs, after a warm-up."""
    work()
    taken = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return min(taken)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=30)
    parser.add_argument("--words", type=int, default=110)
    given = parser.parse_args()
    sample = generate(2, 20, 7, 12000)
    words = " ".join(document.text for document in sample.documents).split(" ")
    chunks = [" ".join(words[at : at + given.words]) for at in range(0, len(words) - given.words, given.words)]
    asked = [sample.questions[n % len(sample.questions)].question for n in range(given.queries)]
    pairs = [
        (query, chunks[(17 * n + m) % len(chunks)]) for n, query in enumerate(asked) for m in range(given.candidates)
    ]
    queries, passages = [query for query, _ in pairs], [passage for _, passage in pairs]
    encoder = SentenceEmbedder(resolve_embedding_model(EMBEDDED).path, 512, threads=available_cores())
    embedding = seconds(lambda: encoder.encode(passages)) / given.queries
    rows = []
    for precision in ("auto", "float32", "int8"):
        read = load_reranker(RerankerConfig(precision=precision)).read
        together = seconds(partial(read, queries, passages)) / given.queries
        alone = seconds(partial(read, queries[: given.candidates], passages[: given.candidates]))
        rows.append([precision, f"{1000 * alone:.1f}", f"{1000 * together:.1f}", f"{together / embedding:.2f}"])
    where = f"{available_cores()} cores"
    if device() == "cuda":
        where = f"{torch.cuda.get_device_name()} (int8: {where})"
    print(f"{given.candidates} candidates of {given.words} words a question, {where}\n")
    head = ["precision", "ms, one question", f"ms each of {given.queries}", "ratio to embedding them"]
    print(markdown_table(head, rows))


if __name__ == "__main__":
    main()
