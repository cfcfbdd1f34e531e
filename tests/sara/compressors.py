"""Compressors of random weights: real files and real numbers, of which nothing was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from okralong.pipelines.models.weights import MINILM_SHA256
from okralong.pipelines.sara.artifact import Shape
from okralong.pipelines.sara.compressor import Compressor


def random_compressor(folder: Path, seed: int = 3, scale: float = 0.1, **shape: Any) -> Path:
    """One over the embedded encoder, in ``folder``; ``shape`` are fields of ``Shape``."""
    said = {"inputs": 384, "width": 32, "hidden": 48, "encoder_sha256": MINILM_SHA256} | shape
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        Compressor(Shape(**said), scale).save(folder)
    return folder
