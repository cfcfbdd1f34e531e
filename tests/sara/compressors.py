"""Compressors of random weights: real files and real numbers, of which nothing was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from okralong.pipelines.models.weights import MINILM_SHA256
from okralong.pipelines.sara.artifact import MemoryShape, Shape
from okralong.pipelines.sara.compressor import Compressor, MemoryCompressor


def random_compressor(folder: Path, seed: int = 3, scale: float = 0.1, **shape: Any) -> Path:
    """One over the embedded encoder, in ``folder``; ``shape`` are fields of ``Shape``."""
    said = {"inputs": 384, "width": 32, "hidden": 48, "encoder_sha256": MINILM_SHA256} | shape
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        Compressor(Shape(**said), scale).save(folder)
    return folder


def random_memory(folder: Path, model: Path, seed: int = 3, slots: int = 2) -> Path:
    """Memory slots of the tiny generator ``model``, in ``folder``; its adapter changes something."""
    shape = MemoryShape(
        hidden=32,
        vectors_per_chunk=slots,
        rank=2,
        alpha=4,
        targets=("q_proj", "v_proj"),
        generator=model.name,
        chunk_tokens=256,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = MemoryCompressor(shape, str(model))
        for name, value in made.named_parameters():
            if "lora_B" in name or name == "memory":
                torch.nn.init.normal_(value, std=0.1)
        made.save(folder)
    return folder
