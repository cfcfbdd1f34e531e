"""Which number format and which device a local model should use.

On a processor with AMX tiles bfloat16 runs about three times as fast as float32; without them it is several times
slower, so the format follows the processor and is never a fixed default. torch is imported only when asked: it takes
seconds, and a command that only prints help should not wait for it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["bfloat16", "float32"]

INT8: Final = "int8"
"""Of sentence encoders on a processor alone; see ``int8.py``."""


def available_cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_amx() -> bool:
    """Whether this processor multiplies bfloat16 matrices in AMX tiles."""
    import torch

    return bool(torch.cpu._is_amx_tile_supported())


def cpu_precision() -> Precision:
    """The faster format on this processor."""
    return "bfloat16" if has_amx() else "float32"


def device() -> Literal["cuda", "cpu"]:
    """The name "cuda" when a GPU is visible to this process, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def dtype_for(target: str, precision: str = "auto") -> torch.dtype:
    """The torch dtype for a model on ``target`` ("cpu" or "cuda..."); "auto" is bfloat16 on a GPU.

    Raises ValueError when ``precision`` is not "auto", "bfloat16" or "float32".
    """
    import torch

    if precision == "auto":
        precision = cpu_precision() if target == "cpu" else "bfloat16"
    if precision not in ("bfloat16", "float32"):
        raise ValueError(f"precision {precision!r} is not one of auto, bfloat16, float32")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
