"""Build a version from its documents: texts to embed, shards, tables, manifest."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.failures import write_failures
from okralong.pipelines.archive.files import (
    FILE,
    CompressedRows,
    compressed_folder,
    copy_without,
    granularity_folder,
    shard_of,
    table_folders,
    write_compressed,
)
from okralong.pipelines.archive.metadata import DocumentFacts, facts_of_documents, read_facts, write_facts
from okralong.pipelines.archive.shard import Shard
from okralong.pipelines.archive.shard_builder import Base, BuiltShard, Held, Rows, rebuild_shards
from okralong.pipelines.archive.vectors import (
    KEY_BYTES,
    Keys,
    TextIndex,
    VectorStore,
    encoder_key,
    key_bytes,
    owned_texts,
    text_keys,
)
from okralong.pipelines.archive.versions import (
    LAYOUT,
    DocumentEntry,
    KnownSource,
    active,
    digest,
    publish,
    write_catalogue,
    write_sources,
)
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import NOT_READ, ArchiveError
from okralong.pipelines.indexing.config import IndexConfig, embedded_sizes
from okralong.pipelines.indexing.formats.pdf import PAGES_WITHOUT_TEXT
from okralong.pipelines.indexing.ingest import chunk_batches, chunks_folder, count_tokens, keys_file, read_keys
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.sara.artifact import Encode, Shape, TableCompressor, by_sentence
from okralong.pipelines.sara.config import compressor_to_index
from okralong.pipelines.sara.table import table_compressor

Built = Mapping[int, Sequence[BuiltShard]]
"""The shards of each granularity, in order of their numbers."""

NO_MODEL: Final = ResolvedModel("", "none", None)
"""The encoder of an archive without vectors."""

_PACKAGES: Final = ("okralong", "ray", "torch", "transformers", "sentence-transformers", "pyarrow", "pypdfium2")
"""Packages whose versions a manifest records."""


@dataclass
class VersionBuilder:
    """The inputs of a version.

    ``entries`` are its documents with duplicates resolved. ``parent`` is the manifest of the previous version, if any,
    and ``before`` that version's active documents. ``shards`` fixes the number of shards; None leaves it to the config.
    ``given`` are columns of metadata by doc_id; None keeps those of the previous version.
    """

    archive: Folder
    config: IndexConfig
    model: ResolvedModel
    entries: Sequence[DocumentEntry]
    parent: Mapping[str, Any] | None
    before: Mapping[str, DocumentEntry]
    shards: int | None = None
    given: Mapping[str, Mapping[str, str]] | None = None

    @cached_property
    def live(self) -> dict[str, DocumentEntry]:
        """The active documents."""
        return active(self.entries)

    @property
    def encoder(self) -> str:
        """The key of the encoder (see ``encoder_key``), "none" for an archive without vectors."""
        one = self.config.embedding
        if one.of == "none":
            return NO_MODEL.name
        seen = (one.max_seq_length, one.passage_prefix)
        return encoder_key(self.model.name, self.model.sha256, *seen, one.dtype, one.precision)

    @property
    def store(self) -> VectorStore:
        """The vectors of the encoder."""
        return VectorStore.of(self.archive, self.encoder, self.config.embedding.dtype)

    @property
    def changes(self) -> dict[str, int]:
        """Counts of documents added, changed, removed and unchanged since the previous version."""
        kept = [doc_id for doc_id in self.live if doc_id in self.before]
        changed = sum(self.before[doc_id].sha256 != self.live[doc_id].sha256 for doc_id in kept)
        added, removed = len(self.live) - len(kept), len(self.before) - len(kept)
        return {"added": added, "changed": changed, "removed": removed, "unchanged": len(kept) - changed}

    def _parts(self) -> list[str]:
        return sorted({entry.part for entry in self.live.values()})

    def unchunked(self) -> dict[str, list[int]]:
        """Return the parts that lack chunks, with their missing sizes."""
        lacking: dict[str, list[int]] = {}
        for granularity in self.config.granularities:
            there = set(chunks_folder(self.archive, granularity, self.config.cut).names(".npy"))
            for part in self._parts():
                if keys_file(part) not in there:
                    lacking.setdefault(part, []).append(granularity)
        return lacking

    @contextmanager
    def embedding_work(self, index: TextIndex) -> Iterator[tuple[list[Share], int, int]]:
        """Yield the shares to embed and their number of texts and (about) tokens.

        The keys of the texts are in the folder ``work`` meanwhile.
        """
        texts = owned_texts(self._keys(), index)
        try:
            shares = plan_shares(self.archive, texts, index.reserve)
            yield shares, sum(map(len, texts.values())), self._tokens(texts)
        finally:
            clear_work(self.archive)

    def _tokens(self, texts: Mapping[str, Keys]) -> int:
        """Return about how many tokens the texts have, from at most ``_PARTS_SAMPLED`` of their parts."""
        folders = [chunks_folder(self.archive, size, self.config.cut) for size in self.config.embedded_sizes]
        parts = list(texts)[:: 1 + len(texts) // _PARTS_SAMPLED]
        counts = [count_tokens(folder, part) for part in parts for folder in folders]
        rows, tokens = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
        return round(tokens / max(rows, 1) * sum(map(len, texts.values())))

    def _keys(self) -> dict[str, Keys]:
        """Return the keys of each part that the parent has not embedded."""
        known: set[str] = set()
        sizes = self.config.embedded_sizes
        if not sizes:
            return {}
        if self._base_sizes() >= set(sizes):
            known = {entry.part for entry in self.before.values()}
        folders = [chunks_folder(self.archive, size, self.config.cut) for size in sizes]
        new = (part for part in self._parts() if part not in known)
        return {part: np.unique(np.concatenate([read_keys(folder, part) for folder in folders])) for part in new}

    def _base_sizes(self) -> set[int]:
        """Return the granularities at which the parent's shards have the same chunking and encoder as this version."""
        if self.parent is None or self.parent["config"]["boundaries"] != self.config.cut:
            return set()
        before = embedded_sizes(self.parent)
        plain = set(self.parent["granularities"]) - set(before) - set(self.config.embedded_sizes)
        same = self.parent["files"]["encoder"] == self.encoder
        return plain | (set(before) & set(self.config.embedded_sizes) if same else set())

    def build_shards(self, index: TextIndex) -> dict[int, list[BuiltShard]]:
        """Build the missing shards of each granularity and return all."""
        about, embedded = index.store.about(), self.config.embedded_sizes
        if about is None and embedded:
            raise ArchiveError(f"{self.archive.path} holds no vectors. Run okralong index again to embed all texts.")
        tokens = sum(entry.n_tokens for entry in self.live.values())
        shards = self.shards or self.config.shard_count(tokens, int(self.parent["shards"]) if self.parent else 1)
        languages = {key: facts.terms_language for key, facts in self._facts_without_dates.items()}
        documents = {key: Held(entry.sha256, entry.part, languages[key]) for key, entry in self.live.items()}
        mine: list[list[tuple[str, ...]]] = [[] for _ in range(shards)]
        for doc_id, held in sorted(documents.items()):
            # English is left out, so that the names of English shards equal those of earlier releases.
            language = () if held.language == ENGLISH else (held.language,)
            mine[shard_of(doc_id, shards)].append((doc_id, held.sha256, *language))
        built = {}
        for size in self.config.granularities:
            # Everything that a shard's files depend on in addition to its documents.
            salt: tuple[Any, ...] = (self.config.cut, size)
            if size in embedded:
                salt = (self.encoder, *salt, self.config.dense.content())
            dimension = about[0] if about is not None and size in embedded else 0
            names = [f"shard-{number:05d}-{digest((salt, held))}" for number, held in enumerate(mine)]
            place, base = granularity_folder(self.archive, size), self._base(size)
            rows_of, dense = self._rows_of(index, size), self.config.dense
            built[size] = rebuild_shards(place, size, names, documents, base, rows_of, dimension, dense)
        return built

    def _base(self, granularity: int) -> Base:
        if self.parent is None or granularity not in self._base_sizes():
            return Base()
        names: Sequence[str] = self.parent["files"]["index"][str(granularity)]
        place = granularity_folder(self.archive, granularity)
        return Base(
            [place.at(name) for name in names],
            {key: entry.sha256 for key, entry in self.before.items()},
            {key: facts.terms_language for key, facts in self._known_facts.items()},
        )

    def _rows_of(self, index: TextIndex, granularity: int) -> Callable[[str, set[str]], Iterator[Rows]]:
        folder = chunks_folder(self.archive, granularity, self.config.cut)
        embedded = granularity in self.config.embedded_sizes

        def rows(part: str, doc_ids: set[str]) -> Iterator[Rows]:
            wanted = pa.array(sorted(doc_ids))
            for whole in chunk_batches(folder, part):
                batch = whole.filter(pc.is_in(whole.column("doc_id"), value_set=wanted))
                if not len(batch):
                    continue
                (cast,) = pa.Table.from_batches([batch]).cast(layout.ROWS_SCHEMA).combine_chunks().to_batches()
                if not embedded:
                    yield cast, np.empty((len(batch), 0), dtype=np.float32), np.zeros(len(batch), dtype=np.bool_)
                    continue
                files, places = index.find(text_keys(batch.column("text").to_pylist()))
                if (files < 0).any():
                    raise ArchiveError(
                        f"{int((files < 0).sum())} chunks of {folder.path}/{part} have no vector in "
                        f"{index.store.folder.path}. Run okralong index again to embed them."
                    )
                values, over = index.store.gather(files, places)
                yield cast, values, over

        return rows

    def publish(
        self,
        shards: Built,
        sources: Sequence[KnownSource],
        failures: Sequence[tuple[str, str]],
        about: Mapping[str, Any],
        *,
        always: bool = False,
    ) -> dict[str, Any] | None:
        """Write the version's tables, make it visible to readers, and return its manifest, extended by ``about``.

        Returns None if it would equal the previous version, unless ``always``. ``shards`` are those of
        ``build_shards``.
        """
        manifest = self.manifest(shards, sources, failures, about)
        if self.parent and self.parent["fingerprint"] == manifest["fingerprint"] and not always:
            return None
        publish(self.archive, manifest)
        return manifest

    def manifest(
        self,
        shards: Built,
        sources: Sequence[KnownSource],
        failures: Sequence[tuple[str, str]],
        about: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Write the tables as ``publish`` does and return the manifest without making it visible."""
        facts = self._facts(sources)
        files = {
            "catalogue": write_catalogue(self.archive, self.entries, len(next(iter(shards.values())))),
            "sources": write_sources(self.archive, sources),
            "failures": write_failures(self.archive, failures, facts),
            "metadata": write_facts(self.archive, facts),
            "parts": sorted({entry.part for entry in self.entries}),
            "encoder": self.encoder,
            "index": {str(size): [shard.name for shard in built] for size, built in shards.items()},
        }
        compressor = about.get("compressor", {}).get("fingerprint")
        fingerprint = fingerprint_of(self.config, self.model, files, compressor)
        return {
            "kind": "archive",
            "version": self.parent["version"] + 1 if self.parent else 1,
            "parent": self.parent["version"] if self.parent else None,
            "layout": LAYOUT,
            "schema_version": SCHEMA_VERSION,
            "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "fingerprint": fingerprint,
            "files": files,
            "config": self.config.content(),
            "embedding": self._embedding_facts(),
            "granularities": self.config.granularities,
            "shards": len(files["catalogue"]),
            "documents": len(self.live),
            "languages": dict(sorted(Counter(each.terms_language for each in facts).items())),
            "document_tokens": sum(entry.n_tokens for entry in self.live.values()),
            "failures": len(failures),
            "read_in_part": sum(NOT_READ in each.own for each in facts),
            "ocr": _ocr_facts(facts),
            "changes": self.changes,
            "chunks": {str(size): sum(shard.rows for shard in built) for size, built in shards.items()},
            "chunks_over_encoder_limit": {
                str(size): sum(shard.over_limit for shard in built) for size, built in shards.items()
            },
            "versions": {name: _version(name) for name in _PACKAGES},
            **about,
        }

    @cached_property
    def _known_facts(self) -> dict[str, DocumentFacts]:
        """The metadata of the previous version's documents."""
        held = self.parent["files"].get("metadata") if self.parent else None
        return read_facts(self.archive, held) if held else {}

    @cached_property
    def _facts_without_dates(self) -> dict[str, DocumentFacts]:
        """The metadata of each document; new documents lack the date of their file.

        Only documents are read whose part changed or of which an earlier release read no cover or language.
        """
        known = self._known_facts
        kept = {
            key: known[key]
            for key, entry in self.live.items()
            if key in known
            and known[key].part == entry.part
            and known[key].cover is not None
            and known[key].language is not None
        }
        new = facts_of_documents(self.archive, (e for key, e in self.live.items() if key not in kept), {})
        all_of_them = kept | {each.doc_id: each for each in new}
        given = {key: facts.given for key, facts in known.items()} if self.given is None else self.given
        return {key: replace(facts, given=given.get(key, {})) for key, facts in all_of_them.items()}

    def _facts(self, sources: Sequence[KnownSource]) -> list[DocumentFacts]:
        """Return the metadata of each document."""
        days = {source.uri: _day(source.mtime_ns) for source in sources}
        return [
            replace(facts, file_date=facts.file_date or days.get(facts.source_uri, ""))
            for facts in self._facts_without_dates.values()
        ]

    def _embedding_facts(self) -> dict[str, Any]:
        """Return the encoder, needed to embed questions, and the sizes with vectors."""
        dimension, precision = self.store.about() or (0, "")
        return {
            "of": self.config.embedding.of,
            "model": self.config.embedding.model if self.config.embedded_sizes else self.model.name,
            "name": self.model.name,
            "sha256": self.model.sha256,
            "dimension": dimension,
            "precision": precision,
            "max_seq_length": self.config.embedding.max_seq_length,
            "dtype": self.config.embedding.dtype,
        }


def fingerprint_of(
    config: IndexConfig, model: ResolvedModel, files: Mapping[str, Any], compressor: str | None = None
) -> str:
    """Return a fingerprint of documents, failures, config and models.

    ``files`` are named after their content; ``compressor`` is the fingerprint of the compressor, if any.
    """
    content = [SCHEMA_VERSION, LAYOUT, config.content(), model.name, model.sha256]
    content += [files["catalogue"], files["failures"], files["index"]]
    content += [files["metadata"]] if "metadata" in files else []  # missing in versions of earlier releases
    # Appended only if there is one, so that other fingerprints equal those of earlier releases.
    content += [compressor] if compressor is not None else []
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _ocr_facts(facts: Sequence[DocumentFacts]) -> dict[str, int]:
    """Return the numbers of documents and pages read by OCR, and of pages with neither text nor OCR."""
    pages = [int(each.own.get("ocr_pages") or 0) for each in facts if each.own.get("ocr_pages", "").isdecimal()]
    unread = [each.own.get(PAGES_WITHOUT_TEXT, "") for each in facts]
    without = sum(int(count) for count in unread if count.isdecimal())
    return {"documents": sum(map(bool, pages)), "pages": sum(pages), "pages_without_text": without}


def _day(mtime_ns: int) -> str:
    """Return the UTC day of a time of change, "" if unknown."""
    return datetime.fromtimestamp(mtime_ns / 1e9, UTC).date().isoformat() if mtime_ns > 0 else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


# Shares of the embedding work: for each part, the texts that no earlier part has and no vector file holds.

WORK: Final = "work"
"""The folder for the inputs of a running job's tasks, empty between jobs."""

_SLICES_WANTED: Final = 128
"""Vector files per job: a killed job loses one per encoder, a hundredth of all. # project default"""
_LEAST_SLICE: Final = 32
_MOST_SLICE: Final = 4096
"""Texts per vector file: a large archive has few small files, and a task holds some megabytes. # project default"""


_PARTS_SAMPLED: Final = 256
"""Parts that decide how many tokens there are to embed. # project default"""


_NAME: Final = re.compile(r"[0-9a-f]{16}-\d{2,}|\..*\.partial")
"""Names of parts, and of partial files of a killed job."""


@dataclass(frozen=True, slots=True)
class Share:
    """Texts of ``part`` to embed, for vector files from number ``first`` on, ``size`` texts each.

    The keys of the texts are in ``work/part``.
    """

    part: str
    first: int
    size: int


def plan_shares(archive: Folder, texts: Mapping[str, Keys], reserve: Callable[[int], int]) -> list[Share]:
    """Write the keys that each part is to embed, and number the vector files with ``reserve``."""
    size = min(max(sum(map(len, texts.values())) // _SLICES_WANTED, _LEAST_SLICE), _MOST_SLICE)
    first = reserve(sum(-(-len(keys) // size) for keys in texts.values()))
    shares = []
    for part, keys in texts.items():
        archive.at(WORK).write_bytes(part, keys.tobytes())
        shares.append(Share(part, first, size))
        first += -(-len(keys) // size)
    return shares


def clear_work(archive: Folder) -> None:
    """Delete the files of ``plan_shares``."""
    folder = archive.at(WORK)
    for name in filter(_NAME.fullmatch, folder.names()):
        folder.remove(name)
    if folder.is_local and folder.is_there and not folder.names():
        folder.filesystem.delete_dir(folder.path)


def share_texts(archive: str, share: Share, config: IndexConfig) -> Iterator[dict[str, Any]]:
    """Yield the work of a share per vector file: number, keys, texts and their numbers of tokens."""
    folder = Folder.of(archive)
    owned = np.frombuffer(folder.at(WORK).read_bytes(share.part), dtype=f"S{KEY_BYTES}")
    todo = np.ones(len(owned), dtype=np.bool_)
    keys: list[bytes] = []
    texts: list[str] = []
    tokens: list[int] = []
    number = share.first
    for granularity in config.embedded_sizes:
        for batch in chunk_batches(chunks_folder(folder, granularity, config.cut), share.part):
            column, counts = batch.column("text"), batch.column("n_tokens")
            for row in _new_rows(text_keys(column.to_pylist()), owned, todo):
                keys.extend(key_bytes(owned[row[1] : row[1] + 1]))
                texts.append(column[row[0]].as_py())
                tokens.append(counts[row[0]].as_py())
                if len(keys) == share.size:
                    yield {"number": number, "keys": keys, "texts": texts, "tokens": tokens}
                    number, keys, texts, tokens = number + 1, [], [], []
    if keys:
        yield {"number": number, "keys": keys, "texts": texts, "tokens": tokens}


def _new_rows(found: Any, owned: Any, todo: Any) -> Sequence[tuple[int, int]]:
    """Return (row, place in ``owned``) of texts still to do, and mark them as done."""
    places = np.minimum(np.searchsorted(owned, found), len(owned) - 1)
    rows = np.flatnonzero((owned[places] == found) & todo[places])
    _, first = np.unique(places[rows], return_index=True)
    rows = rows[np.sort(first)]
    todo[places[rows]] = False
    return list(zip(rows.tolist(), places[rows].tolist(), strict=True))


# The tables of compressed chunks of a version's shards. A compressor works on existing vectors, so nothing is embedded,
# or on the chunks' texts. A reused shard keeps its table, and a rebuilt one the rows that are costly to compute.


def wanted_compressor(config: IndexConfig, model: ResolvedModel) -> TableCompressor | None:
    """Return the compressor for the archive's table, or None. Raises ConfigError for an unsuitable one."""
    encoder = {"sha256": model.sha256, "model": config.embedding.model}
    folder = compressor_to_index(config.compressor, encoder, config.embedded_sizes)
    return None if folder is None else table_compressor(folder, config.generator)


def compressor_facts(compressor: TableCompressor | None) -> dict[str, Any]:
    """Return the manifest's record of the compressor, empty without one."""
    if compressor is None:
        return {}
    shape = compressor.shape
    said = {"fingerprint": compressor.fingerprint, "granularity": shape.chunk_tokens, "generator": shape.generator}
    unit = {"unit": "sentence"} if by_sentence(shape) else {}
    return {"compressor": {**said, "vectors_per_chunk": shape.vectors_per_chunk, "hidden": shape.hidden, **unit}}


def lacking(
    archive: Folder, compressor: TableCompressor, shards: Built, parent: Mapping[str, Any] | None
) -> list[tuple[str, str | None]]:
    """Return the names of the shards without tables.

    Each comes with the shard of the same number of the ``parent`` version, if that has a table of this compressor.
    """
    size = compressor.shape.chunk_tokens
    place = compressed_folder(archive, compressor.fingerprint, size)
    before: list[str | None] = [None] * len(shards[size])
    if parent and (parent.get("compressor") or {}).get("fingerprint") == compressor.fingerprint:
        names = parent["files"]["index"][str(size)]
        if len(names) == len(before):
            before = [name if place.at(name).exists(FILE) else None for name in names]
    pairs = zip(shards[size], before, strict=True)
    return [(shard.name, old) for shard, old in pairs if not place.at(shard.name).exists(FILE)]


def compress_shard(
    archive: str, name: str, before: str | None, compressor: TableCompressor, encode: Encode | None = None
) -> int:
    """Write the table of the shard ``name`` and return the number of chunks that were compressed for it.

    Chunks that the shard ``before`` has too keep their vectors, unless these cost less than to look them up.
    """
    folder, size = Folder.of(archive), compressor.shape.chunk_tokens
    place = granularity_folder(folder, size).at(name)
    shard = Shard.open(place)
    rows = layout.read_columns(place, layout.ROWS)
    chunks = _chunk_texts(rows)
    tables = compressed_folder(folder, compressor.fingerprint, size)
    made: dict[int, NDArray[np.float16]] = {}
    if before is not None and not (isinstance(shape := compressor.shape, Shape) and shape.unit == "chunk"):
        old = layout.read_columns(granularity_folder(folder, size).at(before), layout.ROWS)
        held = {each: row for row, each in enumerate(_chunk_texts(old))}
        same = {row: held[each] for row, each in enumerate(chunks) if each in held}
        table = CompressedRows.of(tables.at(before), compressor_facts(compressor)["compressor"])
        made = dict(zip(same, (each.astype(np.float16) for each in table.take(list(same.values()))), strict=True))
    if todo := [row for row in range(len(chunks)) if row not in made]:
        new = compressor.of_chunks(shard.vectors[todo], [chunks[row][1] for row in todo], encode)
        made |= zip(todo, (each.astype(np.float16) for each in new), strict=True)
    numbers = None if by_sentence(compressor.shape) else compressor.shape.vectors_per_chunk * compressor.shape.hidden
    write_compressed(tables.at(name), rows, [made[row] for row in range(len(chunks))], numbers)
    return len(todo)


def _chunk_texts(rows: pa.Table) -> list[tuple[str, str]]:
    return list(zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def carry_without(archive: Folder, parent: Mapping[str, Any], shards: Built, doc_id: str) -> dict[str, Any]:
    """Make the tables of ``shards`` from those of ``parent``, which differ by a purged document only.

    Returns the manifest's record of the compressor, empty without one.
    """
    before = table_folders(archive, parent)
    if not before:
        return {}
    held = parent["compressor"]
    place = compressed_folder(archive, held["fingerprint"], held["granularity"])
    for source, shard in zip(before, shards[held["granularity"]], strict=True):
        target = place.at(shard.name)
        if not target.exists(FILE):
            copy_without(source, target, doc_id)
    return {"compressor": held}
