"""Compare the index job's embed stage with the bare model's best forward passes.

    python -m benchmarks.embedding --out benchmarks/results/embedding.md

The texts are chunks of generated reports, of 150 and of 400 tokens. Each round runs every variant once, so that other
load on the machine affects all of them alike: the bare transformer over tokens that are truncated and padded
beforehand, in its fastest batch size; the stage, which is the `Embedder` actor's class from texts to the written
Parquet file; and `SentenceTransformer.encode` in batches of 32. All truncate to 512 tokens. The table shows medians
over rounds. Exits with 1 if the stage reaches less than 0.75 of the bare model's throughput by wall-clock time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import torch
from sentence_transformers import SentenceTransformer

from okralong.actors.models import Embedder
from okralong.pipelines.archive.vectors import key_bytes, text_keys
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.models.weights import available_cores, has_amx, multiplies_bfloat16, resolve_embedding_model
from okralong.pipelines.samples.questions import generate

LEAST_SHARE = 0.75
ROUNDS = 3
TEXTS = {150: 48, 400: 20}
LIMIT = 512
BATCH = 32

Seconds = tuple[float, float]
"""Wall-clock and processor seconds."""
BATCHES: Final = (1, 4, 8, 16, 32)
TRIED_ON: Final = 24
"""Texts that each batch size is tried on, evenly spaced in the sorted ones."""

Batches = list[dict[str, torch.Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(available_cores())
    model = resolve_embedding_model("embedded")
    texts = _texts()
    everything = [text for of_size in texts.values() for text in of_size]
    with tempfile.TemporaryDirectory() as folder:
        bare = Bare(model.path, torch.float32, LIMIT)
        batches = bare.prepare(everything)
        ways: dict[str, Callable[[], Seconds]] = {
            f"bare forward passes, batches of {bare.batch}": _here(lambda: bare.run(batches)),
            "the embed stage": _here(_stage(folder, model.path, texts)),
            f"SentenceTransformer.encode, batches of {BATCH}": _here(_plain(model.path, everything)),
        }
        rounds = [{name: run() for name, run in ways.items()} for _ in range(ROUNDS)]
    first, stage, *_ = ways
    lines = []
    for name in ways:
        clock, processor = (statistics.median(each[name][by] for each in rounds) for by in (0, 1))
        shares = [statistics.median(each[first][by] / each[name][by] for each in rounds) for by in (0, 1)]
        lines.append(f"| {name} | {clock:.2f} | {processor:.2f} | {shares[0]:.2f} | {shares[1]:.2f} |\n")
    share = statistics.median(each[first][0] / each[stage][0] for each in rounds)
    numbers = " and ".join(f"{len(of_size)} of {size}" for size, of_size in texts.items())
    kind = "with AMX" if has_amx() else "with AVX-512 BF16" if multiplies_bfloat16() else "without AMX"
    machine = f"{available_cores()} of {os.cpu_count()} cores {kind}"
    text = (
        f"# Embedding\n\n`python -m benchmarks.embedding`, {numbers} tokens, {model.name}, float32, {machine}, medians "
        f"of {ROUNDS} rounds"
        "\n\n| way | seconds | of the processor | of the bare model's throughput | by processor time |\n"
        "|---|---|---|---|---|\n"
        f"{''.join(lines)}\nThe stage reaches {share:.2f} of the bare model's throughput; the goal is {LEAST_SHARE}.\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(int(share < LEAST_SHARE))


def _texts() -> dict[int, list[str]]:
    documents = generate(reports=2, questions=0, seed=5, words=9_000).documents
    return {
        size: [chunk.text for document in documents for chunk in chunk_document(document, size)][:count]
        for size, count in TEXTS.items()
    }


def _here(run: Callable[[], None]) -> Callable[[], Seconds]:
    """Return a function that runs ``run`` and returns its wall-clock and processor seconds."""

    def timed() -> Seconds:
        started, spent = time.perf_counter(), time.process_time()
        run()
        return time.perf_counter() - started, time.process_time() - spent

    return timed


def _stage(folder: str, path: str, texts: dict[int, list[str]]) -> Callable[[], None]:
    """Return a function that embeds one work order per size with the actor's class, as the index job does."""
    embedder = Embedder(folder, "bench", path, EmbeddingConfig())
    orders = [
        pa.Table.from_pylist([{"number": number, "keys": key_bytes(text_keys(of_size)), "texts": of_size}])
        for number, of_size in enumerate(texts.values(), 1)
    ]

    def run() -> None:
        for order in orders:
            embedder(order)

    return run


def _plain(path: str, texts: list[str]) -> Callable[[], None]:
    model: Any = SentenceTransformer(path, device="cpu")
    model.max_seq_length = LIMIT

    def run() -> None:
        for start in range(0, len(texts), BATCH):
            model.encode(texts[start : start + BATCH], show_progress_bar=False)

    return run


class Bare:
    """The transformer of a sentence-transformers folder, without pooling. ``batch`` is the fastest size found."""

    def __init__(self, path: str, precision: torch.dtype, limit: int) -> None:
        whole = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": precision})
        self._tokenizer: Any = whole.tokenizer
        self._limit = limit
        self.model: Any = whole[0].model
        self.batch = 0

    def prepare(self, texts: Sequence[str], batch: int = 0) -> Batches:
        """Return batches of ``batch`` texts; 0 tries sizes on some texts and takes the fastest."""
        ids = self._tokenizer(list(texts), truncation=True, max_length=self._limit)["input_ids"]
        ids.sort(key=len)
        some = ids[:: max(1, len(ids) // TRIED_ON)]
        self.run(self._batches(some[:4], 4))
        self.batch = batch or min(BATCHES, key=lambda size: self._processor_s(self._batches(some, size)))
        return self._batches(ids, self.batch)

    def run(self, batches: Batches) -> None:
        """Run the forward passes."""
        with torch.inference_mode():
            for batch in batches:
                self.model(**batch)

    def _processor_s(self, batches: Batches) -> float:
        started = time.process_time()
        self.run(batches)
        return time.process_time() - started

    def _batches(self, ids: list[list[int]], size: int) -> Batches:
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        return [dict(self._tokenizer.pad({"input_ids": part}, return_tensors="pt")) for part in parts]


if __name__ == "__main__":
    main()
