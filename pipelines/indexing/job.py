"""The index job: documents in, a searchable archive out.

The manifest is written last and holds a fingerprint of the inputs and the config: a second run that would make the same
archive does nothing. Anything else is built anew from the documents.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from okralong.pipelines.errors import InputError
from okralong.pipelines.indexing.clearing import clear_archive
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.flow import embed_stream, read_stream
from okralong.pipelines.indexing.ingest import Read, drop_duplicates, part_name, plan_parts
from okralong.pipelines.indexing.manifest import archive_manifest, fingerprint_of
from okralong.pipelines.indexing.readers.listing import Listing, list_sources, with_hashes
from okralong.pipelines.models.embedded import ResolvedModel, resolve_embedding_model
from okralong.pipelines.search.build import build_shards
from okralong.pipelines.storage import Folder
from okralong.pipelines.tables import FAILURES

_REASONS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class IndexProgress:
    """How far the job is. ``stage`` is read, embed, build or done; ``expected_chunks`` an estimate, 0 while unknown."""

    stage: str
    files: int
    documents: int = 0
    failures: int = 0
    chunks: int = 0
    embedded: int = 0
    expected_chunks: int = 0


@dataclass(frozen=True, slots=True)
class IndexResult:
    """What an archive holds after the job. ``up_to_date`` says that nothing had to be done.

    ``chunks`` and ``over_limit`` (chunks longer than the encoder sees) are by granularity; ``skipped`` are files of
    unknown suffix; ``failures`` have their reasons in the table of that name.
    """

    archive: str
    documents: int
    failures: int
    chunks: dict[int, int]
    over_limit: dict[int, int]
    skipped: tuple[str, ...]
    seconds: dict[str, float]
    up_to_date: bool = False


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 3)


def index_archive(
    archive: str,
    sources: Sequence[str],
    config: IndexConfig,
    progress: Callable[[IndexProgress], None] | None = None,
) -> IndexResult:
    """Index every document at or below ``sources`` into ``archive`` (a local folder or URI), on the connected Ray.

    Raises InputError when a source is missing or no document can be read, ConfigError when the model cannot be had,
    LockedError when another process writes the archive.
    """
    report = progress or (lambda _: None)
    clock = _Clock()
    location = archive if "://" in archive else str(Path(archive).resolve())
    with clock.stage("list"):
        listing = list_sources(sources, outside=location)
        model = resolve_embedding_model(config.embedding.model)
        listing = replace(listing, sources=with_hashes(listing.sources))
    folder = Folder.of(location)
    fingerprint = fingerprint_of(listing, config, model)
    with folder.locked("okralong index"):
        manifest = folder.read_manifest()
        if manifest is not None and manifest["fingerprint"] == fingerprint:
            return _result(location, manifest, listing.skipped, up_to_date=True)
        clear_archive(folder)
        state = IndexProgress("read", len(listing.sources))
        with clock.stage("read"):
            outcomes, state = _read(location, listing, config, state, report)
        good = [outcome for outcome in outcomes if not outcome.message]
        bad = [(row.doc_id, row.message) for row in listing.bad]
        bad += [(outcome.doc_id, outcome.message) for outcome in outcomes if outcome.message]
        _write_failures(folder, bad)
        if not good:
            raise InputError(
                f"None of the {len(bad)} documents below {', '.join(sources)} could be read. "
                + " ".join(message for _, message in bad[:_REASONS_SHOWN])
            )
        with clock.stage("embed"):
            rows, state = _embed(location, good, model, config, state, report)
        with clock.stage("build"):
            report(replace(state, stage="build"))
            for granularity in config.granularities:
                build_shards(folder, granularity, model.name, config.shards)
        manifest = archive_manifest(fingerprint, config, model, good, bad, rows, clock.seconds)
        folder.write_manifest(manifest)
    report(replace(state, stage="done"))
    return _result(location, manifest, listing.skipped)


def _read(
    location: str, listing: Listing, config: IndexConfig, state: IndexProgress, report: Callable[[IndexProgress], None]
) -> tuple[list[Read], IndexProgress]:
    parts = plan_parts(listing.sources)
    state = replace(state, failures=len(listing.bad))
    report(state)
    outcomes = []
    for outcome in read_stream(location, parts, config.reading_limits(), config.placement.readers):
        outcomes.append(outcome)
        failed = bool(outcome.message)
        state = replace(state, documents=state.documents + (not failed), failures=state.failures + failed)
        report(state)
    settled = drop_duplicates(location, outcomes)
    failures = len(listing.bad) + sum(bool(outcome.message) for outcome in settled)
    return settled, replace(state, documents=sum(not o.message for o in settled), failures=failures)


def _embed(
    location: str,
    good: Sequence[Read],
    model: ResolvedModel,
    config: IndexConfig,
    state: IndexProgress,
    report: Callable[[IndexProgress], None],
) -> tuple[list[dict[str, Any]], IndexProgress]:
    expected = sum(-(-outcome.n_tokens // size) for outcome in good for size in config.granularities)
    state = replace(state, stage="embed", expected_chunks=expected)
    report(state)
    rows = []
    parts = sorted({outcome.part for outcome in good})
    for row in embed_stream(location, parts, model, config):
        rows.append(row)
        state = replace(state, chunks=state.chunks + row["chunks"], embedded=state.embedded + row["chunks"])
        report(state)
    return rows, state


def _write_failures(folder: Folder, bad: Sequence[tuple[str, str]]) -> None:
    now = datetime.now(UTC)
    rows = [
        {"id": doc_id, "stage": "read", "error_type": "DocumentError", "message": message, "at": now}
        for doc_id, message in sorted(bad)
    ]
    folder.at("failures").write_table(part_name(0), pa.Table.from_pylist(rows, schema=FAILURES))


def _result(location: str, manifest: dict[str, Any], skipped: tuple[str, ...], up_to_date: bool = False) -> IndexResult:
    return IndexResult(
        archive=location,
        documents=manifest["documents"],
        failures=manifest["failures"],
        chunks={int(size): count for size, count in manifest["chunks"].items()},
        over_limit={int(size): count for size, count in manifest["chunks_over_encoder_limit"].items()},
        skipped=skipped,
        seconds={} if up_to_date else dict(manifest["seconds"]),
        up_to_date=up_to_date,
    )
