"""Learning the heads, and with LoRA the encoder below them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from okralong.pipelines.answering.analyzers.encoder import TunableEncoder
from okralong.pipelines.answering.analyzers.features import features
from okralong.pipelines.answering.analyzers.heads import ADAPTER, Heads, HeadsShape, save_heads
from okralong.pipelines.training.learner import Learner, class_weights, label_tensor, right
from okralong.pipelines.training.recipe import UNKNOWN, Example, Recipe


class HeadsLearner(Learner):
    """A ``Learner``. ``model`` is the encoder's folder, ``sha256`` that of its weights."""

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, train: Sequence[Example], device: str) -> None:
        super().__init__()
        self._encoder = TunableEncoder.load(model, recipe.reads, device=device)
        if recipe.lora is not None:
            lora = LoraConfig(
                r=recipe.lora.rank,
                lora_alpha=recipe.lora.alpha,
                lora_dropout=recipe.lora.dropout,
                target_modules=list(recipe.lora.targets),
            )
            self._encoder.model = get_peft_model(self._encoder.model, lora)
        else:
            self._encoder.model.requires_grad_(False)
        self.encoder: Any = self._encoder.model
        shape = HeadsShape(
            recipe.model, sha256, recipe.reads, self._encoder.width, recipe.hidden, adapted=recipe.lora is not None
        )
        self.heads = Heads(shape, recipe.dropout)
        for number, weight in enumerate(class_weights(train)):
            self.register_buffer(f"weight_{number}", weight, persistent=False)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """See ``Learner``."""
        asked = [each.asked for each in examples]
        tokens, counts = self._encoder.read(asked)
        numbers = torch.from_numpy(np.stack([features(item) for item in asked]))
        return {"tokens": tokens, "counts": counts, "features": numbers, "labels": label_tensor(examples)}

    def forward(
        self, tokens: dict[str, Tensor], counts: list[int], features: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """See ``Learner``; the loss is the mean over the fields of which a label is known."""
        logits = self.heads(self._encoder.vectors(tokens, counts), features)
        losses = [
            nn.functional.cross_entropy(each, labels[:, n], self.get_buffer(f"weight_{n}"), ignore_index=UNKNOWN)
            for n, each in enumerate(logits)
            if (labels[:, n] != UNKNOWN).any()
        ]
        loss = torch.stack(losses).mean() if losses else logits[0].sum() * 0.0
        return {"loss": loss, "right": right(logits, labels)}

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_heads(folder, self.heads)
        if self.heads.shape.adapted:
            self.encoder.save_pretrained(str(folder / ADAPTER), safe_serialization=True)
