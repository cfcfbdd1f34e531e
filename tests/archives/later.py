"""A later night as the index job makes it, without Ray: what is new goes into a part of its own, the rest stays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import KnownSource, resolve_duplicates
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.ingest import failures_of
from okralong.pipelines.indexing.job import IndexJob, LocalStreams
from tests.archives.nights import CONFIG, MODEL, encoder


def later(
    place: Path | str, new: Mapping[str, str], gone: Collection[str] = (), config: IndexConfig = CONFIG
) -> Archive:
    """The next version: ``new`` are new or changed documents, ``gone`` those whose files went. There is one before."""
    with Folder.of(place).locked("a night"):
        job = IndexJob(str(place), config, MODEL, LocalStreams(str(place), config, encoder()))
        assert job.parent is not None
        made = [make_document(RawDocument(doc_id, text, f"{doc_id}.txt")) for doc_id, text in sorted(new.items())]
        kept = [entry for entry in job.before if entry.doc_id not in {*new, *gone}]
        entries = resolve_duplicates([*kept, *job.write_documents(made)])
        sources = [KnownSource(entry.source_uri, entry.source_name, entry.sha256, 1, 1) for entry in entries]
        about = {key: job.parent[key] for key in ("limits", "listed_at_ns", "refused")}
        assert job.make_version(entries, sources, failures_of(entries, sources, []), about)
    return Archive.open(place)
