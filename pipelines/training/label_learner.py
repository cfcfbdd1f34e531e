"""Learning to say the labels: LoRA on a causal language model, with the loss on the labels' tokens alone.

The instructions, a third of a prompt, are read once for a batch; the loss of every row flows back through them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from okralong.pipelines.answering.analysis import FIELDS
from okralong.pipelines.answering.analyzer_label_scorer import opening_ids, prompt_ids, reply_fields
from okralong.pipelines.training.adapter import causal_to_adapt, save_adapter
from okralong.pipelines.training.examples import UNKNOWN, Example
from okralong.pipelines.training.learner import Learner, label_tensor
from okralong.pipelines.training.recipe import Recipe
from okralong.pipelines.training.shared_prefix import states_after


class LabelLearner(Learner):
    """A ``Learner``. The base stays in the dtype given, the adapter learns in float32."""

    def __init__(self, recipe: Recipe, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self._tokenizer = causal_to_adapt(recipe, model, device, dtype)
        self._fields = reply_fields(self._tokenizer)
        self._base = recipe.model
        self._limit = recipe.max_tokens
        self._opening = opening_ids(self._tokenizer)
        self._random = random.Random(recipe.seed)

    def collate(self, examples: Sequence[Example]) -> dict[str, Any]:
        """See ``Learner``. ``targets`` (n, length) has a field's number where a token of its label is predicted.

        Where all rows begin with the instructions, ``opened`` is true and they are left out: they are read once.
        """
        rows = [self._row(each) for each in examples]
        size = len(self._opening)
        opened = all(ids[:size] == self._opening for ids, _ in rows)
        if opened:
            rows = [(ids[size:], marks[size:]) for ids, marks in rows]
        width = max(len(ids) for ids, _ in rows)
        pad = int(self._tokenizer.eos_token_id)
        return {
            "opened": opened,
            "input_ids": torch.tensor([ids + [pad] * (width - len(ids)) for ids, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
            "targets": torch.tensor([marks + [UNKNOWN] * (width - len(marks)) for _, marks in rows]),
            "labels": label_tensor(examples),
        }

    def forward(
        self, opened: bool, input_ids: Tensor, attention_mask: Tensor, targets: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        """See ``Learner``. Each field's tokens count alike in sum; the vocabulary is read at those places only."""
        causal: Any = self.model.get_base_model()
        states = states_after(causal, self._opening if opened else [], input_ids, attention_mask)
        places = (targets != UNKNOWN).nonzero()
        row, at = places[:, 0], places[:, 1]
        field, wanted = targets[row, at], input_ids[row, at + 1]
        # A contiguous 2-D tensor: sliced states would make the head copy its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        losses = nn.functional.cross_entropy(logits, wanted, reduction="none")
        hit = (logits.argmax(dim=1) == wanted).long()
        cells = row * len(FIELDS) + field
        sums = losses.new_zeros(labels.numel()).index_add(0, cells, losses)
        misses = torch.zeros(labels.numel(), dtype=torch.long, device=labels.device).index_add(0, cells, 1 - hit)
        known = (labels != UNKNOWN).flatten()
        right = torch.where(known, (misses == 0).long(), torch.full_like(misses, UNKNOWN)).view_as(labels)
        return {"loss": sums[known].mean() if known.any() else sums.sum(), "right": right}

    def save(self, folder: Path) -> None:
        """See ``Learner``."""
        save_adapter(self.model, self._base, folder)

    def _row(self, each: Example) -> tuple[list[int], list[int]]:
        ids = prompt_ids(self._tokenizer, each.asked, self._limit)
        marks = [UNKNOWN] * len(ids)
        for number, field in enumerate(self._fields):
            names = list(field.labels)
            label = each.labels[number]
            # Where a label is unknown, a drawn one stands before those that follow, so that they learn nothing from it.
            said = field.labels[names[label] if label != UNKNOWN else self._random.choice(names)]
            ids = ids + field.scaffold + said
            # The token before a label's token predicts it.
            marks = marks + [UNKNOWN] * len(field.scaffold) + [UNKNOWN] * len(said)
            if label != UNKNOWN:
                first = len(ids) - len(said) - 1
                marks[first : first + len(said)] = [number] * len(said)
        return ids, marks
