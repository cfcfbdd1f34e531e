"""Compressors, which turn a chunk into vectors in the generator's token-embedding space.

The compressors of SARA and xRAG read the chunk's sentence embedding. That of ICAE (Ge et al. 2024) is the generator
with an adapter and reads the chunk's text. Each is stored as two files: the weights in float16
(``compressor.safetensors``) and a description (``compressor.json``). The fingerprint in the description covers both
files, so vectors of differently trained compressors cannot be confused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors.torch import save
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import SAFE, causal_model, loading, settle, text_ids
from okralong.pipelines.sara.artifact import (
    DESCRIPTION,
    WEIGHTS,
    AnyShape,
    Array,
    ArrayCompressor,
    MemoryShape,
    MemorySlots,
    Shape,
    described_as,
    fingerprint_of,
    read_compressor,
    read_shape,
)

__all__ = [
    "DESCRIPTION",
    "WEIGHTS",
    "AnyCompressor",
    "Compressor",
    "MemoryCompressor",
    "Shape",
    "load_compressor",
    "read_shape",
    "token_scale",
]

_BATCH: Final = 8
"""Batch size when compressing an archive's chunks. project default"""
_LORA: Final = "lora."
"""Prefix of the names of the adapter's weights."""


class Compressor(nn.Module):
    """Two layers with GELU between them; the output is scaled to the size of the generator's token embeddings.

    ``fingerprint`` is that of the files the weights were loaded from; None for new weights.
    """

    def __init__(self, shape: Shape, scale: float = 1.0) -> None:
        """Initialize with random weights; ``scale`` is the root mean square of the generator's token embeddings."""
        super().__init__()
        self.shape = shape
        self.fingerprint: str | None = None
        self.inner = nn.Linear(shape.inputs, shape.width)
        self.outer = nn.Linear(shape.width, shape.hidden * shape.vectors_per_embedding)
        self.norm = nn.LayerNorm(shape.hidden)
        nn.init.constant_(self.norm.weight, scale)

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compress unit vectors, shape (..., inputs), to (..., vectors_per_embedding, hidden) in float32."""
        found: Tensor = self.outer(nn.functional.gelu(self.inner(embeddings.to(self.inner.weight.dtype))))
        parted = found.reshape(*found.shape[:-1], self.shape.vectors_per_embedding, self.shape.hidden)
        normed: Tensor = self.norm(parted)
        return normed

    def of_chunks(self, texts: Sequence[str], embeddings: Tensor) -> Tensor:
        """Compress chunks from their ``embeddings``; ``texts`` is ignored, and only there for ``MemoryCompressor``."""
        made: Tensor = self(embeddings)
        return made

    def set_learning(self, learns: bool) -> None:
        """Enable or disable gradients."""
        self.requires_grad_(learns)

    @torch.inference_mode()
    def pooled(self, embeddings: Tensor) -> Tensor:
        """See ``ArrayCompressor.pooled``."""
        return nn.functional.normalize(self(embeddings).mean(dim=-2), dim=-1)

    def save(self, folder: Path) -> str:
        """Write both files into ``folder``, creating it if needed, and return the fingerprint."""
        return _save(folder, self.shape, dict(self.named_parameters()))

    @classmethod
    def load(cls, folder: Path) -> Compressor:
        """Load what ``save`` wrote, in float32 and frozen. Raises ConfigError if it is missing or altered."""
        read = ArrayCompressor.load(folder)
        made = cls(read.shape)
        made.load_state_dict({name: torch.from_numpy(value) for name, value in read.weights.items()})
        made.fingerprint = read.fingerprint
        return made.eval().requires_grad_(False)


class MemoryCompressor(nn.Module):
    """ICAE's encoder: the generator with an adapter reads a chunk's tokens and then learned tokens.

    The last hidden states at the learned tokens, after a layer norm, are the chunk's memory slots. The norm is not in
    the paper. Without it, a few elements of a state are thirty times larger than the others, unlike in any token
    embedding, and the generator does worse with such slots than with none. ``fingerprint`` is that of the files the
    weights were loaded from; None for new weights.
    """

    def __init__(self, shape: MemoryShape, model: str, precision: str = "auto") -> None:
        """Wrap ``model`` ("embedded", a folder or a hub name), with the adapter and the learned tokens set to zero.

        ``precision`` is the model's; "auto" depends on the device.

        Raises:
            ConfigError: The model cannot be found.
        """
        super().__init__()
        self.shape = shape
        self.fingerprint: str | None = None
        place, dtype = settle("auto", precision, None)
        source = causal_model(model)
        with loading(f"The model {source} of a compressor", "Give a folder with safetensors."):
            base: Any = AutoModel.from_pretrained(source, dtype=dtype, **SAFE)
            self._tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
        self.memory = nn.Parameter(torch.zeros(shape.vectors_per_chunk, shape.hidden))
        self.norm = nn.LayerNorm(shape.hidden)
        lora = LoraConfig(r=shape.rank, lora_alpha=shape.alpha, target_modules=list(shape.targets))
        self.reader: Any = get_peft_model(base.requires_grad_(False), lora)
        self._longest = int(base.config.max_position_embeddings) - shape.vectors_per_chunk
        self.to(place)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return the slots of ``texts``, shape (n, vectors_per_chunk, hidden), in float32; long texts are truncated."""
        slots, device = self.shape.vectors_per_chunk, self.memory.device
        rows = [text_ids(self._tokenizer, text)[: self._longest] for text in texts]
        width = max(map(len, rows))
        pad = int(self._tokenizer.eos_token_id)
        ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], dtype=torch.long, device=device)
        table: nn.Embedding = self.reader.get_input_embeddings()
        # Padding follows the text and the memory tokens; attention is causal, so it has no effect.
        embeds = torch.cat([table(ids), table.weight.new_zeros((len(rows), slots, self.shape.hidden))], dim=1)
        number = torch.arange(len(rows), device=device)[:, None]
        places = torch.tensor([len(row) for row in rows], device=device)[:, None] + torch.arange(slots, device=device)
        embeds = embeds.index_put((number, places), self.memory.to(embeds.dtype).expand(len(rows), -1, -1))
        mask = (torch.arange(width + slots, device=device)[None] <= places[:, -1:]).long()
        states: Tensor = self.reader(inputs_embeds=embeds, attention_mask=mask, use_cache=False).last_hidden_state
        normed: Tensor = self.norm(states[number, places].float())
        return normed

    def of_chunks(self, texts: Sequence[str], embeddings: Tensor) -> Tensor:
        """Compress chunks from their ``texts``; ``embeddings`` is ignored, and only there for ``Compressor``."""
        made: Tensor = self(texts)
        return made

    def set_learning(self, learns: bool) -> None:
        """Enable or disable gradients of the adapter and the learned tokens; the generator stays frozen."""
        for value in self._learned().values():
            value.requires_grad_(learns)

    def _learned(self) -> dict[str, nn.Parameter]:
        return {
            name: value for name, value in self.named_parameters() if not name.startswith("reader.") or "lora_" in name
        }

    @torch.inference_mode()
    def slots(self, texts: Sequence[str]) -> Array:
        """Return the slots of an archive's chunks as an array, shape (n, vectors_per_chunk, hidden)."""
        made = np.zeros((len(texts), self.shape.vectors_per_chunk, self.shape.hidden), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            made[batch] = self([texts[place] for place in batch]).cpu().numpy()
        return made

    def save(self, folder: Path) -> str:
        """Write both files into ``folder``, creating it if needed, and return the fingerprint."""
        own = {name: value for name, value in self._learned().items() if not name.startswith("reader.")}
        adapter = {f"{_LORA}{name}": value for name, value in get_peft_model_state_dict(self.reader).items()}
        return _save(folder, self.shape, {**own, **adapter})

    @classmethod
    def of(cls, read: MemorySlots, precision: str = "auto") -> MemoryCompressor:
        """Load weights, frozen. Raises ConfigError if they do not fit the generator."""
        made = cls(read.shape, read.model, precision)
        weights = {name: torch.from_numpy(value) for name, value in read.weights.items()}
        adapter = {name.removeprefix(_LORA): value for name, value in weights.items() if name.startswith(_LORA)}
        own = {name: value for name, value in weights.items() if not name.startswith(_LORA)}
        has = {**{f"{_LORA}{name}": each for name, each in get_peft_model_state_dict(made.reader).items()}}
        has |= {name: value for name, value in made._learned().items() if not name.startswith("reader.")}
        if {name: value.shape for name, value in has.items()} != {name: each.shape for name, each in weights.items()}:
            raise ConfigError(
                f"The memory slots were trained with the generator {read.shape.generator}, and {read.model} has "
                "different matrices. Name the generator used in training: generator in "
                "the index config, model in a training config."
            )
        with torch.no_grad():
            for name, value in own.items():
                made.get_parameter(name).copy_(value)
        set_peft_model_state_dict(made.reader, {name: value.float() for name, value in adapter.items()})
        made.fingerprint = read.fingerprint
        made.set_learning(False)
        return made.eval()


AnyCompressor = Compressor | MemoryCompressor


def load_compressor(folder: Path, model: str, precision: str = "auto") -> AnyCompressor:
    """Load the compressor in ``folder``, frozen. ``model`` is the generator, in ``precision``, for memory slots only.

    Raises ConfigError as ``read_compressor`` does.
    """
    read = read_compressor(folder, model)
    return MemoryCompressor.of(read, precision) if isinstance(read, MemorySlots) else Compressor.load(folder)


def _save(folder: Path, shape: AnyShape, weights: Mapping[str, Tensor]) -> str:
    content = save({name: value.detach().cpu().to(torch.float16).contiguous() for name, value in weights.items()})
    said = described_as(shape)
    fingerprint = fingerprint_of(said, content)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / WEIGHTS).write_bytes(content)
    described = json.dumps({**said, "fingerprint": fingerprint}, indent=1)
    (folder / DESCRIPTION).write_text(described + "\n", encoding="utf-8")
    return fingerprint


def token_scale(embedding: Tensor) -> float:
    """Return the root mean square of a generator's token embeddings, shape (vocabulary, hidden)."""
    return float(embedding.detach().float().square().mean().sqrt())
