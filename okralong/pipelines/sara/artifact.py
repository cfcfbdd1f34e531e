"""Read and write a compressor's files: its description, and its weights as arrays.

This module does not import torch: the import takes longer than an index job needs to apply the two small layers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from safetensors import SafetensorError
from safetensors.numpy import load

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import DIGITS, FILES, merged_model
from okralong.pipelines.models.weights import EMBEDDED, adapter_digest, causal_model

WEIGHTS: Final = "compressor.safetensors"
DESCRIPTION: Final = "compressor.json"

DIGEST_DIGITS: Final = 12
"""Length of a compressor's fingerprint in hex digits, as for a reader adapter."""

FORMAT: Final = 1
"""Part of the fingerprint. Increment it when a code change makes the same weights return different vectors."""


Unit = Literal["chunk", "sentence"]
"""The text that one embedding is of."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a compressor.

    ``inputs`` is the length of the encoder's vectors, ``hidden`` that of the generator's token embeddings, ``width``
    that of the layer between them (project default). With the ``unit`` "chunk", each chunk's embedding becomes
    ``vectors_per_chunk`` vectors (project default: one). With "sentence", as in the prompts of SARA's table 7, each
    sentence's embedding becomes one, and a chunk has at most ``vectors_per_chunk``. ``encoder`` and ``generator`` are
    model names as in configs; ``encoder_sha256`` is the hash of the encoder's weights, or None if unknown.
    ``chunk_tokens`` is the chunk size used in training (SARA section 3.1: 256).
    """

    inputs: int
    width: int
    hidden: int
    vectors_per_chunk: int = 1
    encoder: str = "embedded"
    encoder_sha256: str | None = None
    generator: str = "embedded"
    chunk_tokens: int = 256
    unit: Unit = "chunk"

    @property
    def vectors_per_embedding(self) -> int:
        """The number of vectors that one embedding becomes."""
        return 1 if self.unit == "sentence" else self.vectors_per_chunk


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """The shape of a compressor with memory slots (ICAE, Ge et al. 2024).

    The generator, with an adapter, reads a chunk and then ``vectors_per_chunk`` learned tokens. Its hidden states at
    these tokens are the chunk's vectors. ``rank``, ``alpha`` and ``targets`` configure the adapter (LoRA); the other
    fields are as in ``Shape``.
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
"""The ``kind`` in the description of memory slots; the description of other compressors has no ``kind``."""

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
    unit: Unit = "chunk"

    def shape(self) -> Shape:
        """Return the shape."""
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
        """Return the shape."""
        said = self.model_dump(exclude={"kind", "format", "fingerprint"})
        return MemoryShape(**{**said, "targets": tuple(self.targets)})


def by_sentence(shape: AnyShape) -> bool:
    """Return whether a compressor reads the embeddings of sentences, which an index job then computes."""
    return isinstance(shape, Shape) and shape.unit == "sentence"


def read_description(folder: Path) -> Description | MemoryDescription:
    """Read the description in ``folder``. Raises ConfigError if it is missing or unusable."""
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
    """Read shape and fingerprint of the compressor in ``folder``, without its weights. Raises ConfigError."""
    described = read_description(folder)
    return described.shape(), described.fingerprint


def described_as(shape: AnyShape) -> dict[str, Any]:
    """Return the content of a compressor's description, without the fingerprint.

    The unit "chunk" is left out, so that compressors from before there was another keep their fingerprints.
    """
    kind = {"kind": MEMORY} if isinstance(shape, MemoryShape) else {}
    said = {"format": FORMAT, **asdict(shape)}
    return {**kind, **{key: value for key, value in said.items() if (key, value) != ("unit", "chunk")}}


def fingerprint_of(said: dict[str, object], content: bytes) -> str:
    """Return the fingerprint of a description (without its fingerprint) and the bytes of the weights."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode())
    digest.update(content)
    return digest.hexdigest()[:DIGEST_DIGITS]


def read_weights(folder: Path) -> tuple[AnyShape, str, dict[str, NDArray[np.float16]]]:
    """Read the shape, the fingerprint and the weights (by name) of the compressor in ``folder``.

    Raises:
        ConfigError: It is missing, damaged or altered.
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
    """Return the error for an unusable compressor."""
    return ConfigError(
        f"The compressor {folder} {why}. Copy the folder again whole, or train one with `okralong train-sara`."
    )


# ``Compressor`` in NumPy.

Array = NDArray[np.float32]

Encode = Callable[[list[str]], Array]
"""The archive's sentence encoder: a function from n texts to unit vectors of shape (n, inputs)."""

