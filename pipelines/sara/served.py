"""The generator of a compressor as a run names it: where its weights are, and what stands for them in a ledger."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from okralong.pipelines.models.merged_model import DIGITS, FILES, merged_model
from okralong.pipelines.models.weights import EMBEDDED, adapter_digest, causal_model
from okralong.pipelines.sara.description import read_shape

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
