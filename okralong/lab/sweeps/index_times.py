"""Measure how long it takes to index a set's documents, for latencies that include indexing.

A sweep's own archives cannot be timed, because their vectors may come from the cache of an earlier sweep.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from okralong.lab.datasets.encoder import plain_encoder
from okralong.lab.datasets.pooling import Pooled
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.sara.config import NONE

Rates = dict[int, float]
"""Seconds per character of text, by chunk size."""


def index_rates(file: Path, pooled: Pooled, sizes: Sequence[int], embedding: str, count: int) -> Rates:
    """Index the documents of the first ``count`` questions, once for each chunk size, and return the seconds.

    Each size has its own BM25 index and vectors, as in the paper. The rates are kept in ``file``, and measured again
    only for other sizes, documents or encoders.
    """
    folder = Folder.of(file.parent)
    wanted = {doc_id for question in pooled.questions[:count] for doc_id in question.doc_ids}
    documents = [each for each in pooled.documents if each.doc_id in wanted] or list(pooled.documents)
    of = {"embedding": embedding, "documents": [each.doc_id for each in documents]}
    rates: Rates = {}
    if folder.exists(file.name):
        known = folder.read_json(file.name)
        rates = {int(size): rate for size, rate in known.pop("rates").items()}
        if known == of and set(sizes) <= set(rates):
            return rates
    raw = [RawDocument(each.doc_id, each.text, "times") for each in documents]
    encoder = plain_encoder(embedding)
    encoder.encode(["Load the model before its time is taken."])
    rates = {}
    for size in sizes:
        config = IndexConfig(
            granularities=[size], embedding=EmbeddingConfig(of="each", model=embedding), compressor=NONE
        )
        with TemporaryDirectory() as place:
            started = time.perf_counter()
            index_here(place, raw, config, encoder)
            rates[size] = (time.perf_counter() - started) / sum(len(each.text) for each in documents)
    folder.write_bytes(file.name, json.dumps({**of, "rates": rates}).encode())
    return rates


def seconds_of(rates: Rates, sizes: Sequence[int], characters: int) -> float:
    """Return the seconds to index a text with all of ``sizes``."""
    return sum(rates[size] for size in sizes) * characters
