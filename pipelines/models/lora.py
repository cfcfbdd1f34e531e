"""What a LoRA adapter adds to the matrices of its base: scale * B @ A, read from PEFT's two files.

Only plain LoRA is understood; what would change the sum (DoRA, patterns of ranks, biases, whole modules) is refused,
so that a merge never leaves a part of an adapter out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from okralong.pipelines.errors import ConfigError

Matrix = npt.NDArray[np.float32]

_PREFIX: Final = "base_model.model."
_PLAIN: Final[dict[str, tuple[Any, ...]]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "use_dora": (False, None),
    "use_qalora": (False, None),
    "use_bdlora": (False, None),
    "fan_in_fan_out": (False, None),
    "lora_bias": (False, None),
    "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None),
    "modules_to_save": ([], None),
    "trainable_token_indices": (None,),
}
"""Settings of PEFT that must stand at one of these values for the adapter to be ``scale * B @ A`` and nothing more."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """One matrix's part: ``a`` of shape (rank, inputs), ``b`` of shape (outputs, rank)."""

    a: Matrix
    b: Matrix
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix that it is added to: (outputs, inputs)."""
        return self.b.shape[0], self.a.shape[1]

    def delta(self) -> Matrix:
        """What is added, in float32."""
        added: Matrix = (self.b @ self.a) * np.float32(self.scale)
        return added


def read_lora(folder: Path) -> dict[str, LowRank]:
    """The adapter's parts by the name of the base's module, e.g. ``model.layers.3.self_attn.q_proj``.

    Raises ConfigError, naming the folder, for files that cannot be read and for more than plain LoRA.
    """
    from safetensors.torch import load_file  # torch takes seconds; numpy knows no bfloat16

    try:
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "adapter_model.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigError(
            f"The adapter {folder} cannot be read: {error}. Copy it again whole, or train it again."
        ) from error
    odd = [f"{key}: {config[key]}" for key, plain in _PLAIN.items() if key in config and config[key] not in plain]
    if odd:
        raise _unusable(folder, f"is more than plain LoRA ({', '.join(odd)})")
    rank, alpha = int(config["r"]), float(config["lora_alpha"])
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    parts: dict[str, LowRank] = {}
    for name in {key.removeprefix(_PREFIX).rpartition(".lora_")[0] for key in tensors}:
        a, b = (tensors.get(f"{_PREFIX}{name}.lora_{side}.weight") for side in "AB")
        if a is None or b is None or a.ndim != 2 or b.ndim != 2 or not a.shape[0] == b.shape[1] == rank:
            raise _unusable(folder, f"has no two matrices of rank {rank} for {name or 'a tensor of another kind'}")
        parts[name] = LowRank(a.float().numpy(), b.float().numpy(), scale)
    if not parts:
        raise _unusable(folder, "is empty")
    return parts


def check_fits(folder: Path, parts: Mapping[str, LowRank], shapes: Mapping[str, tuple[int, ...]], base: str) -> None:
    """Raise ConfigError unless every part has a matrix of its shape among ``shapes``, the base's by module."""
    for name, part in sorted(parts.items()):
        if shapes.get(name) != part.shape:
            held = shapes.get(name)
            said = "has no such matrix" if held is None else f"has {held[0]} x {held[1]} there"
            raise _unusable(folder, f"changes {name} of {part.shape[0]} x {part.shape[1]} weights, and {base} {said}")


def _unusable(folder: Path, why: str) -> ConfigError:
    return ConfigError(
        f"The adapter {folder} {why}, so it cannot be merged. Give one that `okralong train` made for this model, or "
        "set llm.reader: none."
    )