_EPSILON: Final = 1e-5
"""The epsilon of a layer norm, as PyTorch's default."""
_BLOCK: Final = 4096
"""Chunks compressed at a time. project default: the hidden layer's values then take some megabytes."""


@dataclass(frozen=True)
class ArrayCompressor:
    """A compressor with its weights in float32, by PyTorch's names, and the fingerprint of its files."""

    shape: Shape
    fingerprint: str
    weights: dict[str, Array]

    @classmethod
    def load(cls, folder: Path) -> ArrayCompressor:
        """Load what ``Compressor.save`` wrote.

        Raises:
            ConfigError: The compressor is missing, damaged or altered, or has memory slots, which cannot be computed
                from embeddings.
        """
        shape, fingerprint, found = read_weights(folder)
        if isinstance(shape, MemoryShape):
            raise ConfigError(
                f"The compressor {folder} has memory slots, which are computed from a chunk's text and cannot "
                "select chunks. "
                "Set selection.space, or sara.space, to encoder in the policy."
            )
        if {name: value.shape for name, value in found.items()} != _shapes(shape):
            raise unusable(folder, f"has weights whose shapes differ from those in its {DESCRIPTION}")
        return cls(shape, fingerprint, {name: value.astype(np.float32) for name, value in found.items()})

    def __call__(self, embeddings: Array) -> Array:
        """Compress the encoder's unit vectors, shape (n, inputs), to (n, vectors_per_embedding, hidden)."""
        if not len(embeddings):
            return np.zeros((0, self.shape.vectors_per_embedding, self.shape.hidden), dtype=np.float32)
        starts = range(0, len(embeddings), _BLOCK)
        return np.concatenate([self._block(embeddings[start : start + _BLOCK]) for start in starts])

    def of_chunks(self, vectors: Array, texts: Sequence[str], encode: Encode | None = None) -> list[Array]:
        """See ``TableCompressor``; by chunk, only ``vectors`` are used."""
        if self.shape.unit == "chunk":
            return list(self(vectors))
        if encode is None:
            raise ValueError("A compressor by sentence needs the archive's encoder, and none was given.")
        parts = [sentences_in(text, self.shape.vectors_per_chunk) for text in texts]
        found: list[Array] = []
        for start in range(0, len(parts), _BLOCK):  # a block's sentences at a time, whose embeddings are megabytes
            block = parts[start : start + _BLOCK]
            made = self(encode([sentence for some in block for sentence in some])).reshape(-1, self.shape.hidden)
            # float16, as the table has them: a shard's vectors may be gigabytes.
            found += np.split(made.astype(np.float16), np.cumsum([len(some) for some in block])[:-1])
        return found

    def pooled(self, embeddings: Array) -> Array:
        """Return a unit vector per embedding, the mean of its vectors, shape (n, hidden), for selection.

        By sentence too a chunk is compared by its own embedding, as in SARA's algorithm 1, so that selection needs no
        table and no sentences.
        """
        means = self(embeddings).mean(axis=1)
        unit: Array = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return unit

    def _block(self, embeddings: Array) -> Array:
        w = self.weights
        between = gelu(embeddings.astype(np.float32) @ w["inner.weight"].T + w["inner.bias"])
        found = between @ w["outer.weight"].T + w["outer.bias"]
        found = found.reshape(len(found), self.shape.vectors_per_embedding, self.shape.hidden)
        found = found - found.mean(axis=2, keepdims=True)
        found = found / np.sqrt((found * found).mean(axis=2, keepdims=True) + _EPSILON)
        normed: Array = (found * w["norm.weight"] + w["norm.bias"]).astype(np.float32)
        return normed


def gelu(values: Array) -> Array:
    """Compute the Gaussian error linear unit. erf is approximated by Abramowitz and Stegun's 7.1.26 (error 1.5e-7)."""
    x = np.abs(values) / np.sqrt(np.float32(2))
    t = 1 / (1 + np.float32(0.3275911) * x)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(values) * (1 - series * np.exp(-x * x))
    done: Array = (0.5 * values * (1 + erf)).astype(np.float32)
    return done


