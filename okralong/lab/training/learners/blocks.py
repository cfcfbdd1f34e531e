"""Train the last blocks of an encoder directly, with heads on top, for cross-encoders and token classifiers."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch
from transformers import AutoModel, AutoTokenizer

from okralong.lab.training.learners.learner import Learner
from okralong.lab.training.recipe import Recipe
from okralong.pipelines.models.cross_encoder import CrossEncoderModel
from okralong.pipelines.models.token_classifier import TokenClassifierModel
from okralong.pipelines.models.weights import SAFE

N = TypeVar("N", CrossEncoderModel, TokenClassifierModel)


def encoder_to_learn(folder: str) -> Any:
    """Load a sentence encoder whose last blocks are trained.

    It has no dropout: on a CPU this would halve the speed, and each row is used only once or twice.
    """
    return AutoModel.from_pretrained(
        folder,
        dtype=torch.float32,
        **SAFE,
        attn_implementation="sdpa",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


class BlocksLearner(Learner, Generic[N]):
    """Trains the heads of ``net`` and its blocks from ``recipe.first_block`` on.

    Subclasses define batches and their loss. ``model`` is the encoder's folder.
    """

    def __init__(self, recipe: Recipe, model: str, net: N, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.net: N = net.to(device)
        learned = {id(value) for value in net.learned(recipe.first_block).values()}
        for value in net.parameters():
            value.requires_grad_(id(value) in learned)
        self.heads = net.heads  # they may have a learning rate of their own
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        self._device, self._dtype = device, dtype

    def amp(self) -> torch.autocast:
        """Return a context in which the net runs in bfloat16, if the learner uses that."""
        return torch.autocast(self._device, dtype=torch.bfloat16, enabled=self._dtype == torch.bfloat16)
