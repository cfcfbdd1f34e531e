"""Indexing in this process, without Ray: for a set of documents that one encoder can take in while one waits.

It writes what the index job would write of documents that could all be read, so whatever reads the one archive reads
the other.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from okralong.pipelines.indexing.chunk_tables import chunk_part, embeddings_folder, write_vectors
from okralong.pipelines.indexing.clearing import clear_archive
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.ingest import Read, documents_table, part_name
from okralong.pipelines.indexing.make_document import make_document
from okralong.pipelines.indexing.manifest import archive_manifest
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.models.embedded import ResolvedModel
from okralong.pipelines.search.archive import Archive
from okralong.pipelines.search.build import build_shards
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import SCHEMA_VERSION
from okralong.pipelines.values import Document

Encode = Callable[[list[str]], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Encoder:
    """What embeds: ``encode`` gives unit vectors of shape (n, d), ``model`` says whose they are.

    ``precision`` is the number format that it runs in; ``over_limit`` counts the texts of which it does not see the
    end. Both are asked only when an archive is built.
    """

    encode: Encode
    model: ResolvedModel
    precision: Callable[[], str]
    over_limit: Callable[[list[str]], int]


def index_here(location: str, raw: Sequence[RawDocument], config: IndexConfig, encoder: Encoder) -> Archive:
    """The archive of ``raw`` at ``location``; one that was made of the same documents and config is left as it is.

    Any other archive there is replaced. Raises ValueError when there is no document or two have one id, LockedError
    while another process writes the archive.
    """
    ids = {document.doc_id for document in raw}
    if not raw or len(ids) < len(raw):
        raise ValueError(f"{len(raw)} documents with {len(ids)} ids were given; each needs an id of its own.")
    folder = Folder.of(location)
    documents = sorted(map(make_document, raw), key=lambda document: document.doc_id)
    fingerprint = _fingerprint(documents, config, encoder.model)
    if (folder.read_manifest() or {}).get("fingerprint") == fingerprint:
        return Archive.open(location)
    with folder.locked(f"the archive {folder.path}"):
        clear_archive(folder)
        folder.at("documents").write_table(part_name(0), documents_table(documents))
        rows = [_embed(folder, granularity, config, encoder) for granularity in config.granularities]
        for granularity in config.granularities:
            build_shards(folder, granularity, encoder.model.name, config.shards, config.dense)
        good = [Read(0, document.doc_id, document.source_uri, document.n_tokens) for document in documents]
        folder.write_manifest(archive_manifest(fingerprint, config, encoder.model, good, (), rows, {}))
    return Archive.open(location)


def _embed(folder: Folder, granularity: int, config: IndexConfig, encoder: Encoder) -> dict[str, object]:
    started = time.perf_counter()
    chunks = chunk_part(folder.path, 0, granularity, config.boundaries)
    cut = time.perf_counter()
    texts = chunks["text"].to_pylist()
    vectors = encoder.encode(texts)
    target = embeddings_folder(folder, granularity, encoder.model.name)
    write_vectors(
        target, 0, chunks["chunk_id"].to_pylist(), chunks["doc_id"].to_pylist(), vectors, config.embedding.dtype
    )
    return {
        "granularity": granularity,
        "chunks": len(chunks),
        "over_limit": encoder.over_limit(texts),
        "dimension": vectors.shape[1],
        "precision": encoder.precision(),
        "chunk_seconds": cut - started,
        "embed_seconds": time.perf_counter() - cut,
    }


def _fingerprint(documents: Sequence[Document], config: IndexConfig, model: ResolvedModel) -> str:
    content = [
        SCHEMA_VERSION,
        config.model_dump(exclude={"limits"}),  # they bound the reading of files, and none is read here
        model.name,
        model.sha256,
        [(document.doc_id, document.sha256) for document in documents],
    ]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
