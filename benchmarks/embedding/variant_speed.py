"""Processor time of ways to embed whole documents at all sizes, in one run, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from benchmarks.embedding.window_pooling import WindowEncoder
from okralong.pipelines.core.types import Chunk
from okralong.pipelines.indexing.embedding import SentenceEmbedder

Embed = Callable[[str, Sequence[Chunk]], object]
"""Embeds chunks of a document's text, of several sizes."""


def each_text(embedder: SentenceEmbedder) -> Embed:
    """Each distinct text by itself, as an archive is made."""
    return lambda _, chunks: embedder.embed(list(dict.fromkeys(chunk.text for chunk in chunks)))


def by_windows(encoder: WindowEncoder) -> Embed:
    """All of them from one pass over the document."""
    return lambda text, chunks: encoder.embed(text, [(chunk.start_char, chunk.end_char) for chunk in chunks])


def processor_seconds(
    ways: Mapping[str, Embed], documents: Sequence[tuple[str, Sequence[Chunk]]]
) -> dict[str, list[float]]:
    """Seconds of this process's processor time for each document, by way; the ways take turns."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for text, chunks in documents:
        for name, embed in ways.items():
            embed(text[: len(text) // 20], [chunk for chunk in chunks if 20 * chunk.end_char <= len(text)])  # warm up
            started = time.process_time()
            embed(text, chunks)
            spent[name].append(time.process_time() - started)
    return spent
