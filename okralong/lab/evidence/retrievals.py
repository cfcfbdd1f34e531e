"""Cache retrievals, analyses and readings, because a sweep repeats the same queries many times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from okralong.lab.datasets.encoder import CachedEncoder
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, Analyzer
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import LocalShard, search
from okralong.pipelines.archive.shard import Vector
from okralong.pipelines.core.types import Analysis, Candidates, Reading
from okralong.pipelines.models.weights import SHIPPED

if TYPE_CHECKING:
    from okralong.pipelines.models.cross_encoder import CrossEncoder

DEPTH: Final = 100  # project default
"""Number of chunks that each retriever returns. A request for fewer gets the first of them."""


@dataclass
class Retrievals:
    """Both retrievers over a local archive, with a cache."""

    archive: Archive
    encoder: CachedEncoder
    _shards: dict[int, list[LocalShard]] = field(default_factory=dict)

    def shards(self, granularity: int) -> Sequence[LocalShard]:
        """Return all shards of a chunk size. Raises ArchiveError if the archive does not have it."""
        if granularity not in self._shards:
            self._shards[granularity] = [RememberedShard(each.shard) for each in self.archive.clients(granularity)]
        return self._shards[granularity]

    async def find(
        self, query: str, doc_ids: tuple[str, ...], granularity: int, k: int, prefix: str = ""
    ) -> Candidates:
        """Return the top ``k`` chunks of ``doc_ids`` for each retriever.

        ``prefix`` is prepended to the query when it is embedded.
        """
        vector, languages = self.encoder.encode([prefix + query])[0], self.archive.languages_of(doc_ids)
        return await search(self.shards(granularity), query, vector, doc_ids, k, languages)

    def prepare(self, queries: list[str]) -> None:
        """Embed many queries at once, and cache their vectors."""
        if queries:
            self.encoder.encode(queries)


@dataclass(frozen=True)
class RememberedShard(LocalShard):
    """A shard that caches the candidates for each query and scope."""

    found: dict[Hashable, Candidates] = field(default_factory=dict)

    async def candidates(
        self, terms: Sequence[str], vector: Vector, doc_ids: Sequence[str] | None, k: int
    ) -> Candidates:
        """See ``Shard.candidates``."""
        looked_for = None if vector is None else np.asarray(vector).tobytes()
        key = (tuple(terms), looked_for, doc_ids if doc_ids is None else tuple(doc_ids))
        if key not in self.found or k > DEPTH:
            self.found[key] = self.shard.candidates(terms, vector, doc_ids, max(k, DEPTH))
        return Candidates(self.found[key].exact[:k], self.found[key].semantic[:k])


@dataclass
class Remembered:
    """An analyzer that caches its analyses."""

    analyzer: Analyzer
    _said: dict[AnalysisInput, Analysis] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """See ``Analyzer``."""
        return self.analyzer.name

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        new = [asked for asked in dict.fromkeys(batch) if asked not in self._said]
        self._said.update(zip(new, self.analyzer.analyze(new), strict=True))
        return [self._said[asked] for asked in batch]


@dataclass
class RememberedReader:
    """A cross-encoder that caches its reading of each pair of query and passage. ``load`` loads it on first use."""

    name: str
    load: Callable[[], CrossEncoder]
    _model: CrossEncoder | None = None
    _read: dict[tuple[str, str], Reading] = field(default_factory=dict)

    def read(self, query: str, passages: Sequence[str]) -> list[Reading]:
        """Return the readings of passages for a query, in order."""
        new = [passage for passage in dict.fromkeys(passages) if (query, passage) not in self._read]
        if new:
            if self._model is None:
                self._model = self.load()
            self._read.update(
                zip([(query, each) for each in new], self._model.read([query] * len(new), new), strict=True)
            )
        return [self._read[query, passage] for passage in passages]

    async def port(self, query: str, passages: list[str]) -> list[Reading]:
        """See ``Models.read``."""
        return self.read(query, passages)


@cache
def _shipped() -> RememberedReader:
    return RememberedReader(SHIPPED, partial(load_reranker, RerankerConfig()))


def reader_of(policy: Policy) -> RememberedReader | None:
    """Return the shipped cross-encoder if the policy ranks by one, else None."""
    return _shipped() if policy.rerank.candidates else None
