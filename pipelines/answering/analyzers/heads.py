"""Three small heads over a sentence encoder's vector and a few numbers, as kept in a folder.

A folder holds ``heads.json`` (what the heads read), ``heads.safetensors``, the temperatures, and ``adapter/`` where the
encoder was tuned with LoRA.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzers.features import COUNT
from okralong.pipelines.core.types import ConfigError

DESCRIPTION: Final = "heads.json"
WEIGHTS: Final = "heads.safetensors"
ADAPTER: Final = "adapter"

Reads = Literal["question", "pairs"]


@dataclass(frozen=True, slots=True)
class HeadsShape:
    """What the heads read and how large they are.

    ``encoder`` is "embedded", a model folder or a hub name, ``sha256`` that of its weights. ``reads`` says what it
    embeds: the question alone, or the question with each passage. ``vector`` is the length of what comes out,
    ``hidden`` the width of each head's one hidden layer.
    """

    encoder: str
    sha256: str | None
    reads: Reads
    vector: int
    hidden: int
    adapted: bool


class Heads(nn.Module):
    """Logits of the three fields from a vector (n, ``vector``) and features (n, ``COUNT``)."""

    def __init__(self, shape: HeadsShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.fields = nn.ModuleList(
            nn.Sequential(
                nn.Linear(shape.vector + COUNT, shape.hidden),
                nn.GELU(),
                nn.Dropout(dropout),
                nn.Linear(shape.hidden, len(labels)),
            )
            for _, labels in FIELDS
        )

    def forward(self, vectors: Tensor, features: Tensor) -> list[Tensor]:
        """Logits of each field, shape (n, labels of the field)."""
        read = torch.cat([vectors, features], dim=1)
        return [field(read) for field in self.fields]


def save_heads(folder: Path, heads: Heads) -> None:
    """Write description and weights; the encoder's adapter is the caller's to write."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.detach().cpu().contiguous() for name, value in heads.state_dict().items()}, folder / WEIGHTS)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(heads.shape), indent=2) + "\n", encoding="utf-8")


def load_heads(folder: Path) -> Heads:
    """What ``save_heads`` wrote. Raises ConfigError when the folder holds no such heads."""
    try:
        said: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        heads = Heads(HeadsShape(**said))
        heads.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ConfigError(
            f"{folder} holds no heads that this okralong can read: {error}. Name a folder that `okralong train` wrote "
            "under analyzer.adapter, or set analyzer.kind to rules."
        ) from error
    return heads.eval()
