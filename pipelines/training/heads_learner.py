"""Learning the heads, and with LoRA the encoder below them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzer_heads import ADAPTER, Heads, HeadsShape, TunableEncoder, save_heads
from okralong.pipelines.answering.analyzer_rules import Features, features
from okralong.pipelines.training.adapter import save_adapter, with_adapter
from okralong.pipelines.training.examples import UNKNOWN, Example
from okralong.pipelines.training.learner import Learner, class_weights, label_tensor, right
from okralong.pipelines.training.recipe import Recipe


class HeadsLearner(Learner):
    """A ``Learner``. ``model`` is the encoder's folder, ``sha256`` that of its weights."""

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, train: Sequence[Example], device: str) -> None:
        super().__init__()
        self._encoder = TunableEncoder.load(model, recipe.reads, device=device)
        if recipe.lora is not None:
            self._encoder.model = with_adapter(self._encoder.model, recipe.lora)
        else:
            self._encoder.model.requires_grad_(False)
        self.encoder: Any = self._encoder.model
        shape = HeadsShape(
            recipe.model, sha256, recipe.reads, self._encoder.width, recipe.hidden, adapted=recipe.lora is not None
        )
        self.heads = Heads(shape, recipe.dropout)
        self._features: dict[AnalysisInput, Features] = {}
        self._vectors: dict[AnalysisInput, Tensor] = {}
        self.register_buffer("type_weights", class_weights(train, 0), persistent=False)

    def train(self, mode: bool = True) -> HeadsLearner:
        """As of any module; a frozen encoder stays as it is used, without dropout."""
        super().train(mode)
        if not self.heads.shape.adapted:
            self.encoder.eval()
        return self

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """See ``Learner``. A batch holds what a tuned encoder reads, or what a frozen one said."""
        asked = [each.asked for each in examples]
        for new in dict.fromkeys(item for item in asked if item not in self._features):
            self._features[new] = features(new)
        numbers = torch.from_numpy(np.stack([self._features[item] for item in asked]))
        batch = {"features": numbers, "labels": label_tensor(examples)}
        if not self.heads.shape.adapted:
            return {**batch, "vectors": self._frozen_vectors(asked)}
        tokens, counts = self._encoder.read(asked)
        return {**batch, "tokens": tokens, "counts": counts}

    def forward(
        self,
        features: Tensor,
        labels: Tensor,
        tokens: dict[str, Tensor] | None = None,
        counts: Sequence[int] = (),
        vectors: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """See ``Learner``; the loss is the mean over the fields of which a label is known."""
        if tokens is not None:
            vectors = self._encoder.vectors(tokens, counts)
        logits = self.heads(vectors, features)
        # The rows' shares of types are our choice; those of patterns and evidence are what retrieval finds in use.
        weights = (self.get_buffer("type_weights"), None, None)
        losses = [
            nn.functional.cross_entropy(each, labels[:, n], weights[n], ignore_index=UNKNOWN)
            for n, each in enumerate(logits)
            if (labels[:, n] != UNKNOWN).any()
        ]
        loss = torch.stack(losses).mean() if losses else logits[0].sum() * 0.0
        return {"loss": loss, "right": right(logits, labels)}

    def _frozen_vectors(self, asked: Sequence[AnalysisInput]) -> Tensor:
        """A frozen encoder says the same in every epoch, and is asked once."""
        new = list(dict.fromkeys(item for item in asked if item not in self._vectors))
        if new:
            with torch.no_grad():
                self._vectors.update(zip(new, self._encoder.vectors(*self._encoder.read(new)).cpu(), strict=True))
        return torch.stack([self._vectors[item] for item in asked])

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_heads(folder, self.heads)
        if self.heads.shape.adapted:
            save_adapter(self.encoder, self.heads.shape.encoder, folder / ADAPTER)
