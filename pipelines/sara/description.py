"""What a compressor says of itself, without its weights and without torch: ``compressor.json``."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError

WEIGHTS: Final = "compressor.safetensors"
DESCRIPTION: Final = "compressor.json"

DIGITS: Final = 12
"""Hex digits of a compressor's fingerprint; as of a reader's."""

FORMAT: Final = 1
"""Grows when the same weights would give other vectors."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a compressor is made for.

    ``inputs`` and ``hidden`` are the lengths of the encoder's vectors and of the generator's token embeddings,
    ``width`` that of the layer between (ours; the paper gives none). Each chunk becomes ``vectors_per_chunk`` vectors
    (SARA section 2.3: one). ``encoder`` and ``generator`` are names, as configs say them; ``encoder_sha256`` is that of
    the encoder's weights, None where unknown. ``chunk_tokens`` is the granularity of the chunks that it learned from
    (SARA section 3.1: 256).
    """

    inputs: int
    width: int
    hidden: int
    vectors_per_chunk: int = 1
    encoder: str = "embedded"
    encoder_sha256: str | None = None
    generator: str = "embedded"
    chunk_tokens: int = 256


_Count = Annotated[int, Field(ge=1)]


class Description(Settings):
    """The content of ``compressor.json``: see ``Shape``."""

    format: Literal[1]
    fingerprint: str = Field(pattern=r"^[0-9a-f]{12}$")
    inputs: _Count
    width: _Count
    hidden: _Count
    vectors_per_chunk: _Count
    encoder: str
    encoder_sha256: str | None
    generator: str
    chunk_tokens: _Count

    def shape(self) -> Shape:
        """The same without what the file adds."""
        return Shape(**self.model_dump(exclude={"format", "fingerprint"}))


def read_description(folder: Path) -> Description:
    """The description in ``folder``. Raises ConfigError where it is missing or unusable."""
    file = folder / DESCRIPTION
    if not file.is_file():
        raise unusable(folder, f"holds no {DESCRIPTION}")
    return parse_config(Description, file.read_text(encoding="utf-8", errors="replace"), str(file))


def read_shape(folder: Path) -> tuple[Shape, str]:
    """What the compressor in ``folder`` is made for, and its fingerprint, without its weights. Raises ConfigError."""
    described = read_description(folder)
    return described.shape(), described.fingerprint


def fingerprint_of(said: dict[str, object], content: bytes) -> str:
    """The fingerprint of a compressor described by ``said`` with the weights ``content``."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    digest.update(content)
    return digest.hexdigest()[:DIGITS]


def unusable(folder: Path, why: str) -> ConfigError:
    """What is raised for a compressor that is not whole."""
    return ConfigError(
        f"The compressor {folder} {why}. Copy the folder again whole, or train one with `okralong train-sara`."
    )
