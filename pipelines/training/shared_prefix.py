"""What the rows of a batch begin with is read once, with gradients: the loss of every row flows back through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from okralong.pipelines.answering.analyzer_label_scorer import Opening


def states_after(causal: Any, shared: Sequence[int], ids: Tensor, mask: Tensor) -> Tensor:
    """The last hidden states of ``ids`` (rows, length), each row read after the tokens ``shared``, which may be none.

    ``causal`` is a causal language model, ``mask`` (rows, length) says which of ``ids`` are no padding.
    """
    cache = None
    if shared:
        cache = Opening.read(causal, list(shared)).cache_for(len(ids))
        mask = torch.cat([mask.new_ones((len(ids), len(shared))), mask], dim=1)
    read = causal.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=cache is not None)
    states: Tensor = read.last_hidden_state
    return states
