"""GraphRAG's section of the policy."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.answering.policy import Count, MethodSection, Rounds, Share, Tokens


class Section(MethodSection):
    """GraphRAG's constants.

    Entities and relations are extracted from chunks of ``granularity`` tokens. Communities of ``cluster_size`` or more
    entities are divided. A report is written from at most ``report_tokens``. In a larger scope, ``candidates`` chunks
    are retrieved and the ``max_documents`` documents with the best of them are used.

    ``search`` is "local" or "global". Local search shows ``max_tokens`` about the ``entities`` nearest to the question:
    at most the share ``community_share`` are reports, at most ``text_share`` chunks; the rest are the entities, with
    ``relationships`` relations each. Global search uses the reports of ``level`` (0: the largest communities), in at
    most ``max_maps`` batches of ``max_tokens``.
    """

    KEY = "graphrag"
    granularity: Tokens = 512
    cluster_size: Annotated[int, Field(ge=2, le=1000)] = 10
    report_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 8000
    candidates: Count = 100
    max_documents: Count = 8
    search: Literal["local", "global"] = "local"
    max_tokens: Annotated[int, Field(ge=64, le=1_000_000)] = 8000
    entities: Count = 10
    relationships: Count = 10
    community_share: Share = 0.1
    text_share: Share = 0.5
    level: Annotated[int, Field(ge=0, le=16)] = 2
    max_maps: Rounds = 8

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.community_share + self.text_share > 1:
            raise ValueError("community_share and text_share must not add up to more than 1")
        return self
