"""A version in the making, once its documents are known: what is to embed, its shards, its tables. Without Ray."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.build import Base, BuiltShard, Held, Rows, rebuild_shards
from okralong.pipelines.archive.files import granularity_folder, shard_of
from okralong.pipelines.archive.vectors import TextIndex, VectorStore, encoder_key, owned_texts, text_keys
from okralong.pipelines.archive.versions import Claim, KnownSource, digest, write_catalogue, write_sources
from okralong.pipelines.core.schemas import FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.indexing.chunk_tables import chunk_batches, chunks_folder, keys_file, read_keys
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.shares import Share, clear_work, plan_shares
from okralong.pipelines.models.weights import ResolvedModel


@dataclass
class VersionBuild:
    """What a version is made of: ``live`` are its documents by doc_id. ``parent`` is the manifest of the version
    before, if there is one, and ``before`` that one's documents.
    """

    archive: Folder
    config: IndexConfig
    model: ResolvedModel
    live: Mapping[str, Claim]
    parent: Mapping[str, Any] | None
    before: Mapping[str, Claim]

    @property
    def encoder(self) -> str:
        """The key of the encoder, see ``vector_store.py``."""
        one = self.config.embedding
        seen = (one.max_seq_length, one.passage_prefix)
        return encoder_key(self.model.name, self.model.sha256, *seen, one.dtype, one.precision)

    @property
    def store(self) -> VectorStore:
        """The vectors of the encoder."""
        return VectorStore.of(self.archive, self.encoder, self.config.embedding.dtype)

    def parts(self) -> list[str]:
        """The parts that the documents are in."""
        return sorted({claim.part for claim in self.live.values()})

    def unchunked(self) -> dict[str, list[int]]:
        """The parts that lack chunks of some sizes, and which."""
        lacking: dict[str, list[int]] = {}
        for granularity in self.config.granularities:
            there = set(chunks_folder(self.archive, granularity, self.config.boundaries).names(".npy"))
            for part in self.parts():
                if keys_file(part) not in there:
                    lacking.setdefault(part, []).append(granularity)
        return lacking

    @contextmanager
    def embedding_work(self, index: TextIndex) -> Iterator[tuple[list[Share], int]]:
        """What is to embed, and how many texts that is; handed out in the folder ``work`` for the time of the block."""
        with tempfile.TemporaryDirectory(prefix="okralong-shares-") as scratch:
            counts = owned_texts(self._keys(Path(scratch)), index, Path(scratch))
            try:
                yield plan_shares(self.archive, counts, Path(scratch), index.reserve), sum(counts.values())
            finally:
                clear_work(self.archive)

    def _keys(self, scratch: Path) -> dict[str, Any]:
        """The sorted keys of each part that the parent has not embedded, mapped from local files."""
        known: set[str] = set()
        if self.parent is not None and self._base_sizes() >= set(self.config.granularities):
            known = {claim.part for claim in self.before.values()}
        mapped = {}
        for part in self.parts():
            if part not in known:
                sizes = [
                    chunks_folder(self.archive, size, self.config.boundaries) for size in self.config.granularities
                ]
                path = scratch / f"{part}.npy"
                np.save(path, np.unique(np.concatenate([read_keys(folder, part) for folder in sizes])))
                mapped[part] = np.load(path, mmap_mode="r").view(np.ndarray)
        return mapped

    def _base_sizes(self) -> set[int]:
        """The granularities at which the parent's shards are of the same chunks and vectors as this version's."""
        if self.parent is None or self.parent["files"]["encoder"] != self.encoder:
            return set()
        same = self.parent["config"]["boundaries"] == self.config.boundaries
        return set(self.parent["granularities"]) if same else set()

    def build_shards(self, index: TextIndex) -> dict[int, list[BuiltShard]]:
        """The shards of each granularity; those that are there already are taken over."""
        about = index.store.about()
        if about is None:
            raise ArchiveError(f"{self.archive.path} holds no vectors. Run okralong index again: it embeds all texts.")
        tokens = sum(claim.n_tokens for claim in self.live.values())
        shards = self.config.shard_count(tokens, int(self.parent["shards"]) if self.parent else 1)
        documents = {doc_id: Held(claim.sha256, claim.part) for doc_id, claim in self.live.items()}
        mine: list[list[tuple[str, str]]] = [[] for _ in range(shards)]
        for doc_id, held in sorted(documents.items()):
            mine[shard_of(doc_id, shards)].append((doc_id, held.sha256))
        built = {}
        for size in self.config.granularities:
            # What a shard's files depend on beside its documents.
            salt = (self.encoder, self.config.boundaries, size, self.config.dense.model_dump())
            names = [f"shard-{number:05d}-{digest((salt, held))}" for number, held in enumerate(mine)]
            place, base = granularity_folder(self.archive, size), self._base(size)
            rows_of, dense = self._rows_of(index, size), self.config.dense
            built[size] = rebuild_shards(place, size, names, documents, base, rows_of, about[0], dense)
        return built

    def _base(self, granularity: int) -> Base:
        if self.parent is None or granularity not in self._base_sizes():
            return Base()
        names: Sequence[str] = self.parent["files"]["index"][str(granularity)]
        place = granularity_folder(self.archive, granularity)
        return Base([place.at(name) for name in names], {key: claim.sha256 for key, claim in self.before.items()})

    def _rows_of(self, index: TextIndex, granularity: int) -> Callable[[str, set[str]], Iterator[Rows]]:
        folder = chunks_folder(self.archive, granularity, self.config.boundaries)

        def rows(part: str, doc_ids: set[str]) -> Iterator[Rows]:
            wanted = pa.array(sorted(doc_ids))
            for whole in chunk_batches(folder, part):
                batch = whole.filter(pc.is_in(whole.column("doc_id"), value_set=wanted))
                if not len(batch):
                    continue
                files, places = index.find(text_keys(batch.column("text").to_pylist()))
                if (files < 0).any():
                    raise ArchiveError(
                        f"{int((files < 0).sum())} chunks of {folder.path}/{part} have no vector in "
                        f"{index.store.folder.path}. Run okralong index again: it embeds what is missing."
                    )
                values, over = index.store.gather(files, places)
                (cast,) = pa.Table.from_batches([batch]).cast(layout.ROWS_SCHEMA).combine_chunks().to_batches()
                yield cast, values, over

        return rows

    def write_files(
        self,
        claims: Sequence[Claim],
        sources: Sequence[KnownSource],
        failures: Sequence[tuple[str, str]],
        shards: Mapping[int, Sequence[BuiltShard]],
    ) -> dict[str, Any]:
        """Write the tables that say what the version holds; the names of all its files. ``shards`` are those that
        ``build_shards`` gave.
        """
        return {
            "catalogue": write_catalogue(self.archive, claims, len(next(iter(shards.values())))),
            "sources": write_sources(self.archive, sources),
            "failures": _write_failures(self.archive, failures),
            "parts": sorted({claim.part for claim in claims}),
            "encoder": self.encoder,
            "index": {str(size): [shard.name for shard in built] for size, built in shards.items()},
        }


def _write_failures(archive: Folder, failures: Sequence[tuple[str, str]]) -> str:
    folder, name = archive.at("failures"), f"{digest(sorted(failures))}.parquet"
    if not folder.exists(name):
        now = datetime.now(UTC)
        rows = [
            {"id": doc_id, "stage": "read", "error_type": "DocumentError", "message": message, "at": now}
            for doc_id, message in sorted(failures)
        ]
        folder.write_table(name, pa.Table.from_pylist(rows, schema=FAILURES))
    return name
