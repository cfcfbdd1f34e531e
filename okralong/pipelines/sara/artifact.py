"""A compressor's files: what it says of itself, its weights on plain arrays, and whether it fits archive and generator.

Without torch: its two small layers work on vectors that exist already, and an index job would wait longer for torch
than for the numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import DIGITS, FILES, merged_model
from okralong.pipelines.models.weights import EMBEDDED, adapter_digest, causal_model

WEIGHTS: Final = "compressor.safetensors"
DESCRIPTION: Final = "compressor.json"

DIGEST_DIGITS: Final = 12
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


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """What a compressor of memory slots (ICAE, Ge et al. 2024) is made for: the generator itself reads a chunk, with an
    adapter, and what it says at ``vectors_per_chunk`` learned tokens behind it are the chunk's vectors.

    ``hidden``, ``generator`` and ``chunk_tokens`` are as in ``Shape``; ``rank``, ``alpha`` and ``targets`` are the
    adapter's (LoRA).
    """

    hidden: int
    vectors_per_chunk: int
    rank: int
    alpha: int
    targets: tuple[str, ...]
    generator: str = "embedded"
    chunk_tokens: int = 256


AnyShape = Shape | MemoryShape

MEMORY: Final = "memory"
"""The ``kind`` that the description of a compressor of memory slots says; the others say none."""

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


class MemoryDescription(Settings):
    """The content of ``compressor.json`` for memory slots: see ``MemoryShape``."""

    kind: Literal["memory"]
    format: Literal[1]
    fingerprint: str = Field(pattern=r"^[0-9a-f]{12}$")
    hidden: _Count
    vectors_per_chunk: _Count
    rank: _Count
    alpha: _Count
    targets: Annotated[list[str], Field(min_length=1)]
    generator: str
    chunk_tokens: _Count

    def shape(self) -> MemoryShape:
        """The same without what the file adds."""
        said = self.model_dump(exclude={"kind", "format", "fingerprint"})
        return MemoryShape(**{**said, "targets": tuple(self.targets)})


def read_description(folder: Path) -> Description | MemoryDescription:
    """The description in ``folder``. Raises ConfigError where it is missing or unusable."""
    file = folder / DESCRIPTION
    if not file.is_file():
        raise unusable(folder, f"holds no {DESCRIPTION}")
    text = file.read_text(encoding="utf-8", errors="replace")
    if _kind(text) == MEMORY:
        return parse_config(MemoryDescription, text, str(file))
    return parse_config(Description, text, str(file))


def _kind(text: str) -> object:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return said.get("kind") if isinstance(said, dict) else None


def read_shape(folder: Path) -> tuple[AnyShape, str]:
    """What the compressor in ``folder`` is made for, and its fingerprint, without its weights. Raises ConfigError."""
    described = read_description(folder)
    return described.shape(), described.fingerprint


def described_as(shape: AnyShape) -> dict[str, Any]:
    """The description of a compressor but for its fingerprint."""
    kind = {"kind": MEMORY} if isinstance(shape, MemoryShape) else {}
    return {**kind, "format": FORMAT, **asdict(shape)}


def fingerprint_of(said: dict[str, object], content: bytes) -> str:
    """The fingerprint of a compressor described by ``said`` with the weights ``content``."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    digest.update(content)
    return digest.hexdigest()[:DIGEST_DIGITS]


def read_weights(folder: Path) -> tuple[AnyShape, str, dict[str, NDArray[np.float16]]]:
    """Shape, fingerprint and weights of the compressor in ``folder``, by their names in its file. Raises ConfigError
    where it is missing, damaged or altered.
    """
    described = read_description(folder)
    shape = described.shape()
    try:
        content = (folder / WEIGHTS).read_bytes()
        found: dict[str, Any] = load(content)
    except (OSError, SafetensorError) as error:
        raise unusable(folder, f"cannot be read: {error}") from error
    if fingerprint_of(described_as(shape), content) != described.fingerprint:
        raise unusable(folder, f"does not have the fingerprint that its {DESCRIPTION} says")
    return shape, described.fingerprint, found


def unusable(folder: Path, why: str) -> ConfigError:
    """What is raised for a compressor that is not whole."""
    return ConfigError(
        f"The compressor {folder} {why}. Copy the folder again whole, or train one with `okralong train-sara`."
    )


# What ``Compressor`` computes, on plain arrays.

Array = NDArray[np.float32]

_EPSILON: Final = 1e-5
"""PyTorch's default for a LayerNorm."""
_BLOCK: Final = 4096
"""Chunks at a time, so that what lies between the layers takes some megabytes; ours."""


