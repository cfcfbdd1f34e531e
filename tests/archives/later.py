"""A later night as the index job makes it, without Ray: what is new goes into a part of its own, the rest stays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import TextIndex
from okralong.pipelines.archive.versions import (
    Claim,
    KnownSource,
    digest,
    latest_version,
    publish,
    read_catalogue,
    settle,
    winners,
)
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.build import (
    VersionBuild,
    embedding_facts,
    fingerprint_of,
    share_texts,
    version_manifest,
)
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.ingest import chunk_part, documents_table, failures_of, part_file
from okralong.pipelines.indexing.job import _embed
from tests.archives.nights import CONFIG, MODEL, encoder


def later(
    place: Path | str, new: Mapping[str, str], gone: Collection[str] = (), config: IndexConfig = CONFIG
) -> Archive:
    """The next version: ``new`` are new or changed documents, ``gone`` those whose files went. There is one before."""
    folder = Folder.of(place)
    with folder.locked("a night"):
        parent = latest_version(folder)
        assert parent is not None
        before = list(read_catalogue(folder, parent["files"]["catalogue"]))
        made = [make_document(RawDocument(doc_id, text, f"{doc_id}.txt")) for doc_id, text in sorted(new.items())]
        part = f"{digest([(each.doc_id, each.sha256) for each in made])}-00"
        claims = [claim for claim in before if claim.doc_id not in {*new, *gone}]
        claims += [Claim(d.doc_id, d.sha256, d.n_tokens, part, d.source_uri, d.source_uri, d.doc_id) for d in made]
        claims = settle(claims)
        folder.at("documents").write_table(part_file(part), documents_table(made))
        chunk_part(str(place), part, config.granularities, config.boundaries)
        build = VersionBuild(folder, config, MODEL, winners(claims), parent, winners(before))
        index = TextIndex.open(build.store)
        with build.embedding_work(index) as (shares, _):
            orders = (order for share in shares for order in share_texts(str(place), share, config))
            numbers = [_embed(build.store, order, encoder()) for order in orders]
        index.take_in(numbers)
        shards = build.build_shards(index)
        sources = [KnownSource(claim.source_uri, claim.source_name, claim.sha256, 1, 1) for claim in claims]
        failures = failures_of(claims, sources, [])
        files = build.write_files(claims, sources, failures, shards)
        kept = {key: parent[key] for key in ("limits", "listed_at_ns", "refused", "purged")}
        about = kept | {
            "parent": parent["version"],
            "fingerprint": fingerprint_of(config, MODEL, files),
            "files": files,
            "documents": len(claims),
            "document_tokens": sum(claim.n_tokens for claim in claims),
            "failures": len(failures),
            "embedding": embedding_facts(config, MODEL, 8, "float32"),
            "seconds": {},
            "work": {},
            "work_seconds": {},
        }
        publish(folder, version_manifest(parent["version"] + 1, config, shards, about))
    return Archive.open(place)
