"""Build archives of generated reports in this process with the parts of the index job, each stage metered.

Texts, chunks, tables, the embedding plan, vector files, the text index, shards, catalogue and manifest are the
product's. Ray and the parser processes are missing, and the encoder too if vectors are synthetic. One part of the
documents is in memory at a time, as in the job.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.scaling.meter import Meter
from okralong.pipelines.archive.vectors import TextIndex
from okralong.pipelines.archive.versions import KnownSource, active, read_sources, resolve_duplicates
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.ingest import chunk_part
from okralong.pipelines.indexing.job import Encoder, IndexJob, LocalStreams
from okralong.pipelines.indexing.version_builder import VersionBuilder
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.samples.questions import generate

DIMENSION: Final = 384
PART_REPORTS: Final = 50
"""Reports per part, generated together."""
NOTED_EVERY: Final = 20
"""Number of parts after which progress is recorded."""
SYNTHETIC: Final = ResolvedModel("", "synthetic", None)

Embed = Callable[[list[str]], NDArray[np.float32]]


def synthetic(texts: list[str]) -> NDArray[np.float32]:
    """Return unit vectors in directions drawn by a hash of the texts."""
    seed = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest()
    drawn = np.random.default_rng(int.from_bytes(seed, "big")).standard_normal((len(texts), DIMENSION), np.float32)
    unit: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit


def reports(first: int, count: int, words: int, done: int = 0) -> Iterator[list[RawDocument]]:
    """Yield generated reports from number ``first`` on, one part at a time, skipping ``done`` parts.

    Equal numbers give equal reports.
    """
    for start in range(first + done * PART_REPORTS, first + count, PART_REPORTS):
        made = generate(min(PART_REPORTS, first + count - start), 0, seed=start, words=words).documents
        # Companies of two seeds may share a name.
        yield [RawDocument(f"{start:06d}-{one.doc_id}", one.text, f"{start:06d}-{one.doc_id}.txt") for one in made]


def build_version(
    location: Path,
    parts: Callable[[int], Iterable[list[RawDocument]]],
    config: IndexConfig,
    meter: Meter,
    embed: Embed = synthetic,
    model: ResolvedModel = SYNTHETIC,
    done: Path | None = None,
) -> dict[str, Any]:
    """Build the next version and return its manifest.

    The last one's documents plus those of ``parts``, a function that skips the given number of parts. ``done`` records
    finished parts, from which a stopped build continues.
    """
    folder = Folder.of(location)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        with meter.stage("encode"):
            return embed(texts)

    encoder = Encoder(encode, model, lambda: "float32", lambda texts: [False] * len(texts))
    streams = LocalStreams(folder.path, config, encoder)
    with folder.locked("the scaling benchmark"), meter.watching():
        with meter.stage("list"):
            job = IndexJob(folder.path, config, model, streams)
            entries = list(job.before)
            sources = list(read_sources(folder, job.parent["files"]["sources"]).values()) if job.parent else []
        begin = 0
        if done is not None and done.exists():
            begin, entries, sources, meter.seconds, meter.peaks = pickle.loads(done.read_bytes())
        for finished, raw in enumerate(parts(begin), start=begin + 1):
            with meter.stage("read"):
                documents = sorted(map(make_document, raw), key=lambda document: document.doc_id)
                made = job.write_documents(documents)
                entries += made
                sources += [
                    KnownSource(each.source_uri, each.source_uri, each.sha256, len(each.text), 0) for each in documents
                ]
            with meter.stage("chunk"):
                chunk_part(folder.path, made[0].part, config.granularities)
            del documents
            if done is not None and finished % NOTED_EVERY == 0:
                done.write_bytes(pickle.dumps((finished, entries, sources, meter.seconds, meter.peaks)))
        with meter.stage("list"):
            build = VersionBuilder(folder, config, model, resolve_duplicates(entries), job.parent, active(job.before))
        with meter.stage("vectors"):
            index = TextIndex.open(build.store)
            with build.embedding_work(index) as (shares, texts):
                rows = list(streams.embed(shares, build.encoder, model))
            index.take_in([row["number"] for row in rows])
        with meter.stage("build"):
            shards = build.build_shards(index)
        with meter.stage("publish"):
            written = sum(shard.built for built in shards.values() for shard in built)
            about = {"limits": "", "listed_at_ns": 0, "refused": [], "purged": [], "seconds": {}}
            about |= {"work": {"texts_embedded": texts, "shards_written": written}}
            manifest = build.publish(shards, sources, [], about, always=True)
    return manifest or {}


def weigh(location: Path) -> dict[str, dict[str, int]]:
    """Return files and bytes of an archive by folder."""
    found: dict[str, dict[str, int]] = {}
    for file in location.rglob("*"):
        if file.is_file():
            of_folder = found.setdefault(file.relative_to(location).parts[0], {"files": 0, "bytes": 0})
            of_folder["files"] += 1
            of_folder["bytes"] += file.stat().st_size
    return found
