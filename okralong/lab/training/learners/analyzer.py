"""Train analyzers: heads over a sentence encoder, and a language model that scores the labels."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from okralong.lab.training.learners.learner import Definition, Learner, Log, causal_base
from okralong.lab.training.learners.lora import CausalLearner, Row, save_adapter, with_adapter
from okralong.lab.training.recipe import UNKNOWN, Example, Recipe
from okralong.pipelines.answering.analyzers.analysis import FIELDS, AnalysisInput
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.features import Features, features
from okralong.pipelines.answering.analyzers.heads import ADAPTER, Heads, HeadsShape, TunableEncoder, save_heads
from okralong.pipelines.answering.analyzers.label_scorer import prompt_ids, reply_fields
from okralong.pipelines.models.weights import ResolvedModel, resolve_embedding_model

if TYPE_CHECKING:
    from okralong.lab.training.rows.tables import TrainingRow


class AnalyzerDefinition(Definition["TrainingRow", Example]):
    """The definition of both kinds of analyzers, which learn from the same rows."""

    use = "okralong answer --analyzer {out}"

    def base(self, recipe: Recipe) -> ResolvedModel:
        """See ``Definition``."""
        return causal_base(recipe.model) if recipe.kind == "label_scorer" else resolve_embedding_model(recipe.model)

    def examples(self, rows: Sequence[TrainingRow]) -> list[Example]:
        """See ``Definition``."""
        return [row.example for row in rows]

    def learner(
        self, recipe: Recipe, train: Sequence[Example], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """See ``Definition``."""
        if recipe.kind == "heads":
            return HeadsLearner(recipe, base.path, base.sha256, train, device)
        return LabelLearner(recipe, base.path, device, dtype)

    def card(
        self, recipe: Recipe, base: str, out: Path, train: Sequence[TrainingRow], held: Sequence[TrainingRow], log: Log
    ) -> list[str]:
        """Measure the temperatures on ``held``, write them next to the weights, and return the card's sections."""
        from okralong.lab.training.learners.calibration import calibrate, figure_table, figures_of

        config = AnalyzerConfig(
            kind="heads" if recipe.kind == "heads" else "label_scorer", model=recipe.model, adapter=str(out)
        )
        temperatures = calibrate(config, out, self.examples(held), recipe.precision)
        found = ", ".join(f"{key} {value:.2f}" for (key, _), value in zip(FIELDS, temperatures, strict=True))
        return [
            "# A trained analyzer of okralong",
            f"Made by `okralong train`. Kind `{recipe.kind}` on {base}: {recipe.learned_words()}. "
            f"{recipe.schedule_words()} {len(train):,} train rows, {len(held):,} validation rows.",
            f"Temperatures, measured on validation: {found}.",
            "## On validation",
            figure_table({"": figures_of(load_analyzer(config, recipe.precision), held)}),
        ]


