"""Taking a document out of an archive for good: no file that stays holds its text, chunks, or vectors of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from okralong.pipelines.archive.vectors import TextIndex
from okralong.pipelines.archive.versions import (
    Claim,
    digest,
    latest_version,
    publish,
    read_catalogue,
    read_sources,
    read_version,
    settle,
    version_numbers,
    winners,
)
from okralong.pipelines.archives.vacuum import Vacuumed, vacuum
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing.chunk_tables import chunks_folder, keys_file, write_keys
from okralong.pipelines.indexing.compress import carry_without
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.failures import failures_of, purged_message
from okralong.pipelines.indexing.ingest import part_file
from okralong.pipelines.indexing.manifest import fingerprint_of, version_manifest
from okralong.pipelines.indexing.version_build import VersionBuild
from okralong.pipelines.models.weights import ResolvedModel


@dataclass(frozen=True, slots=True)
class Purged:
    """``version`` is the new one, which alone is left."""

    version: int
    vacuumed: Vacuumed


def purge(archive: Folder, doc_id: str) -> Purged:
    """Publish a version without the document, and take every earlier version and what only they held away.

    The document stays out, whatever later jobs find. The caller holds the archive's lock. A purge that was killed is
    finished by the same call. Raises ArchiveError where no version was published, InputError when no version has the
    document.
    """
    parent = latest_version(archive)
    if parent is None:
        raise ArchiveError(
            f"{archive.path} has no versions yet, so nothing can be purged from it. Run okralong index on it once."
        )
    before = list(read_catalogue(archive, parent["files"]["catalogue"]))
    mine = [claim for claim in before if claim.doc_id == doc_id]
    held = _holding(archive, parent["files"]["parts"], doc_id)
    if not mine and not held and doc_id not in parent["purged"]:
        _known_somewhere(archive, doc_id)
    if mine or held or doc_id not in parent["purged"]:
        claims = _without(archive, parent, before, doc_id, held)
        _publish(archive, parent, before, claims, doc_id, mine)
    latest = version_numbers(archive)[-1]
    return Purged(latest, vacuum(archive, 1, every_row=True))


def _known_somewhere(archive: Folder, doc_id: str) -> None:
    for number in reversed(version_numbers(archive)):
        held = read_catalogue(archive, read_version(archive, number)["files"]["catalogue"])
        if any(claim.doc_id == doc_id for claim in held):
            return
    raise InputError(
        f"No version of {archive.path} has a document {doc_id!r}. okralong archive purge takes a doc_id as it stands "
        "in citations and in okralong archive diff; nothing was purged."
    )


def _holding(archive: Folder, parts: Iterable[str], doc_id: str) -> list[str]:
    """The parts with a row of the document, also one that no version shows any more: what it was before it changed."""
    folder, found = archive.at("documents"), []
    for part in parts:
        with folder.filesystem.open_input_file(folder.at(part_file(part)).path) as file:
            if pc.index(pq.ParquetFile(file).read(["doc_id"])["doc_id"], doc_id).as_py() >= 0:
                found.append(part)
    return found


def _without(
    archive: Folder, parent: Mapping[str, Any], before: Sequence[Claim], doc_id: str, held: Iterable[str]
) -> list[Claim]:
    """The other documents; of the parts that hold the purged one, those that they need are written anew without it."""
    kept = [claim for claim in before if claim.doc_id != doc_id]
    needed = {claim.part for claim in kept}
    renamed = {part: f"{digest((part, doc_id))}-00" for part in held}
    for part, target in renamed.items():
        if part not in needed:
            continue
        _filter(archive.at("documents"), part, target, doc_id)
        for size in parent["granularities"]:
            folder = chunks_folder(archive, size, parent["config"]["boundaries"])
            if folder.exists(keys_file(part)):  # a part of shadowed documents alone may lack a size that came later
                texts = _filter(folder, part, target, doc_id)["text"]
                write_keys(folder, target, texts.to_pylist())
    return settle(replace(claim, part=renamed.get(claim.part, claim.part)) for claim in kept)


def _filter(folder: Folder, part: str, target: str, doc_id: str) -> pa.Table:
    with folder.filesystem.open_input_file(folder.at(part_file(part)).path) as file:
        table = pq.ParquetFile(file).read()
    table = table.filter(pc.not_equal(table["doc_id"], doc_id))
    folder.write_table(part_file(target), table)
    return table


def _publish(
    archive: Folder,
    parent: Mapping[str, Any],
    before: Iterable[Claim],
    claims: list[Claim],
    doc_id: str,
    mine: Iterable[Claim],
) -> None:
    live = winners(claims)
    if not live:
        raise InputError(
            f"{doc_id!r} is the only document of {archive.path}. To be rid of it, delete the folder of the archive."
        )
    config = IndexConfig.model_validate(parent["config"])
    config = config.model_copy(update={"shards": int(parent["shards"])})
    model = ResolvedModel("", parent["embedding"]["name"], parent["embedding"]["sha256"])
    build = VersionBuild(archive, config, model, live, parent, winners(before))
    shards = build.build_shards(TextIndex.open(build.store))
    origins = {claim.source_uri: claim.origin for claim in mine}
    sources = [
        replace(source, failed=(*source.failed, (doc_id, purged_message(doc_id, origins[source.uri]))))
        if source.uri in origins
        else source
        for source in read_sources(archive, parent["files"]["sources"]).values()
    ]
    failures = failures_of(claims, sources, [(row[0], row[1]) for row in parent["refused"]])
    files = build.write_files(claims, sources, failures, shards)
    compressor = carry_without(archive, parent, shards, doc_id)
    mark = compressor["compressor"]["fingerprint"] if compressor else None
    about = {key: parent[key] for key in ("embedding", "limits", "listed_at_ns", "refused", "config")}
    about |= compressor | {
        "parent": parent["version"],
        "fingerprint": fingerprint_of(IndexConfig.model_validate(parent["config"]), model, files, mark),
        "files": files,
        "changes": {
            "added": 0,
            "changed": 0,
            "removed": int(any(not claim.shadowed for claim in mine)),
            "unchanged": len(live),
        },
        "documents": len(live),
        "document_tokens": sum(claim.n_tokens for claim in live.values()),
        "failures": len(failures),
        "purged": sorted({*parent["purged"], doc_id}),
        "purged_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": {},
        "work": {"shards_written": sum(shard.built for built in shards.values() for shard in built)},
        "work_seconds": {},
    }
    publish(archive, version_manifest(parent["version"] + 1, config, shards, about))
