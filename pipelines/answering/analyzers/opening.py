"""What every prompt of an analyzer begins with, read once: the instructions, as tokens and key-value cache."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from okralong.pipelines.answering.analyzers.scaffold import Ids


@dataclass(frozen=True)
class Opening:
    """``ids`` that all rows of a batch begin with, and the ``cache`` of one row that has read them."""

    ids: Ids
    cache: Any

    @classmethod
    def read(cls, model: Any, ids: Ids) -> Opening:
        """Read ``ids`` with a causal language model. With gradients, where they are on: training shares it, too."""
        tokens = torch.tensor([ids], device=model.device)
        # The inner model alone: no logits are wanted. The cache is given, so that it is one whose rows can be repeated.
        cache = DynamicCache()
        model.base_model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return cls(ids, cache)

    def opens(self, rows: Sequence[Ids]) -> bool:
        """Whether every row begins with it and goes on after it."""
        size = len(self.ids)
        return all(len(row) > size and row[:size] == self.ids for row in rows)

    def cache_for(self, rows: int) -> Any:
        """A cache of so many rows that have read it; growing it leaves this one as it is."""
        grown = copy.copy(self.cache)
        grown.layers = [copy.copy(layer) for layer in self.cache.layers]
        grown.batch_repeat_interleave(rows)
        return grown
