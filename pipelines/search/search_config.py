"""What ``search`` in an answer config may say: how many processes hold the shards, and with what."""

from __future__ import annotations

from pydantic import Field

from okralong.pipelines.core.config import Settings


class SearchConfig(Settings):
    """``replicas`` times as many processes as there are shards hold them: each shard one, and the others go to those
    that the run's questions ask most. ``gpus_per_shard`` is the part of a GPU that each process holds, with a copy of
    its vectors on it; 0: FAISS runs on the processor.
    """

    replicas: int = Field(default=1, ge=1, le=64)
    gpus_per_shard: float = Field(default=0.0, ge=0, le=1)
