"""Indexing in this process, without Ray: for a set of documents that one encoder can take in while one waits.

It writes what the index job would write of documents that could all be read, so whatever reads the one archive reads
the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import TextIndex, VectorStore
from okralong.pipelines.archive.versions import Claim, digest, latest_version, publish, read_catalogue, winners
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.chunk_tables import chunk_part
from okralong.pipelines.indexing.compress import compress_shard, compressor_facts, lacking, wanted_compressor
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.ingest import documents_table, part_file
from okralong.pipelines.indexing.make_document import make_document
from okralong.pipelines.indexing.manifest import embedding_facts, fingerprint_of, version_manifest
from okralong.pipelines.indexing.readers.raw import RawDocument
from okralong.pipelines.indexing.shares import share_texts
from okralong.pipelines.indexing.version_build import VersionBuild
from okralong.pipelines.models.weights import ResolvedModel

Encode = Callable[[list[str]], npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Encoder:
    """What embeds: ``encode`` gives unit vectors of shape (n, d), ``model`` says whose they are.

    ``precision`` is the number format that it runs in; ``over_limit`` says of which texts it does not see the end.
    Both are asked only when an archive is built.
    """

    encode: Encode
    model: ResolvedModel
    precision: Callable[[], str]
    over_limit: Callable[[list[str]], list[bool]]


def index_here(location: str, raw: Sequence[RawDocument], config: IndexConfig, encoder: Encoder) -> Archive:
    """The archive of ``raw`` at ``location``, as its next version, but for purged documents; the same documents and
    config make none.

    Raises ValueError when there is no document or two have one id, LockedError while another process writes there.
    """
    ids = {document.doc_id for document in raw}
    if not raw or len(ids) < len(raw):
        raise ValueError(f"{len(raw)} documents with {len(ids)} ids were given; each needs an id of its own.")
    compressor = wanted_compressor(config, encoder.model)
    folder = Folder.of(location)
    with folder.locked(f"the archive {folder.path}"):
        parent = latest_version(folder)
        purged = parent["purged"] if parent else []
        kept = (make_document(each) for each in raw if each.doc_id not in purged)
        documents = sorted(kept, key=lambda document: document.doc_id)
        before = winners(read_catalogue(folder, parent["files"]["catalogue"])) if parent else {}
        part = f"{digest([(each.doc_id, each.sha256, each.source_uri) for each in documents])}-00"
        claims = [
            Claim(each.doc_id, each.sha256, each.n_tokens, part, each.source_uri, each.source_uri, each.doc_id)
            for each in documents
        ]
        build = VersionBuild(folder, config, encoder.model, winners(claims), parent, before)
        started = time.perf_counter()
        folder.at("documents").write_table(part_file(part), documents_table(documents))
        for name, sizes in build.unchunked().items():
            chunk_part(location, name, sizes, config.boundaries)
        cut = time.perf_counter()
        index = TextIndex.open(build.store)
        with build.embedding_work(index) as (shares, embedded):
            numbers = [
                _embed(build.store, order, encoder) for one in shares for order in share_texts(location, one, config)
            ]
        index.take_in(numbers)
        spent = {"chunk": round(cut - started, 3), "embed": round(time.perf_counter() - cut, 3)}
        shards = build.build_shards(index)
        if compressor is not None:
            for name in lacking(folder, compressor, shards):
                compress_shard(location, name, compressor)
        files = build.write_files(claims, [], [], shards)
        fingerprint = fingerprint_of(config, encoder.model, files, compressor.fingerprint if compressor else None)
        if parent is None or parent["fingerprint"] != fingerprint:
            dimension, precision = index.store.about() or (0, "")
            about: dict[str, Any] = {
                "parent": parent["version"] if parent else None,
                "fingerprint": fingerprint,
                "files": files,
                "documents": len(documents),
                "document_tokens": sum(each.n_tokens for each in documents),
                "failures": 0,
                "embedding": embedding_facts(config, encoder.model, dimension, precision),
                **compressor_facts(compressor),
                "limits": "",
                "listed_at_ns": 0,
                "refused": [],
                "purged": purged,
                "seconds": {},
                "work": {"texts_embedded": embedded},
                "work_seconds": spent,
            }
            publish(folder, version_manifest(parent["version"] + 1 if parent else 1, config, shards, about))
    return Archive.open(location)


def _embed(store: VectorStore, order: Mapping[str, Any], encoder: Encoder) -> int:
    vectors = encoder.encode(order["texts"])
    store.write(order["number"], order["keys"], vectors, encoder.over_limit(order["texts"]), encoder.precision())
    return int(order["number"])
