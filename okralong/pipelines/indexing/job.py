"""The index job: documents in, a new version of the archive out.

Only new and changed files are read, only texts without a vector are embedded, and only shards with changed documents
are written. The next job reuses everything that was written, even by a killed job; a version is published last.

The work runs through streams: Ray Data's (``actors/index_streams.py``) or those of this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import tables_are_there
from okralong.pipelines.archive.metadata import is_complete
from okralong.pipelines.archive.vectors import TextIndex, VectorStore
from okralong.pipelines.archive.versions import (
    DocumentEntry,
    KnownSource,
    Location,
    active,
    digest,
    latest_version,
    read_catalogue,
    read_sources,
    resolve_duplicates,
)
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, Document, InputError
from okralong.pipelines.indexing.config import LATER, IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, Source, make_document
from okralong.pipelines.indexing.ingest import (
    SourceChanges,
    chunk_again,
    entries_of,
    failures_of,
    finished_outcomes,
    finished_parts,
    known_source,
    name_of_part,
    plan_parts,
    read_part,
    source_changes,
    unchanged_entries,
    write_documents,
)
from okralong.pipelines.indexing.listing import Listing, list_sources, with_hashes
from okralong.pipelines.indexing.parsers import WITHOUT_OCR
from okralong.pipelines.indexing.sidecar import Matched, Sidecar, matched, read_sidecar
from okralong.pipelines.indexing.version_builder import (
    NO_MODEL,
    Built,
    Share,
    VersionBuilder,
    compress_shard,
    compressor_facts,
    lacking,
    share_texts,
    wanted_compressor,
)
from okralong.pipelines.models.weights import ResolvedModel, resolve_embedding_model
from okralong.pipelines.sara.artifact import TableCompressor

_REASONS_SHOWN: Final = 3
_NO_CHANGES: Final = {"added": 0, "changed": 0, "removed": 0, "unchanged": 0}


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """The progress of a job.

    ``stage`` is read, recognize, embed, build, compress or done, ``read`` the number of files read of ``to_read``, and
    ``expected_chunks`` the number of texts to embed, 0 while unknown. Bytes and tokens say how much work these are; the
    tokens to embed are estimated from a sample in large archives. ``page`` says what OCR is reading, "" for nothing,
    and ``version`` is the version that the job has published already, 0 for none.
    """

    stage: str
    files: int
    documents: int = 0
    failures: int = 0
    chunks: int = 0
    embedded: int = 0
    expected_chunks: int = 0
    read: int = 0
    to_read: int = 0
    bytes_read: int = 0
    bytes_to_read: int = 0
    tokens_embedded: int = 0
    tokens_to_embed: int = 0
    page: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class IndexResult:
    """The archive after the job. ``up_to_date`` means that nothing changed and no version was added.

    ``chunks`` and ``over_limit`` (chunks longer than the encoder's limit) are by granularity. ``skipped`` are files
    with unknown suffixes. The table ``failures`` has the reasons of the failures, and what was not read of the
    ``read_in_part`` documents. ``changes`` counts added, changed, removed and unchanged documents, ``work`` files read,
    texts embedded and shards written.
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
    read_in_part: int = 0
    work: dict[str, int] = field(default_factory=dict)

    def followed_by(self, other: IndexResult) -> IndexResult:
        """Return the result of two versions that one job has made, with the sums of their changes and work."""

        def sums(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
            return {name: one.get(name, 0) + two.get(name, 0) for name in {**one, **two}}

        changes = sums(self.changes, other.changes) | {"unchanged": min(self.changes["unchanged"], other.documents)}
        seconds = {name: round(spent, 3) for name, spent in sums(self.seconds, other.seconds).items()}
        return replace(other, changes=changes, work=sums(self.work, other.work), seconds=seconds)


class NothingRead(InputError):
    """None of the documents can be read."""


class IndexStreams(Protocol):
    """Runs the work of one archive's job, in many processes or in this one; rows come in any order.

    ``RayStreams`` (``actors/index_streams.py``) uses Ray Data, ``LocalStreams`` this process.
    """

    def read(
        self, parts: Mapping[str, Sequence[Source]], limits: str, purged: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """Read, chunk and write every part; yield a row of counts (documents, failures, chunks, seconds) for each.

        ``limits`` is the hash of the reading limits; ``purged`` documents are not written.
        """
        ...

    def chunk(self, parts: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
        """Chunk existing parts at their missing sizes; yield counts for each."""
        ...

    def embed(self, shares: Sequence[Share], encoder: str, model: ResolvedModel) -> Iterator[dict[str, Any]]:
        """Embed the texts of every share; yield a row of counts for each vector file."""
        ...

    def compress(
        self, shards: Sequence[tuple[str, str | None]], compressor: TableCompressor, encoder: str, model: ResolvedModel
    ) -> Iterator[int]:
        """Write the tables of compressed chunks of the shards (see ``lacking``); yield the number of chunks for each.

        ``encoder`` and ``model`` embed sentences if the compressor reads these.
        """
        ...


Report = Callable[[IndexProgress], None]
Encode = Callable[[list[str]], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder for this process: ``encode`` returns unit vectors of shape (n, d), ``model`` identifies the weights.

    ``precision`` is the number format, and ``over_limit`` returns which texts are truncated; only a build uses both.
    """

    encode: Encode
    model: ResolvedModel
    precision: Callable[[], str]
    over_limit: Callable[[list[str]], list[bool]]


def run_index(
    archive: str,
    sources: Sequence[str],
    config: IndexConfig,
    streams: Callable[[str, IndexConfig], IndexStreams],
    progress: Report | None = None,
    *,
    rehash: bool = False,
) -> IndexResult:
    """Update the archive (a local folder or URI) to the current documents at or below ``sources``.

    Files with pages for OCR, which takes seconds a page, come last: a version without these pages is published before.
    ``streams`` makes the streams from the archive's location and config. With ``rehash`` every file is opened and
    hashed, even one of known size and time of change.

    Raises:
        InputError: A source is missing, or no document can be read.
        ConfigError: The model is not available, or ``archive`` names a version.
        LockedError: Another process is writing to the archive.
    """
    if Location.of(archive).version is not None:
        raise ConfigError(
            f"{archive} names a version, and versions do not change: okralong index adds the next one. Leave out @ "
            "and the number."
        )
    location = archive if "://" in archive else str(Path(archive).resolve())
    sidecar = read_sidecar(config.metadata) if config.metadata else None
    listing = list_sources(sources, outside=location, exclude=config.exclude, apart=config.metadata or "")
    model = resolve_embedding_model(config.embedding.model) if config.embedded_sizes else NO_MODEL
    report, first = progress or (lambda _: None), None
    with Folder.of(location).locked("okralong index"):
        if config.reading_limits().ocr == "on":
            before = config.model_copy(update={"ocr": LATER})
            job = IndexJob(location, before, model, streams(location, before), report)
            with suppress(NothingRead):  # all may be scans
                first = job.index_sources(listing, sources, rehash, sidecar)
        job = IndexJob(location, config, model, streams(location, config), report)
        done = job.index_sources(listing, sources, rehash and first is None, sidecar)
    return done if first is None or first.up_to_date else first if done.up_to_date else first.followed_by(done)


def index_here(
    location: str, raw: Sequence[RawDocument], config: IndexConfig, encoder: Encoder | None = None
) -> Archive:
    """Index ``raw`` documents at ``location`` in this process, without Ray, and return the archive.

    This adds a version unless nothing changed; purged documents are left out. Suitable for as many documents as one
    encoder can embed while the caller waits. ``encoder`` may be None for an archive without vectors.

    Raises:
        ValueError: There is no document, two share an id, or the config needs an encoder.
        LockedError: Another process is writing to the archive.
    """
    if encoder is None and config.embedded_sizes:
        raise ValueError("The config asks for vectors (embedding.of is not none), but no encoder was given.")
    model = encoder.model if encoder is not None and config.embedded_sizes else NO_MODEL
    ids = {document.doc_id for document in raw}
    if not raw or len(ids) < len(raw):
        raise ValueError(f"{len(raw)} documents with {len(ids)} ids were given; each needs its own id.")
    wanted_compressor(config, model)  # an unsuitable compressor is refused before a folder is created
    folder = Folder.of(location)
    with folder.locked(f"the archive {folder.path}"):
        job = IndexJob(location, config, model, LocalStreams(location, config, encoder))
        documents = sorted(map(make_document, raw), key=lambda document: document.doc_id)
        entries = job.write_documents([each for each in documents if each.doc_id not in job.purged])
        job.make_version(entries, [], [], {"limits": "", "listed_at_ns": 0, "refused": []})
    return Archive.open(location)


class IndexJob:
    """Makes the next version of the archive at ``location``, whose lock the caller holds.

    ``before`` are the documents of the previous version, ``purged`` the ids that stay out.
    """

    def __init__(
        self,
        location: str,
        config: IndexConfig,
        model: ResolvedModel,
        streams: IndexStreams,
        report: Report = lambda _: None,
    ) -> None:
        self.location, self.folder = location, Folder.of(location)
        self.config, self.model, self.streams, self.report = config, model, streams, report
        self.clock = _Clock()
        self.parent = latest_version(self.folder)
        self.before = list(read_catalogue(self.folder, self.parent["files"]["catalogue"])) if self.parent else []
        self.purged: frozenset[str] = frozenset(self.parent["purged"] if self.parent else ())
        self.compressor = wanted_compressor(config, model)
        reading = config.reading_limits()
        self.ocr = reading.ocr == "on"
        self.limits = digest(replace(reading, ocr="on"))  # what waits for OCR is marked in its outcome
        self.work = {"files_read": 0, "texts_embedded": 0, "shards_written": 0}
        self.cpu = {"read": 0.0, "chunk": 0.0, "embed": 0.0}
        self.state = IndexProgress("recognize" if self.ocr else "read", 0)
        if self.ocr and self.parent:
            self.state = replace(self.state, version=self.parent["version"])

    def index_sources(
        self, listing: Listing, asked: Sequence[str], rehash: bool, sidecar: Sidecar | None = None
    ) -> IndexResult:
        """Make the version of the listed files, which come from ``asked``.

        ``sidecar`` has columns of metadata; None keeps those of the previous version. Raises InputError if no document
        can be read or a row of the sidecar is unusable.
        """
        listed_at_ns = time.time_ns()
        parent = self.parent
        known = read_sources(self.folder, parent["files"]["sources"]) if parent else {}
        with self.clock.stage("list"):
            trusted = int(parent["listed_at_ns"]) if parent and not rehash else 0
            hashed = with_hashes(listing.sources, known, trusted)
        changes = source_changes(hashed, known, not parent or parent["limits"] != self.limits, self.ocr)
        not_taken = [(row.doc_id, row.message) for row in listing.bad]
        refused = sorted(map(list, not_taken))
        as_before = parent is not None and changes.none and refused == parent["refused"] and self._as_before(parent)
        if parent and as_before and _same_sidecar(sidecar, parent):
            return _result(self.location, parent, listing.skipped, up_to_date=True)
        self.state = replace(self.state, files=len(hashed))
        with self.clock.stage("read"):
            found, sources = self._read(changes)
        entries = resolve_duplicates(entry for entry in found if entry.doc_id not in self.purged)
        failures = failures_of(entries, sources, not_taken)
        if not entries:
            raise NothingRead(
                f"{_unread(len(failures), ', '.join(asked))} "
                + " ".join(message for _, message in failures[:_REASONS_SHOWN])
            )
        about = {"limits": self.limits, "listed_at_ns": listed_at_ns, "refused": refused}
        given = None if sidecar is None else matched(sidecar, entries)
        about["metadata"] = _sidecar_facts(sidecar, given) or (parent or {}).get("metadata")
        manifest = self.make_version(entries, sources, failures, about, given.values if given else None)
        if manifest is None and parent:
            return _result(self.location, parent, listing.skipped, up_to_date=True)
        self._say(stage="done")
        return _result(self.location, manifest or {}, listing.skipped)

    def write_documents(self, documents: Sequence[Document]) -> list[DocumentEntry]:
        """Write documents, sorted by doc_id, as a separate part."""
        # Documents without tables keep the names that earlier releases gave to their parts.
        named = [(each.doc_id, each.sha256, each.source_uri, *filter(None, [each.tables])) for each in documents]
        part = f"{digest(named)}-00"
        write_documents(self.folder, part, documents)
        return [
            DocumentEntry(each.doc_id, each.sha256, each.n_tokens, part, each.source_uri, each.source_uri, each.doc_id)
            for each in documents
        ]

    def make_version(
        self,
        entries: Sequence[DocumentEntry],
        sources: Sequence[KnownSource],
        failures: Sequence[tuple[str, str]],
        about: Mapping[str, Any],
        given: Mapping[str, Mapping[str, str]] | None = None,
    ) -> dict[str, Any] | None:
        """Chunk and embed what is missing, build the shards and publish; return the manifest.

        ``entries`` are the documents with duplicates resolved, ``given`` columns of metadata by doc_id, None for those
        of the previous version. Returns None if the version would equal the previous one.
        """
        before = active(self.before)
        build = VersionBuilder(self.folder, self.config, self.model, entries, self.parent, before, given=given)
        with self.clock.stage("embed"):
            index = self._embed(build)
        with self.clock.stage("build"):
            self._say(stage="build", documents=len(build.live), failures=len(failures))
            shards = build.build_shards(index)
        self.work["shards_written"] = sum(shard.built for built in shards.values() for shard in built)
        self._compress(shards, build.encoder)
        own = {
            "purged": sorted(self.purged),
            "seconds": self.clock.seconds,
            "work": self.work,
            "work_seconds": {stage: round(spent, 3) for stage, spent in self.cpu.items()},
        }
        return build.publish(shards, sources, failures, {**compressor_facts(self.compressor), **own, **about})

    def _as_before(self, parent: dict[str, Any]) -> bool:
        """Return whether config and models equal those of the previous version, and its metadata is complete.

        A model's folder may have changed.
        """
        same = parent["config"] == self.config.content()
        held = parent.get("compressor", {}).get("fingerprint")
        same = same and held == (self.compressor.fingerprint if self.compressor else None)
        # Tables are not part of a version's fingerprint; a lost one is computed again.
        same = same and tables_are_there(self.folder, parent)
        same = same and is_complete(self.folder, parent["files"].get("metadata"))
        return same and bool(parent["embedding"]["sha256"] == self.model.sha256)

    def _read(self, changes: SourceChanges) -> tuple[list[DocumentEntry], list[KnownSource]]:
        """Return all documents and source files of the new version, reading what no complete part has."""
        entries, sources = unchanged_entries(self.before, changes), list(changes.kept.values())
        wanted = {source.uri: source for source in changes.to_read}
        held = {part.rsplit("-", 1)[0] for part in self.parent["files"]["parts"]} if self.parent else set()
        found = finished_outcomes(
            self.folder, [name for name in finished_parts(self.folder) if name not in held], wanted, self.ocr
        )
        for uri, (outcomes, limits) in found.items():
            failed = any(outcome.message for outcome in outcomes)
            if wanted[uri].sha256 and (limits == self.limits or not failed):
                source = wanted.pop(uri)
                entries += entries_of(outcomes)
                sources.append(known_source(source, outcomes))
        for outcomes, _ in finished_outcomes(
            self.folder, self._read_parts(list(wanted.values())), wanted, self.ocr
        ).values():
            entries += entries_of(outcomes)
            sources.append(known_source(wanted[outcomes[0].source_uri], outcomes))
        return entries, sources

    def _read_parts(self, sources: Sequence[Source]) -> list[str]:
        # A file whose pages are recognized takes minutes: each is a part, which a killed job keeps.
        planned = [[source] for source in sources] if self.ocr else plan_parts(sources)
        named_after = self.limits if self.ocr else self.limits + WITHOUT_OCR
        parts = {name_of_part(part, named_after): part for part in planned}
        self._say(to_read=len(sources), bytes_to_read=sum(source.size for source in sources))
        self.work["files_read"] = len(sources)
        if not parts:
            return []
        for row in self.streams.read(parts, self.limits, sorted(self.purged)):
            self.cpu["read"] += row["read_seconds"]
            self.cpu["chunk"] += row["chunk_seconds"]
            self._say(
                documents=self.state.documents + row["documents"],
                failures=self.state.failures + row["failures"],
                chunks=self.state.chunks + row["chunks"],
                read=self.state.read + row["files"],
                bytes_read=self.state.bytes_read + row["bytes"],
            )
        return list(parts)

    def _embed(self, build: VersionBuilder) -> TextIndex:
        self._say(stage="embed")
        if unchunked := build.unchunked():
            for row in self.streams.chunk(unchunked):
                self.cpu["chunk"] += row["chunk_seconds"]
                self._say(chunks=self.state.chunks + row["chunks"])
        index = TextIndex.open(build.store)
        numbers = []
        with build.embedding_work(index) as (shares, texts, tokens):
            self._say(expected_chunks=texts, tokens_to_embed=tokens)
            if shares:
                for row in self.streams.embed(shares, build.encoder, self.model):
                    numbers.append(row["number"])
                    self.cpu["embed"] += row["embed_seconds"]
                    self.work["texts_embedded"] += row["texts"]
                    embedded, tokens = self.state.embedded + row["texts"], self.state.tokens_embedded + row["tokens"]
                    self._say(embedded=embedded, tokens_embedded=tokens)
        index.take_in(sorted(numbers))
        return index

    def _compress(self, shards: Built, encoder: str) -> None:
        """Write missing tables of compressed chunks."""
        if self.compressor is None or not (names := lacking(self.folder, self.compressor, shards, self.parent)):
            return
        self._say(stage="compress")
        with self.clock.stage("compress"):
            counts = self.streams.compress(names, self.compressor, encoder, self.model)
            self.work["chunks_compressed"] = sum(counts)

    def _say(self, **news: Any) -> None:
        self.state = replace(self.state, **news)
        self.report(self.state)


def _unread(documents: int, below: str) -> str:
    if documents == 1:
        return f"The only document below {below} could not be read."
    return f"None of the {documents:,} documents below {below} could be read."


def _same_sidecar(sidecar: Sidecar | None, parent: Mapping[str, Any]) -> bool:
    """Return whether the previous version has the given columns."""
    if "metadata" not in parent["files"]:
        return False
    return sidecar is None or sidecar.sha256 == (parent.get("metadata") or {}).get("sha256")


def _sidecar_facts(sidecar: Sidecar | None, given: Matched | None) -> dict[str, Any] | None:
    """Return the manifest's record of a metadata file."""
    if sidecar is None or given is None:
        return None
    about = {"from": sidecar.uri, "sha256": sidecar.sha256, "rows": len(sidecar.rows), "documents": len(given.values)}
    return about | {"note": given.note(sidecar.uri)}


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 3)


def _result(location: str, manifest: dict[str, Any], skipped: tuple[str, ...], up_to_date: bool = False) -> IndexResult:
    return IndexResult(
        archive=location,
        version=manifest["version"],
        documents=manifest["documents"],
        failures=manifest["failures"],
        read_in_part=manifest.get("read_in_part", 0),
        chunks={int(size): count for size, count in manifest["chunks"].items()},
        over_limit={int(size): count for size, count in manifest["chunks_over_encoder_limit"].items()},
        skipped=skipped,
        seconds={} if up_to_date else dict(manifest["seconds"]),
        up_to_date=up_to_date,
        changes=dict(_NO_CHANGES) | {"unchanged": manifest["documents"]} if up_to_date else manifest["changes"],
        work={} if up_to_date else manifest["work"],
    )


@dataclass(frozen=True, slots=True)
class LocalStreams:
    """Streams that run in this process, one piece of work after the other; see ``IndexStreams``."""

    archive: str
    config: IndexConfig
    encoder: Encoder | None

    def read(
        self, parts: Mapping[str, Sequence[Source]], limits: str, purged: Sequence[str]
    ) -> Iterator[dict[str, Any]]:
        """See ``IndexStreams.read``."""
        return (read_part(self.archive, name, each, self.config, limits, purged) for name, each in parts.items())

    def chunk(self, parts: Mapping[str, Sequence[int]]) -> Iterator[dict[str, Any]]:
        """See ``IndexStreams.chunk``."""
        return (chunk_again(self.archive, part, sizes) for part, sizes in parts.items())

    def embed(self, shares: Sequence[Share], encoder: str, model: ResolvedModel) -> Iterator[dict[str, Any]]:
        """See ``IndexStreams.embed``; uses the given encoder."""
        own = self.encoder
        if own is None:
            raise ValueError("There are texts to embed, but no encoder was given.")
        store = VectorStore.of(Folder.of(self.archive), encoder, self.config.embedding.dtype)
        for order in (order for share in shares for order in share_texts(self.archive, share, self.config)):
            started, texts = time.perf_counter(), order["texts"]
            vectors, over_limit = own.encode(texts), own.over_limit(texts)
            store.write(order["number"], order["keys"], vectors, over_limit, own.precision())
            spent = time.perf_counter() - started
            yield {
                "number": order["number"],
                "texts": len(texts),
                "tokens": sum(order["tokens"]),
                "embed_seconds": spent,
            }

    def compress(
        self, shards: Sequence[tuple[str, str | None]], compressor: TableCompressor, encoder: str, model: ResolvedModel
    ) -> Iterator[int]:
        """See ``IndexStreams.compress``; uses the given encoder."""
        encode = None if self.encoder is None else self.encoder.encode
        return (compress_shard(self.archive, name, before, compressor, encode) for name, before in shards)
