"""The unit costs that were measured, as the simulation and the arithmetic of a night take them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).parents[1] / "results" / "scaling"


@dataclass(frozen=True)
class UnitCosts:
    """Seconds are of one core's processor time.

    ``chunks_a_token`` is by chunk size, a chunk size's chunks for each token of a document; ``bytes_a_chunk`` by folder
    of the archive, over all chunk sizes, and ``bytes_a_token`` of ``documents``. ``document_s`` is a look-up in one
    document by both retrievers, ``flat_s_a_chunk`` and ``ivf_s_a_chunk`` what each chunk of the archive adds to one in
    everything, ``shard_call_s`` a call to a shard's process on both sides; ``process_bytes`` is that process's memory.
    """

    sizes: tuple[int, ...]
    chunks_a_token: dict[str, float]
    bytes_a_chunk: dict[str, float]
    bytes_a_token: float
    read_s_a_mb: float
    mb_a_token: float
    chunk_s: float
    embed_texts_a_s: float
    embed_tokens_a_s: float
    build_s: float
    document_s: float
    flat_s_a_chunk: float
    ivf_s_a_chunk: float
    ivf_build_s: float
    analysis_s: float
    query_vector_s: float
    question_s: float
    retrievals: float
    shard_call_s: float
    process_bytes: float

    @classmethod
    def load(cls, file: Path = RESULTS / "costs.json") -> UnitCosts:
        """Those of ``python -m benchmarks.scaling.costs``."""
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        flat = {name: value for section in found.values() for name, value in section.items()}
        return cls(**{name: flat[name] for name in cls.__annotations__} | {"sizes": tuple(flat["sizes"])})
