"""A reader with random weights: it makes the model talk nonsense, so that what a merge does is plain to see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from okralong.lab.training.learners.lora import save_adapter

ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def write_random_reader(folder: Path, base: Path, layers: Sequence[int], spread: float = 0.3, **lora: Any) -> Path:
    """Write a PEFT adapter for the transformers folder ``base`` into ``folder``, which is returned.

    ``spread`` is the standard deviation of B; ``lora`` goes to PEFT's LoraConfig.
    """
    torch.manual_seed(3)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    wanted = {"r": 4, "lora_alpha": 8, "target_modules": list(ALL), "layers_to_transform": list(layers), **lora}
    adapted = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **wanted))
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=spread)
    save_adapter(adapted, "embedded", folder)
    return folder
