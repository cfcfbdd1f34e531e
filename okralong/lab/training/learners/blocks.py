"""Learning an encoder's last blocks as they are, with heads over it: a cross-encoder's and a token classifier's."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import torch
from transformers import AutoModel, AutoTokenizer

from okralong.lab.training.learners.learner import Learner
from okralong.lab.training.recipe import Recipe
from okralong.pipelines.models.cross_encoder import CrossEncoderModel
from okralong.pipelines.models.token_classifier import TokenClassifierModel

N = TypeVar("N", CrossEncoderModel, TokenClassifierModel)


def encoder_to_learn(folder: str) -> Any:
    """A sentence encoder whose last blocks are to learn. It runs without dropout, which would halve the speed on a
    processor, where each row is seen once or twice.
    """
    return AutoModel.from_pretrained(
        folder,
        dtype=torch.float32,
        use_safetensors=True,
        attn_implementation="sdpa",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


class BlocksLearner(Learner, Generic[N]):
    """Learns the blocks of ``net`` from ``recipe.first_block`` on, and its heads; a batch and its loss are the
    subclass's. ``model`` is the encoder's folder.
    """

    def __init__(self, recipe: Recipe, model: str, net: N, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.net: N = net.to(device)
        learned = {id(value) for value in net.learned(recipe.first_block).values()}
        for value in net.parameters():
            value.requires_grad_(id(value) in learned)
        self.heads = net.heads  # what may learn faster (``heads_learning_rate``)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model)
        self._device, self._dtype = device, dtype

    def amp(self) -> torch.autocast:
        """Under it the net runs in bfloat16 where the learner was given that."""
        return torch.autocast(self._device, dtype=torch.bfloat16, enabled=self._dtype == torch.bfloat16)
