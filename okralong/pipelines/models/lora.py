"""Read LoRA adapters of PEFT: what each adds to the matrices of its base model.

Only plain LoRA, ``scale * B @ A``, is supported. Everything else that PEFT knows (DoRA, rank patterns, biases, whole
modules, other initial weights) is refused, so that a merge never leaves a part out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from okralong.pipelines.core.types import ConfigError

Matrix = npt.NDArray[np.float32]

_PREFIX: Final = "base_model.model."
_FREE: Final = frozenset(
    {
        *("r", "lora_alpha", "lora_dropout", "use_rslora", "target_modules", "layers_to_transform", "task_type"),
        *("base_model_name_or_path", "inference_mode", "peft_version", "revision", "auto_mapping"),
    }
)
"""Keys of an adapter's config that may have any value. All others must have PEFT's default, so that the adapter is
exactly ``scale * B @ A``."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "peft_type": "LORA",
    "bias": "none",
    "init_lora_weights": True,
    "megatron_core": "megatron.core",
    "qalora_group_size": 16,
}
"""PEFT's defaults (``LoraConfig``, PEFT 0.21) that are neither empty nor false. PEFT itself is not imported: that takes
seconds, and fails while another thread imports transformers, as happens at the start of a run."""

_NOTHING: Final[tuple[Any, ...]] = (None, False, [], {})
_LAYER: Final = re.compile(r"\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class LowRank:
    """The update of one matrix: ``a`` has shape (rank, inputs), ``b`` (outputs, rank)."""

    a: Matrix
    b: Matrix
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the updated matrix: (outputs, inputs)."""
        return self.b.shape[0], self.a.shape[1]

    def delta(self) -> Matrix:
        """Return the update in float32."""
        added: Matrix = (self.b @ self.a) * np.float32(self.scale)
        return added


def read_lora(folder: Path) -> dict[str, LowRank]:
    """Return the adapter's updates by module of the base, e.g. ``model.layers.3.self_attn.q_proj``.

    Raises:
        ConfigError: The files are unreadable, or hold more than plain LoRA.
    """
    from safetensors.torch import load_file  # imports torch, which takes seconds; numpy has no bfloat16

    try:
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(
            f"The adapter {folder} cannot be read: {error}. Copy it again completely, or train it again."
        ) from error
    odd = [f"{key}: {value}" for key, value in _described(folder, config).items() if not _plain(key, value)]
    if odd:
        raise _unusable(folder, f"is more than plain LoRA ({', '.join(odd)})")
    try:
        rank, alpha = int(config["r"]), float(config["lora_alpha"])
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        targets, layers = set(config["target_modules"]), config.get("layers_to_transform")
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise _unusable(folder, f"is not described ({type(error).__name__}: {error})") from error
    parts: dict[str, LowRank] = {}
    for name in {key.removeprefix(_PREFIX).rpartition(".lora_")[0] for key in tensors}:
        a, b = (tensors.get(f"{_PREFIX}{name}.lora_{side}.weight") for side in "AB")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or not a.shape[0] == b.shape[1] == rank:
            raise _unusable(folder, f"has no two matrices of rank {rank} for {name or 'a tensor of another kind'}")
        layer = _LAYER.search(name)
        if name.rpartition(".")[2] not in targets or (
            layers is not None and (not layer or int(layer[1]) not in layers)
        ):
            raise _unusable(folder, f"has weights for {name}, which its adapter_config.json does not mention")
        parts[name] = LowRank(a.float().numpy(), b.float().numpy(), scale)
    if not parts:
        raise _unusable(folder, "is empty")
    return parts


def check_fits(folder: Path, parts: Mapping[str, LowRank], shapes: Mapping[str, tuple[int, ...]], base: str) -> None:
    """Raise ConfigError unless each update has a matrix of its shape among ``shapes``, the base's by module."""
    for name, part in sorted(parts.items()):
        if shapes.get(name) != part.shape:
            held = shapes.get(name)
            said = "has no such matrix" if held is None else f"has {' x '.join(map(str, held))} there"
            raise _unusable(folder, f"changes {name} of {part.shape[0]} x {part.shape[1]} weights, and {base} {said}")


def _described(folder: Path, config: object) -> dict[str, Any]:
    if not isinstance(config, dict) or not isinstance(config.get("target_modules"), list):
        raise _unusable(folder, "is not described by an adapter_config.json with a list of target_modules")
    return config


def _plain(key: str, value: object) -> bool:
    return key in _FREE or (value == _DEFAULTS[key] if key in _DEFAULTS else value in _NOTHING)


def _unusable(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        f"The adapter {folder} {why}, so it cannot be merged. Give one that `okralong train` made for this model, or "
        "set llm.reader: none."
    )
