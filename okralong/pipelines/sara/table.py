"""Load the compressor of an index job; torch is imported only for memory slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from okralong.pipelines.sara.artifact import (
    Array,
    ArrayCompressor,
    Encode,
    MemoryShape,
    MemorySlots,
    read_compressor,
)


@dataclass(frozen=True)
class SlotsTable:
    """A ``TableCompressor`` for memory slots. It imports torch only when it compresses."""

    slots: MemorySlots

    @property
    def shape(self) -> MemoryShape:
        """The shape of the memory."""
        return self.slots.shape

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the compressor's files."""
        return self.slots.fingerprint

    def of_chunks(self, vectors: Array, texts: Sequence[str], encode: Encode | None = None) -> list[Array]:
        """See ``TableCompressor``; uses ``texts`` only. Raises ConfigError if the generator cannot be loaded."""
        from okralong.pipelines.sara.compressor import MemoryCompressor  # importing torch takes seconds

        return list(MemoryCompressor.of(self.slots).slots(texts))


def table_compressor(folder: Path, model: str) -> ArrayCompressor | SlotsTable:
    """Load the compressor in ``folder`` for an index job. Raises ConfigError as ``read_compressor`` does."""
    read = read_compressor(folder, model)
    return SlotsTable(read) if isinstance(read, MemorySlots) else read
