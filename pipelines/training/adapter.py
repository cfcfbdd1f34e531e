"""A LoRA adapter as it is kept: weights and what they are for, and nothing of the machine that they were made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.errors import ConfigError
from okralong.pipelines.training.recipe import Lora, Recipe

_TEMPLATE = "README.md"


def with_adapter(model: Any, lora: Lora, task: str | None = None) -> Any:
    """``model`` with a new adapter to learn and everything else frozen. Raises ConfigError where no block is left."""
    blocks = int(model.config.num_hidden_layers)
    if lora.first_block >= blocks:
        raise ConfigError(
            f"lora.first_block is {lora.first_block}, but the model has {blocks} blocks, counted from 0: nothing would "
            "learn. Give a lower one."
        )
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        layers_to_transform=list(range(lora.first_block, blocks)) if lora.first_block else None,
        task_type=task,
    )
    return get_peft_model(model, config)


def causal_to_adapt(recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """A causal language model from a folder or hub with ``recipe``'s new adapter to learn, and its tokenizer.

    The base stays in ``dtype``, the adapter is in float32. Raises ValueError for a recipe without an adapter.
    """
    if recipe.lora is None:
        raise ValueError(f"A {recipe.kind} learns an adapter: give lora.")
    base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, use_safetensors=True)
    return with_adapter(base.to(device), recipe.lora, task="CAUSAL_LM"), AutoTokenizer.from_pretrained(model)


def save_adapter(model: Any, base: str, folder: Path) -> None:
    """Write the adapter of a PEFT ``model`` as safetensors. ``base`` is what the config calls the model below it."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base  # else a path of this machine
    # No adapter here changes the vocabulary; "auto" would ask the hub for the base to find that out.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / _TEMPLATE).unlink(missing_ok=True)  # PEFT's template of a card, with nothing filled in
