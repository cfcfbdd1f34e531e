"""A LoRA adapter as it is kept: weights and what they are for, and nothing of the machine that they were made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_TEMPLATE = "README.md"


def save_adapter(model: Any, base: str, folder: Path) -> None:
    """Write the adapter of a PEFT ``model`` as safetensors. ``base`` is what the config calls the model below it."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base  # else a path of this machine
    # No adapter here changes the vocabulary; "auto" would ask the hub for the base to find that out.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / _TEMPLATE).unlink(missing_ok=True)  # PEFT's template of a card, with nothing filled in