def _shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    out = shape.hidden * shape.vectors_per_embedding
    return {
        "inner.weight": (shape.width, shape.inputs),
        "inner.bias": (shape.width,),
        "outer.weight": (out, shape.width),
        "outer.bias": (out,),
        "norm.weight": (shape.hidden,),
        "norm.bias": (shape.hidden,),
    }


LEAST_CHARS: Final = 40
"""A shorter unit (a heading, item, cell or abbreviated sentence) shares a vector with the next. project default"""


def sentences_in(text: str, most: int) -> list[str]:
    """Split a chunk into the texts that become a vector each: at least one and at most ``most``.

    These are its sentences or, in lists and tables, lines. More than ``most`` are joined to parts of similar length.
    """
    text = text.strip()
    ends: list[int] = []
    for cut in boundaries(text, ()):
        if cut - (ends[-1] if ends else 0) >= LEAST_CHARS:
            ends.append(cut)
    ends[-1:] = [len(text)]  # a short rest shares the last one's vector
    if len(ends) > most:
        middles = [(start + end) / 2 for start, end in pairwise([0, *ends])]
        ends = list({int(middle * most / len(text)): end for middle, end in zip(middles, ends, strict=True)}.values())
    return [text[start:end].strip() for start, end in pairwise([0, *ends])]


class TableCompressor(Protocol):
    """A compressor that an index job uses to compute an archive's table."""

    @property
    def shape(self) -> AnyShape:
        """Its shape."""

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its files."""

    def of_chunks(self, vectors: Array, texts: Sequence[str], encode: Encode | None = None) -> list[Array]:
        """Compress n chunks, given as unit vectors (n, dimension) and texts, to n arrays (vectors, hidden).

        ``encode`` is only needed by sentence (see ``by_sentence``).
        """


@dataclass(frozen=True)
class MemorySlots:
    """The weights of ICAE's memory slots as read from files, and the generator ``model`` that they were trained for."""

    shape: MemoryShape
    fingerprint: str
    weights: dict[str, NDArray[np.float16]]
    model: str


def read_compressor(folder: Path, model: str) -> ArrayCompressor | MemorySlots:
    """Read the compressor in ``folder``; ``model`` is the generator, which is only used for memory slots.

    Raises:
        ConfigError: The compressor is missing, damaged or altered, or its memory slots are for another generator.
    """
    shape, fingerprint, weights = read_weights(folder)
    if not isinstance(shape, MemoryShape):
        return ArrayCompressor.load(folder)
    if Path(model).name != shape.generator:  # a description has only the folder's name
        raise ConfigError(
            f"The compressor {folder} has memory slots for the generator {shape.generator!r}, but the index config "
            f"names {model!r}. Set generator in the index config to the model that it was trained with."
        )
    return MemorySlots(shape, fingerprint, weights, model)


# The generator that reads a compressor's vectors in a run.

LORA: Final = "lora"
"""The subfolder of a compressor's folder that has the generator's adapter."""


@dataclass(frozen=True, slots=True)
class ServedGenerator:
    """The generator's ``name`` in requests; ``tokenizer`` is the folder with its ``tokenizer.json``."""

    name: str
    tokenizer: str


def served_generator(compressor: Path, model: str) -> ServedGenerator:
    """Return ``model`` as the generator of a compressor. The first call merges the adapter, which takes half a minute.

    Raises:
        ConfigError: The compressor or the generator is unusable.
    """
    base = "SmolLM2-135M-Instruct" if model == EMBEDDED else Path(model).name
    return ServedGenerator(f"{base}-sara-{weights_digest(compressor)}", generator_folder(compressor, model))


def weights_digest(compressor: Path) -> str:
    """Return 12 hex digits of a hash over a compressor and its adapter."""
    _, fingerprint = read_shape(compressor)
    adapter = adapter_of(compressor)
    said = f"{fingerprint}:{adapter_digest(adapter) if adapter else ''}"
    return hashlib.sha256(said.encode()).hexdigest()[:DIGITS]


def generator_folder(compressor: Path, model: str) -> str:
    """Return the folder or name from which to load the generator ``model`` with the compressor's adapter merged in."""
    adapter = adapter_of(compressor)
    return causal_model(model) if adapter is None else str(merged_model(adapter, model))


def adapter_of(compressor: Path) -> Path | None:
    """Return the folder of a compressor's LoRA adapter, or None if the generator was not trained."""
    folder = compressor / LORA
    return folder if all((folder / file).is_file() for file in FILES) else None
