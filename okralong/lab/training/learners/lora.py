"""Train an adapter (LoRA) of a causal language model.

The common beginning of a batch's rows is read only once. It has gradients, so that the loss of every row trains it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.lab.training.learners.learner import Learner
from okralong.lab.training.recipe import Lora, Recipe
from okralong.pipelines.answering.analyzers.label_scorer import Opening
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import FILES, READER
from okralong.pipelines.models.weights import SAFE, SHIPPED, shipped_adapter

LEAST_SHARED: Final = 8  # project default
"""Fewest common tokens of a batch's rows that are worth a separate pass."""

Row = tuple[list[int], list[float]]
"""The tokens of a prompt with its reply, and a mark for each. A token with the mark 0 is not a target."""


class CausalLearner(Learner):
    """Trains an adapter. Subclasses define batches and their loss.

    ``model`` is a folder or hub name. The base model is in ``dtype``, the adapter in float32. The adapter is new, or
    has the weights of ``recipe.start``. Raises ValueError for a recipe without an adapter, and ConfigError if the start
    has another shape.
    """

    def __init__(self, recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        if recipe.lora is None:
            raise ValueError(f"A {recipe.kind} learns an adapter: give lora.")
        base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **SAFE)
        self.model = with_adapter(base.to(device), recipe.lora, task="CAUSAL_LM")
        if (start := start_folder(recipe)) is not None:
            begin_with(self.model, start)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        self._base = recipe.model

    def family(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Return a batch of rows whose common beginning is read once.

        ``shared``, shape (tokens,), is the common beginning. The other tensors, of shape (rows, length), have the rest
        of the rows, padded on the right.
        """
        # A target is predicted at the token before it, so this token must not be in the common beginning.
        first = [next((at for at, mark in enumerate(marks) if mark), len(marks)) for _, marks in rows]
        size = shared_size([ids for ids, _ in rows], min(first) - 1)
        rest = [(ids[size:], marks[size:]) for ids, marks in rows]
        width = max(len(ids) for ids, _ in rest)
        pad = int(self.tokenizer.eos_token_id)
        return {
            "shared": torch.tensor(rows[0][0][:size], dtype=torch.long),
            "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rest]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rest]),
            "marks": torch.tensor([marks + [0.0] * (width - len(marks)) for _, marks in rest]),
        }

    def target_losses(
        self, shared: Tensor, input_ids: Tensor, attention_mask: Tensor, marks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return each target's negative log-likelihood, whether it was the most likely token, its row and its mark.

        Logits are computed only at targets.
        """
        causal: Any = self.model.get_base_model()
        cache = None
        if len(shared):
            cache = Opening.read(causal, shared.tolist()).cache_for(len(input_ids))
            attention_mask = torch.cat([attention_mask.new_ones((len(input_ids), len(shared))), attention_mask], dim=1)
        read = causal.model(
            input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=cache is not None
        )
        row, at = marks[:, 1:].nonzero(as_tuple=True)
        # The tensor must be contiguous and two-dimensional: otherwise the head copies its whole matrix.
        logits = causal.lm_head(read.last_hidden_state[row, at].contiguous()).float()
        wanted = input_ids[row, at + 1]
        losses = nn.functional.cross_entropy(logits, wanted, reduction="none")
        return losses, logits.argmax(dim=1) == wanted, row, marks[row, at + 1]

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_adapter(self.model, self._base, folder)


def shared_size(rows: Sequence[Sequence[int]], most: int) -> int:
    """Return the length of the rows' common beginning, up to ``most``; 0 if it is too short, or for a single row."""
    size = next((at for at in range(most) if len({ids[at] for ids in rows}) > 1), most)
    return size if size >= LEAST_SHARED and len(rows) > 1 else 0


def reply_counts(hits: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return, for each reply, the correctly predicted tokens and all tokens, shape (rows, 2).

    ``hits`` and ``row`` have an element per token.
    """
    counts = torch.zeros((rows, 2), dtype=torch.long, device=row.device)
    counts[:, 0].index_add_(0, row, hits.long())
    counts[:, 1].index_add_(0, row, torch.ones_like(row))
    return counts


def with_adapter(model: Any, lora: Lora, task: str | None = None) -> Any:
    """Return ``model``, frozen, with a new trainable adapter. Raises ConfigError if no block is left to train."""
    blocks = int(model.config.num_hidden_layers)
    if lora.first_block >= blocks:
        raise ConfigError(
            f"lora.first_block is {lora.first_block}, but the model has {blocks} blocks, counted from 0: nothing would "
            "be trained. Give a lower one."
        )
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets,
        layers_to_transform=list(range(lora.first_block, blocks)) if lora.first_block else None,
        task_type=task,
    )
    return get_peft_model(model, config)


def start_folder(recipe: Recipe) -> Path | None:
    """Return the adapter that ``recipe`` starts from, or None. Raises ConfigError if it is missing."""
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
    """Load the weights in ``folder`` into the adapter of a PEFT ``model``. Raises ConfigError if shapes differ."""
    own = {name: tuple(value.shape) for name, value in get_peft_model_state_dict(model).items()}
    try:
        weights = load_file(folder / FILES[1])
    except SafetensorError as error:
        raise ConfigError(f"{folder / FILES[1]} cannot be read: {error}. Train that adapter again.") from error
    if own != {name: tuple(value.shape) for name, value in weights.items()}:
        raise ConfigError(
            f"start is {folder}, an adapter of another shape than lora's. Give lora the targets, the rank and the "
            "first_block that it was trained with; adapter_config.json next to it has them."
        )
    set_peft_model_state_dict(model, weights)


def save_adapter(model: Any, base: str, folder: Path) -> None:
    """Write the adapter of a PEFT ``model`` as safetensors. ``base`` is the name of the base model in configs."""
    for config in model.peft_config.values():
        config.base_model_name_or_path = base  # otherwise it would be a path of this machine
    # No adapter here changes the vocabulary. With "auto", PEFT would ask the hub whether it does.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)  # PEFT's empty template of a card
