"""Other ways to embed the chunks of an index: what each shows of the evidence, and what it costs.

    python -m benchmarks.embedding.variants --data DATA --out benchmarks/results/embedding_variants.md

The plain way embeds each chunk by itself, in float32. Against it: one pass over windows of the document, whose token
states are pooled into all chunks, of every size, by span (`window_pooling.py`; windows of 512 tokens, and of 256, apart
or sharing half); and int8 (`embedding.precision: int8`), for chunks alone, as it ships, and for questions too. Recall:
the evidence bench on the tune side of the split; its questions, archives, retrieval, policy, curves and intervals are
the same, only the vectors differ. Speed is processor time for whole documents at the four sizes of the index config, in
one run, in turn. `--work` keeps archives, vectors and what was shown, so that a run that was stopped goes on; delete it
where something was changed. The speed is measured anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

from benchmarks.embedding.other_vectors import Vectors, VectorsOf, by_text, by_window, with_vectors
from benchmarks.embedding.variant_recall import PLAIN, SEED, SETS, compared, fewer, kept_rows
from benchmarks.embedding.variant_report import Measured, SetSize, report
from benchmarks.embedding.variant_speed import Embed, by_windows, each_text, processor_seconds
from benchmarks.embedding.window_pooling import WindowEncoder
from okralong.lab.datasets.base import load_catalog
from okralong.lab.datasets.encoder import EACH, LIMIT, CachedEncoder
from okralong.lab.datasets.split import MANIFEST, Split
from okralong.lab.evidence.bench import Bench, Row
from okralong.lab.evidence.sets import DataSetStore
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import Chunk
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.models.weights import EMBEDDED, INT8, ResolvedModel, available_cores, resolve_embedding_model

WINDOWS: Final = {
    "windows of 512": (512, 0),
    "windows of 256": (256, 0),
    "windows of 256, half shared": (256, 128),
}
"""Tokens of a window, the encoder's own two among them, and how many of them it shares with the next."""

INT8_BOTH: Final = "int8, questions too"

BENCH_SIZES: Final = [150, 512]
"""Chunk sizes that the methods look at; the speed is that of all four sizes of the index config."""

TIMED: Final = ("hotpotqa dev", "finqa dev")
"""Sets of which the first document is timed: articles, reports with tables."""


@dataclass(frozen=True)
class Encoders:
    """Everything that embeds; what was embedded before lies below ``work``."""

    model: ResolvedModel
    work: Path

    def each(self, precision: str) -> SentenceEmbedder:
        """Each chunk by itself, in PLAIN or INT8."""
        return SentenceEmbedder(self.model.path, LIMIT, precision, device="cpu", threads=available_cores())

    def window(self, way: str) -> WindowEncoder:
        """One of ``WINDOWS``."""
        return WindowEncoder(self.model.path, *WINDOWS[way])

    def cached(self, precision: str) -> CachedEncoder:
        """The same, with a memory for texts."""
        folder = Folder.of(self.work / "vectors" / precision)
        return CachedEncoder(folder, self.model, lambda: self.each(precision).encode)

    def pooled(self, way: str, bench: Bench) -> VectorsOf:
        """Kept as a whole: the chunks of a bench are the same in every run."""

        def vectors_of(chunks: Sequence[Chunk]) -> Vectors:
            file = self.work / "vectors" / way / f"{bench.name}.npy"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                np.save(file, by_window(self.window(way), bench.texts)(chunks))
            vectors: Vectors = np.load(file)
            return vectors

        return vectors_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, default=Path(".evidence/variants"))
    options = parser.parse_args()
    say = partial(print, flush=True)
    torch.set_num_threads(available_cores())
    encoders = Encoders(resolve_embedding_model(EMBEDDED), options.work)
    plain, int8 = encoders.cached(PLAIN), encoders.cached(INT8)
    catalog, split = load_catalog("datasets.yaml"), Split.load(MANIFEST)
    store = DataSetStore(catalog, split, options.data, options.work, "tune", SEED, plain, say)
    config = IndexConfig(granularities=BENCH_SIZES, embedding=EACH)
    benches = [store.bench(choice, fewer(store.pooled(choice)), config) for choice in SETS]
    rows: dict[str, list[Row]] = {}
    for bench in benches:
        ways = {
            PLAIN: bench,
            **{way: with_vectors(bench, plain, encoders.pooled(way, bench)) for way in WINDOWS},
            INT8: with_vectors(bench, plain, by_text(int8)),
            INT8_BOTH: with_vectors(bench, int8, by_text(int8)),
        }
        for way, other in ways.items():
            for method, found in kept_rows(options.work / "rows" / way / f"{bench.name}.json", other, way).items():
                rows.setdefault(method, []).extend(found)
            say(f"{bench.name}: {way}")
    timed = [_whole(bench) for bench in benches if bench.name in TIMED]
    measured = Measured(
        sets=[SetSize.of(bench) for bench in benches],
        recall=compared(rows, list(ways)),
        seconds=processor_seconds(_timed_ways(encoders), timed),
        timed_chunks=sum(len(chunks) for _, chunks in timed),
    )
    text = report(measured)
    print(text)
    if options.out:
        options.out.write_text(text)


def _whole(bench: Bench) -> tuple[str, list[Chunk]]:
    """The first document of a bench, and its chunks at the sizes of the index config."""
    archive = bench.retrievals.archive
    document = archive.document(archive.doc_ids()[0])
    return document.text, [chunk for size in IndexConfig().granularities for chunk in chunk_document(document, size)]


def _timed_ways(encoders: Encoders) -> dict[str, Embed]:
    pooled = {way: by_windows(encoders.window(way)) for way in WINDOWS}
    return {PLAIN: each_text(encoders.each(PLAIN)), **pooled, INT8: each_text(encoders.each(INT8))}


if __name__ == "__main__":
    main()