@dataclass(frozen=True)
class ArrayCompressor:
    """A compressor's weights in float32, by PyTorch's names for them; ``fingerprint`` is that of its files."""

    shape: Shape
    fingerprint: str
    weights: dict[str, Array]

    @classmethod
    def load(cls, folder: Path) -> ArrayCompressor:
        """What ``Compressor.save`` wrote. Raises ConfigError where it is missing, damaged or altered, and for memory
        slots, which are no function of a sentence embedding.
        """
        shape, fingerprint, found = read_weights(folder)
        if isinstance(shape, MemoryShape):
            raise ConfigError(
                f"The compressor {folder} keeps memory slots, which the generator makes of a chunk's text: there is no "
                "space of vectors to choose by. Set selection.space, or sara.space, to encoder in the policy."
            )
        if {name: value.shape for name, value in found.items()} != _shapes(shape):
            raise unusable(folder, f"has weights of other shapes than its {DESCRIPTION} says")
        return cls(shape, fingerprint, {name: value.astype(np.float32) for name, value in found.items()})

    def __call__(self, embeddings: Array) -> Array:
        """The encoder's unit vectors, shape (n, inputs), as vectors of shape (n, vectors_per_chunk, hidden)."""
        if not len(embeddings):
            return np.zeros((0, self.shape.vectors_per_chunk, self.shape.hidden), dtype=np.float32)
        starts = range(0, len(embeddings), _BLOCK)
        return np.concatenate([self._block(embeddings[start : start + _BLOCK]) for start in starts])

    def of_chunks(self, vectors: Array, texts: Sequence[str]) -> Array:
        """See ``TableCompressor``; ``texts`` are not looked at."""
        return self(vectors)

    def pooled(self, embeddings: Array) -> Array:
        """One unit vector for each, the mean of its own: shape (n, inputs) becomes (n, hidden). For selection."""
        means = self(embeddings).mean(axis=1)
        unit: Array = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return unit

    def _block(self, embeddings: Array) -> Array:
        w = self.weights
        between = gelu(embeddings.astype(np.float32) @ w["inner.weight"].T + w["inner.bias"])
        found = between @ w["outer.weight"].T + w["outer.bias"]
        found = found.reshape(len(found), self.shape.vectors_per_chunk, self.shape.hidden)
        found = found - found.mean(axis=2, keepdims=True)
        found = found / np.sqrt((found * found).mean(axis=2, keepdims=True) + _EPSILON)
        normed: Array = (found * w["norm.weight"] + w["norm.bias"]).astype(np.float32)
        return normed


def gelu(values: Array) -> Array:
    """The Gaussian error linear unit. The error function is Abramowitz and Stegun's 7.1.26, true to 1.5e-7."""
    x = np.abs(values) / np.sqrt(np.float32(2))
    t = 1 / (1 + np.float32(0.3275911) * x)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(values) * (1 - series * np.exp(-x * x))
    done: Array = (0.5 * values * (1 + erf)).astype(np.float32)
    return done


def _shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    out = shape.hidden * shape.vectors_per_chunk
    return {
        "inner.weight": (shape.width, shape.inputs),
        "inner.bias": (shape.width,),
        "outer.weight": (out, shape.width),
        "outer.bias": (out,),
        "norm.weight": (shape.hidden,),
        "norm.bias": (shape.hidden,),
    }


class TableCompressor(Protocol):
    """What an index job makes the table of an archive with."""

    @property
    def shape(self) -> AnyShape:
        """What it is made for."""

    @property
    def fingerprint(self) -> str:
        """That of its files."""

    def of_chunks(self, vectors: Array, texts: Sequence[str]) -> Array:
        """Of chunks the encoder's unit vectors (n, dimension) and their texts: (n, vectors_per_chunk, hidden)."""


@dataclass(frozen=True)
class MemorySlots:
    """ICAE's memory as an index job has it: the weights as they were read, given to ``model`` where they are used."""

    shape: MemoryShape
    fingerprint: str
    weights: dict[str, NDArray[np.float16]]
    model: str

    def of_chunks(self, vectors: Array, texts: Sequence[str]) -> Array:
        """See ``TableCompressor``; ``vectors`` are not looked at. Raises ConfigError where the generator cannot be
        loaded.
        """
        from okralong.pipelines.sara.compressor import MemoryCompressor  # torch takes seconds

        return MemoryCompressor.of(self).slots(texts)


def table_compressor(folder: Path, model: str) -> ArrayCompressor | MemorySlots:
    """The compressor in ``folder``; ``model`` is the generator that makes memory slots, and nothing to the other kind.

    Raises ConfigError where it is missing, damaged or altered, and for memory slots of another generator.
    """
    shape, fingerprint, weights = read_weights(folder)
    if not isinstance(shape, MemoryShape):
        return ArrayCompressor.load(folder)
    if Path(model).name != shape.generator:  # a description has a folder's name and not its path
        raise ConfigError(
            f"The compressor {folder} keeps memory slots of the generator {shape.generator!r}, and the one that is to "
            f"make them is {model!r}. Set generator in the index config to the model that it was trained with."
        )
    return MemorySlots(shape, fingerprint, weights, model)


# The generator of a compressor as a run names it: where its weights are, and what stands for them in a ledger.

LORA: Final = "lora"
"""The folder of the adapter beside a compressor's files."""


@dataclass(frozen=True, slots=True)
class ServedGenerator:
    """``name`` is what requests give as model; ``tokenizer`` a folder with a ``tokenizer.json``."""

    name: str
    tokenizer: str


def served_generator(compressor: Path, model: str) -> ServedGenerator:
    """The generator ``model`` of the compressor in a folder. Raises ConfigError when either cannot be used.

    The first time the adapter is merged, which takes half a minute.
    """
    base = "SmolLM2-135M-Instruct" if model == EMBEDDED else Path(model).name
    return ServedGenerator(f"{base}-sara-{weights_digest(compressor)}", generator_folder(compressor, model))


def weights_digest(compressor: Path) -> str:
    """Stands for a compressor and the adapter beside it: 12 hex digits of a hash over both."""
    _, fingerprint = read_shape(compressor)
    adapter = adapter_of(compressor)
    said = f"{fingerprint}:{adapter_digest(adapter) if adapter else ''}"
    return hashlib.sha256(said.encode()).hexdigest()[:DIGITS]


def generator_folder(compressor: Path, model: str) -> str:
    """Where the generator ``model`` is loaded from, the compressor's adapter merged in where it has one."""
    adapter = adapter_of(compressor)
    return causal_model(model) if adapter is None else str(merged_model(adapter, model))


def adapter_of(compressor: Path) -> Path | None:
    """The LoRA adapter that was trained with a compressor; None where the generator was left as it is."""
    folder = compressor / LORA
    return folder if all((folder / file).is_file() for file in FILES) else None
