"""The compressor of SARA: a chunk's sentence embedding in, vectors of the generator's token-embedding space out.

Kept as two files: the weights in float16 (``compressor.safetensors``) and what they are for (``compressor.json``). The
fingerprint in the latter covers both, so vectors that were computed once can be told from those of another training.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor, nn

from okralong.pipelines.sara.artifact import (
    DESCRIPTION,
    FORMAT,
    WEIGHTS,
    ArrayCompressor,
    Shape,
    fingerprint_of,
    read_shape,
)

__all__ = ["DESCRIPTION", "WEIGHTS", "Compressor", "Shape", "read_shape", "token_scale"]


class Compressor(nn.Module):
    """Two layers with GELU between them, scaled to the size of the generator's own token embeddings.

    ``fingerprint`` is that of the files that it was loaded from; None for one that is new or is being trained.
    """

    def __init__(self, shape: Shape, scale: float = 1.0) -> None:
        """A new one with random weights. ``scale`` is the root mean square of the generator's token embeddings."""
        super().__init__()
        self.shape = shape
        self.fingerprint: str | None = None
        self.inner = nn.Linear(shape.inputs, shape.width)
        self.outer = nn.Linear(shape.width, shape.hidden * shape.vectors_per_chunk)
        self.norm = nn.LayerNorm(shape.hidden)
        nn.init.constant_(self.norm.weight, scale)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Shape (..., inputs) becomes (..., vectors_per_chunk, hidden), in float32.

        The embeddings are the encoder's unit vectors, as ``SentenceEmbedder`` gives them.
        """
        found: Tensor = self.outer(nn.functional.gelu(self.inner(embeddings.to(self.inner.weight.dtype))))
        parted = found.reshape(*found.shape[:-1], self.shape.vectors_per_chunk, self.shape.hidden)
        normed: Tensor = self.norm(parted)
        return normed

    @torch.inference_mode()
    def pooled(self, embeddings: Tensor) -> Tensor:
        """One unit vector a chunk, the mean of its own: (..., inputs) becomes (..., hidden). For selection."""
        return nn.functional.normalize(self(embeddings).mean(dim=-2), dim=-1)

    def save(self, folder: Path) -> str:
        """Write both files into ``folder``, which is made where it is missing; the fingerprint."""
        weights = {name: value.detach().cpu().to(torch.float16).contiguous() for name, value in self.named_parameters()}
        content = save(weights)
        said = {"format": FORMAT, **asdict(self.shape)}
        fingerprint = fingerprint_of(said, content)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / WEIGHTS).write_bytes(content)
        described = json.dumps({**said, "fingerprint": fingerprint}, indent=1)
        (folder / DESCRIPTION).write_text(described + "\n", encoding="utf-8")
        return fingerprint

    @classmethod
    def load(cls, folder: Path) -> Compressor:
        """What ``save`` wrote, in float32 and frozen. Raises ConfigError where it is missing, damaged or altered."""
        read = ArrayCompressor.load(folder)
        made = cls(read.shape)
        made.load_state_dict({name: torch.from_numpy(value) for name, value in read.weights.items()})
        made.fingerprint = read.fingerprint
        return made.eval().requires_grad_(False)


def token_scale(embedding: Tensor) -> float:
    """The root mean square of a generator's token embeddings, shape (vocabulary, hidden)."""
    return float(embedding.detach().float().square().mean().sqrt())