class HeadsLearner(Learner):
    """Trains the heads, and with LoRA the encoder below them.

    ``model`` is the encoder's folder, ``sha256`` the hash of its weights.
    """

    def __init__(self, recipe: Recipe, model: str, sha256: str | None, train: Sequence[Example], device: str) -> None:
        super().__init__()
        self._encoder = TunableEncoder.load(model, device=device)
        if recipe.lora is not None:
            self._encoder.model = with_adapter(self._encoder.model, recipe.lora)
        else:
            self._encoder.model.requires_grad_(False)
        self.encoder: Any = self._encoder.model
        shape = HeadsShape(recipe.model, sha256, self._encoder.width, recipe.hidden, adapted=recipe.lora is not None)
        self.heads = Heads(shape, recipe.dropout)
        self._features: dict[AnalysisInput, Features] = {}
        self._vectors: dict[AnalysisInput, Tensor] = {}
        self.register_buffer("type_weights", _type_weights(train), persistent=False)

    def train(self, mode: bool = True) -> HeadsLearner:
        """Set the training mode. A frozen encoder stays in evaluation mode, without dropout."""
        super().train(mode)
        if not self.heads.shape.adapted:
            self.encoder.eval()
        return self

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Make a batch: of inputs of the encoder if it is tuned, of its outputs if it is frozen."""
        asked = [each.asked for each in examples]
        for new in dict.fromkeys(item for item in asked if item not in self._features):
            self._features[new] = features(new)
        numbers = torch.from_numpy(np.stack([self._features[item] for item in asked]))
        batch = {"features": numbers, "labels": _labels(examples)}
        if not self.heads.shape.adapted:
            return {**batch, "vectors": self._frozen_vectors(asked)}
        return {**batch, "tokens": self._encoder.read(asked)}

    def forward(
        self,
        features: Tensor,
        labels: Tensor,
        tokens: dict[str, Tensor] | None = None,
        vectors: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss: the mean over the fields with a known label."""
        if tokens is not None:
            vectors = self._encoder.vectors(tokens)
        logits = self.heads(vectors, features)
        # Only types are weighted: their shares in the rows were chosen, while those of patterns and evidence are
        # natural.
        weights = (self.get_buffer("type_weights"), None, None)
        losses = [
            nn.functional.cross_entropy(each, labels[:, n], weights[n], ignore_index=UNKNOWN)
            for n, each in enumerate(logits)
            if (labels[:, n] != UNKNOWN).any()
        ]
        loss = torch.stack(losses).mean() if losses else logits[0].sum() * 0.0
        said = torch.stack([each.argmax(dim=1) for each in logits], dim=1)
        return {"loss": loss, "right": torch.where(labels == UNKNOWN, labels, (said == labels).long())}

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``."""
        return _accuracies(right)

    def _frozen_vectors(self, asked: Sequence[AnalysisInput]) -> Tensor:
        """Return the vectors of the frozen encoder, which are computed only once."""
        new = list(dict.fromkeys(item for item in asked if item not in self._vectors))
        if new:
            with torch.no_grad():
                self._vectors.update(zip(new, self._encoder.vectors(self._encoder.read(new)).cpu(), strict=True))
        return torch.stack([self._vectors[item] for item in asked])

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_heads(folder, self.heads)
        if self.heads.shape.adapted:
            save_adapter(self.encoder, self.heads.shape.encoder, folder / ADAPTER)


class LabelLearner(CausalLearner):
    """Learns to write the labels. The loss is computed only on their tokens.

    The mark of a target token is the number of its field, counted from 1.
    """

    def __init__(self, recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__(recipe, model, device, dtype)
        self._fields = reply_fields(self.tokenizer)
        self._limit = recipe.max_tokens
        self._random = random.Random(recipe.seed)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Make a batch whose rows are one family: the common instructions, a third of a prompt, are read once."""
        # ``labels`` must be first, because the trainer counts rows by the first tensor of a batch.
        return {"labels": _labels(examples), **self.family([self.row(each) for each in examples])}

    def forward(
        self, labels: Tensor, shared: Tensor, input_ids: Tensor, attention_mask: Tensor, marks: Tensor
    ) -> dict[str, Tensor]:
        """Return the loss, in which the tokens of each field have the same total weight."""
        losses, hits, row, marks = self.target_losses(shared, input_ids, attention_mask, marks)
        cells = row * len(FIELDS) + marks.long() - 1
        sums = losses.new_zeros(labels.numel()).index_add(0, cells, losses)
        misses = torch.zeros(labels.numel(), dtype=torch.long, device=labels.device).index_add(0, cells, (~hits).long())
        known = (labels != UNKNOWN).flatten()
        right = torch.where(known, (misses == 0).long(), torch.full_like(misses, UNKNOWN)).view_as(labels)
        return {"loss": sums[known].mean() if known.any() else sums.sum(), "right": right}

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``."""
        return _accuracies(right)

    def row(self, each: Example) -> Row:
        """Return an example as tokens, the last of which are the reply."""
        ids = prompt_ids(self.tokenizer, each.asked, self._limit)
        marks = [0.0] * len(ids)
        for number, field in enumerate(self._fields):
            names, label = list(field.labels), each.labels[number]
            # An unknown label is replaced by a random one, so that nothing is learned from it for the labels after it.
            said = field.labels[names[label] if label != UNKNOWN else self._random.choice(names)]
            ids = ids + field.scaffold + said
            mark = 0.0 if label == UNKNOWN else number + 1.0
            marks = marks + [0.0] * len(field.scaffold) + [mark] * len(said)
        return ids, marks


def _labels(examples: Sequence[Example]) -> Tensor:
    """Return the labels of a batch, shape (n, 3)."""
    return torch.tensor([each.labels for each in examples], dtype=torch.long)


def _type_weights(examples: Sequence[Example]) -> Tensor:
    """Return a weight for each type: the inverse root of its count, so that rare types count more.

    The weights are scaled to a mean of 1 over the examples. A type that does not occur has the weight 1.
    """
    labels = FIELDS[0][1]
    counts = torch.tensor([float(sum(each.labels[0] == n for each in examples)) for n in range(len(labels))])
    weights = torch.where(counts > 0, counts.clamp(min=1).rsqrt(), torch.ones_like(counts))
    total = counts.sum()
    return weights * total / (weights * counts).sum() if total else torch.ones_like(counts)


def _accuracies(right: Tensor) -> dict[str, float]:
    """Return the accuracy of each field. ``right``, shape (n, 3), is 1 (right), 0 (wrong) or UNKNOWN (ignored)."""
    known = right != UNKNOWN
    return {
        f"{key}_accuracy": float((right[:, n] == 1).sum() / known[:, n].sum())
        for n, (key, _) in enumerate(FIELDS)
        if known[:, n].any()
    }
