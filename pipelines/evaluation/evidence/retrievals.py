"""Retrieval for a whole sweep: many policies ask the same queries, and each is looked up once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.types import Candidates
from okralong.pipelines.evaluation.evidence.vector_cache import CachedEncoder

DEPTH: Final = 100
"""Chunks looked up for each retriever; a caller that asks for fewer gets the first of them. Ours."""


@dataclass
class Retrievals:
    """Both retrievers over one archive, with a memory."""

    archive: Archive
    encoder: CachedEncoder
    _found: dict[tuple[str, str, tuple[str, ...], int], Candidates] = field(default_factory=dict)

    async def find(
        self, query: str, doc_ids: tuple[str, ...], granularity: int, k: int, prefix: str = ""
    ) -> Candidates:
        """The top ``k`` chunks of ``doc_ids`` for each retriever, as an answer run would find them.

        ``prefix`` stands before the query where it is embedded.
        """
        key = (prefix, query, doc_ids, granularity)
        deep = max(k, DEPTH)
        if key not in self._found or k > DEPTH:
            vector = self.encoder.encode([prefix + query])[0]
            self._found[key] = await search(self.archive.clients(granularity), query, vector, doc_ids, deep)
        found = self._found[key]
        return Candidates(found.exact[:k], found.semantic[:k])

    def prepare(self, queries: list[str]) -> None:
        """Embed many queries in one go, so that they come from memory afterwards."""
        if queries:
            self.encoder.encode(queries)
