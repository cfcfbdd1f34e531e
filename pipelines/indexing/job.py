"""The index job: documents in, a new version of the archive out.

Only files that are new or changed are read, only texts that no vector is held of are embedded, and only shards whose
documents changed are written. Everything that is written is found again by the next job, whether this one ends well or
is killed; a version is published last, and readers see it from then on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import tables_are_there
from okralong.pipelines.archive.vectors import TextIndex, VectorStore
from okralong.pipelines.archive.versions import (
    Claim,
    KnownSource,
    Location,
    digest,
    latest_version,
    publish,
    read_catalogue,
    read_sources,
    settle,
    winners,
)
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.indexing.build import (
    Built,
    Share,
    VersionBuild,
    compress_shard,
    compressor_facts,
    embedding_facts,
    fingerprint_of,
    lacking,
    share_texts,
    take_over_vectors,
    version_manifest,
    wanted_compressor,
)
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, Source, make_document
from okralong.pipelines.indexing.ingest import (
    SourceChanges,
    carried,
    chunk_part,
    claims_of,
    documents_table,
    failures_of,
    finished_parts,
    found_of,
    known_of,
    name_of_part,
    part_file,
    plan_parts,
    source_changes,
)
from okralong.pipelines.indexing.listing import Listing, list_sources, with_hashes
from okralong.pipelines.models.weights import ResolvedModel, resolve_embedding_model
from okralong.pipelines.sara.artifact import ArrayCompressor

_REASONS_SHOWN: Final = 3
_NO_CHANGES: Final = {"added": 0, "changed": 0, "removed": 0, "unchanged": 0}


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far the job is. ``stage`` is read, embed, build or done; ``expected_chunks`` are the texts that have to be
    embedded, 0 while unknown.
    """

    stage: str
    files: int
    documents: int = 0
    failures: int = 0
    chunks: int = 0
    embedded: int = 0
    expected_chunks: int = 0


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What an archive holds after the job. ``up_to_date`` says that nothing had to be done, and no version was added.

    ``chunks`` and ``over_limit`` (chunks longer than the encoder sees) are by granularity; ``skipped`` are files of
    unknown suffix; ``failures`` have their reasons in the table of that name. ``changes`` counts documents added,
    changed, removed and unchanged since the version before, ``work`` what was done: files read, texts embedded, shards
    written.
    """

    archive: str
    version: int
    documents: int
    failures: int
    chunks: dict[int, int]
    over_limit: dict[int, int]
    skipped: tuple[str, ...]
    seconds: dict[str, float]
    up_to_date: bool = False
    changes: dict[str, int] = field(default_factory=lambda: dict(_NO_CHANGES))
    work: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 3)


Report = Callable[[IndexProgress], None]


class IndexStreams(Protocol):
    """What carries the work of the job over many processes: ``actors/index_streams.py`` is Ray Data's."""

    def read(
        self,
        archive: str,
        parts: Mapping[str, Sequence[Source]],
        config: IndexConfig,
        limits: str,
        purged: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        """Read, chunk and write every part; a row of counts for each, in any order."""
        ...

    def chunk(self, archive: str, parts: Mapping[str, Sequence[int]], config: IndexConfig) -> Iterator[dict[str, Any]]:
        """Chunk the documents of parts that were read before at the sizes that they lack; counts of each."""
        ...

    def embed(
        self, archive: str, shares: Sequence[Share], encoder: str, model: ResolvedModel, config: IndexConfig
    ) -> Iterator[dict[str, Any]]:
        """Embed the texts of every share; a row of counts for each vector file, in any order."""
        ...

    def compress(
        self, archive: str, shards: Sequence[str], compressor: ArrayCompressor, config: IndexConfig
    ) -> Iterator[int]:
        """Write the tables of compressed chunks of some shards, by their names; the chunks of each, in any order."""
        ...


def run_index(
    archive: str,
    sources: Sequence[str],
    config: IndexConfig,
    streams: IndexStreams,
    progress: Report | None = None,
    *,
    rehash: bool = False,
) -> IndexResult:
    """Bring the archive (a local folder or URI) to what stands at or below ``sources`` now, over ``streams``.

    With ``rehash`` every file is opened and hashed, also one of the size and time of change that are known. Raises
    InputError when a source is missing or no document can be read, ConfigError when the model cannot be had or a
    version is named, LockedError when another process writes the archive.
    """
    if Location.of(archive).version is not None:
        raise ConfigError(
            f"{archive} names a version, and versions do not change: okralong index adds the next one. Leave out the @ "
            "and what follows it."
        )
    location = archive if "://" in archive else str(Path(archive).resolve())
    folder = Folder.of(location)
    listing = list_sources(sources, outside=location)
    model = resolve_embedding_model(config.embedding.model)
    with folder.locked("okralong index"):
        job = _Job(location, folder, sources, config, model, streams, progress or (lambda _: None))
        return job.run(listing, rehash)


class _Job:
    def __init__(
        self,
        location: str,
        folder: Folder,
        asked: Sequence[str],
        config: IndexConfig,
        model: ResolvedModel,
        streams: IndexStreams,
        report: Report,
    ) -> None:
        self.location, self.folder, self.asked = location, folder, asked
        self.config, self.model, self.streams, self.report = config, model, streams, report
        self.clock = _Clock()
        self.parent = latest_version(folder)
        self.compressor = wanted_compressor(config, model)
        self.limits = digest([config.limits.model_dump(), config.max_file_megabytes])
        self.work = {"files_read": 0, "texts_embedded": 0, "shards_written": 0}
        self.cpu = {"read": 0.0, "chunk": 0.0, "embed": 0.0}
        self.state = IndexProgress("read", 0)

    def run(self, listing: Listing, rehash: bool) -> IndexResult:
        listed_at_ns = time.time_ns()
        parent = self.parent
        known = read_sources(self.folder, parent["files"]["sources"]) if parent else {}
        before = list(read_catalogue(self.folder, parent["files"]["catalogue"])) if parent else []
        with self.clock.stage("list"):
            trusted = int(parent["listed_at_ns"]) if parent and not rehash else 0
            hashed = with_hashes(listing.sources, known, trusted)
        changes = source_changes(hashed, known, not parent or parent["limits"] != self.limits)
        refused = sorted(map(list, _refused(listing)))
        if parent and changes.none and self._as_before(parent) and refused == parent["refused"]:
            return _result(self.location, parent, listing.skipped, up_to_date=True)
        self.state = replace(self.state, files=len(hashed))
        with self.clock.stage("read"):
            claims, sources = self._read(changes, before)
        purged = set(parent["purged"]) if parent else set()
        claims = settle(claim for claim in claims if claim.doc_id not in purged)
        live = winners(claims)
        failures = failures_of(claims, sources, _refused(listing))
        if not live:
            raise InputError(
                f"None of the {len(failures)} documents below {', '.join(self.asked)} could be read. "
                + " ".join(message for _, message in failures[:_REASONS_SHOWN])
            )
        build = VersionBuild(self.folder, self.config, self.model, live, parent, winners(before))
        with self.clock.stage("embed"):
            index = self._embed(build)
        with self.clock.stage("build"):
            self._say(stage="build", documents=len(live), failures=len(failures))
            shards = build.build_shards(index)
        self.work["shards_written"] = sum(shard.built for built in shards.values() for shard in built)
        self._compress(shards)
        files = build.write_files(claims, sources, failures, shards)
        compressor = self.compressor.fingerprint if self.compressor else None
        fingerprint = fingerprint_of(self.config, self.model, files, compressor)
        if parent and parent["fingerprint"] == fingerprint:
            return _result(self.location, parent, listing.skipped, up_to_date=True)
        dimension, precision = index.store.about() or (0, "")
        about = {
            "parent": parent["version"] if parent else None,
            "fingerprint": fingerprint,
            "files": files,
            "changes": _changes(build),
            "documents": len(live),
            "document_tokens": sum(claim.n_tokens for claim in live.values()),
            "failures": len(failures),
            "embedding": embedding_facts(self.config, self.model, dimension, precision),
            **compressor_facts(self.compressor),
            "limits": self.limits,
            "listed_at_ns": listed_at_ns,
            "refused": refused,
            "purged": sorted(purged),
            "seconds": self.clock.seconds,
            "work": self.work,
            "work_seconds": {stage: round(spent, 3) for stage, spent in self.cpu.items()},
        }
        manifest = version_manifest(parent["version"] + 1 if parent else 1, self.config, shards, about)
        publish(self.folder, manifest)
        self._say(stage="done")
        return _result(self.location, manifest, listing.skipped)

    def _as_before(self, parent: dict[str, Any]) -> bool:
        """Whether config and models are those of the version before. A folder's model may be another by now."""
        same = parent["config"] == self.config.content()
        held = parent.get("compressor", {}).get("fingerprint")
        same = same and held == (self.compressor.fingerprint if self.compressor else None)
        # A table is no part of what names a version; one that was lost is computed again.
        same = same and tables_are_there(self.folder, parent)
        return same and bool(parent["embedding"]["sha256"] == self.model.sha256)

    def _read(self, changes: SourceChanges, before: Sequence[Claim]) -> tuple[list[Claim], list[KnownSource]]:
        """All documents and source files of the version to come; what no finished part has is read."""
        claims, sources = carried(before, changes), list(changes.kept.values())
        wanted = {source.uri: source for source in changes.to_read}
        held = {part.rsplit("-", 1)[0] for part in self.parent["files"]["parts"]} if self.parent else set()
        found = found_of(self.folder, [name for name in finished_parts(self.folder) if name not in held], wanted)
        for uri, (outcomes, limits) in found.items():
            failed = any(outcome.message for outcome in outcomes)
            if wanted[uri].sha256 and (limits == self.limits or not failed):
                source = wanted.pop(uri)
                claims += claims_of(outcomes)
                sources.append(known_of(source, outcomes))
        for outcomes, _ in found_of(self.folder, self._read_parts(list(wanted.values())), wanted).values():
            claims += claims_of(outcomes)
            sources.append(known_of(wanted[outcomes[0].source_uri], outcomes))
        return claims, sources

    def _read_parts(self, sources: Sequence[Any]) -> list[str]:
        parts = {name_of_part(part, self.limits): part for part in plan_parts(sources)}
        self._say()
        self.work["files_read"] = len(sources)
        if not parts:
            return []
        purged = self.parent["purged"] if self.parent else []
        for row in self.streams.read(self.location, parts, self.config, self.limits, purged):
            self.cpu["read"] += row["read_seconds"]
            self.cpu["chunk"] += row["chunk_seconds"]
            self._say(
                documents=self.state.documents + row["documents"],
                failures=self.state.failures + row["failures"],
                chunks=self.state.chunks + row["chunks"],
            )
        return list(parts)

    def _embed(self, build: VersionBuild) -> TextIndex:
        self._say(stage="embed")
        if unchunked := build.unchunked():
            for row in self.streams.chunk(self.location, unchunked, self.config):
                self.cpu["chunk"] += row["chunk_seconds"]
                self._say(chunks=self.state.chunks + row["chunks"])
        if self.parent is None:
            take_over_vectors(self.folder, build.store, self.config, self.model)
        index = TextIndex.open(build.store)
        numbers = []
        with build.embedding_work(index) as (shares, texts):
            self._say(expected_chunks=texts)
            if shares:
                for row in self.streams.embed(self.location, shares, build.encoder, self.model, self.config):
                    numbers.append(row["number"])
                    self.cpu["embed"] += row["embed_seconds"]
                    self.work["texts_embedded"] += row["texts"]
                    self._say(embedded=self.state.embedded + row["texts"])
        index.take_in(numbers)
        return index

    def _compress(self, shards: Built) -> None:
        """Write the tables of compressed chunks that shards lack."""
        if self.compressor is None or not (names := lacking(self.folder, self.compressor, shards)):
            return
        with self.clock.stage("compress"):
            counts = self.streams.compress(self.location, names, self.compressor, self.config)
            self.work["chunks_compressed"] = sum(counts)

    def _say(self, **news: Any) -> None:
        self.state = replace(self.state, **news)
        self.report(self.state)


def _refused(listing: Listing) -> list[tuple[str, str]]:
    return [(row.doc_id, row.message) for row in listing.bad]


def _changes(build: VersionBuild) -> dict[str, int]:
    before, live = build.before, build.live
    kept = [doc_id for doc_id in live if doc_id in before]
    changed = sum(before[doc_id].sha256 != live[doc_id].sha256 for doc_id in kept)
    return {
        "added": len(live) - len(kept),
        "changed": changed,
        "removed": len(before) - len(kept),
        "unchanged": len(kept) - changed,
    }


def _result(location: str, manifest: dict[str, Any], skipped: tuple[str, ...], up_to_date: bool = False) -> IndexResult:
    return IndexResult(
        archive=location,
        version=manifest["version"],
        documents=manifest["documents"],
        failures=manifest["failures"],
        chunks={int(size): count for size, count in manifest["chunks"].items()},
        over_limit={int(size): count for size, count in manifest["chunks_over_encoder_limit"].items()},
        skipped=skipped,
        seconds={} if up_to_date else dict(manifest["seconds"]),
        up_to_date=up_to_date,
        changes=dict(_NO_CHANGES) | {"unchanged": manifest["documents"]} if up_to_date else manifest["changes"],
        work={} if up_to_date else manifest["work"],
    )


# --------
# Indexing in this process, without Ray: for a set of documents that one encoder can take in while one waits.
#
# It writes what the index job would write of documents that could all be read, so whatever reads the one archive reads
# the other.

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
