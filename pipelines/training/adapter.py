"""A LoRA adapter as it is kept: weights and what they are for, and nothing of the machine that they were made on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import FILES, READER
from okralong.pipelines.models.weights import SHIPPED, shipped_adapter
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
    """A causal language model from a folder or hub with ``recipe``'s adapter to learn, and its tokenizer.

    The adapter is new, or holds the weights of ``recipe.start``. The base stays in ``dtype``, the adapter is in
    float32. Raises ValueError for a recipe without an adapter, ConfigError for a start that is none of its shape.
    """
    if recipe.lora is None:
        raise ValueError(f"A {recipe.kind} learns an adapter: give lora.")
    base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, use_safetensors=True)
    adapted = with_adapter(base.to(device), recipe.lora, task="CAUSAL_LM")
    if (start := start_folder(recipe)) is not None:
        begin_with(adapted, start)
    return adapted, AutoTokenizer.from_pretrained(model)


def start_folder(recipe: Recipe) -> Path | None:
    """The adapter that ``recipe`` goes on from; None for a new one. Raises ConfigError where none is there."""
    if recipe.start is None:
        return None
    own = READER if recipe.kind == "reader" else f"analyzer/{recipe.kind}"
    folder = shipped_adapter(own) if recipe.start == SHIPPED else Path(recipe.start)
    if not all((folder / file).is_file() for file in FILES):
        raise ConfigError(
            f"start is {recipe.start}, and {folder} does not hold {' and '.join(FILES)}. Give the folder that "
            "`okralong train` wrote, or shipped."
        )
    return folder


def begin_with(model: Any, folder: Path) -> None:
    """Give the adapter of a PEFT ``model`` the weights of another. Raises ConfigError where the shapes are others."""
    own = {name: tuple(value.shape) for name, value in get_peft_model_state_dict(model).items()}
    try:
        weights = load_file(folder / FILES[1])
    except SafetensorError as error:
        raise ConfigError(f"{folder / FILES[1]} cannot be read: {error}. Train that adapter again.") from error
    if own != {name: tuple(value.shape) for name, value in weights.items()}:
        raise ConfigError(
            f"start is {folder}, an adapter of another shape than lora says. Give lora the targets, the rank and the "
            "first_block that it was trained with; adapter_config.json beside it holds them."
        )
    set_peft_model_state_dict(model, weights)


def save_adapter(model: Any, base: str, folder: Path) -> None:
    """Write the adapter of a PEFT ``model`` as safetensors. ``base`` is what the config calls the model below it."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base  # else a path of this machine
    # No adapter here changes the vocabulary; "auto" would ask the hub for the base to find that out.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / _TEMPLATE).unlink(missing_ok=True)  # PEFT's template of a card, with nothing filled in
