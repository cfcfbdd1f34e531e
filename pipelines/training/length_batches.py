"""Training batches of examples of like length: a short question is not padded to three passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from okralong.pipelines.training.recipe import Example


def length_of(example: Example) -> int:
    """Characters that a model reads of an example: what its tokens grow with."""
    return len(example.asked.question) + sum(map(len, example.asked.passages))


class LengthBatches(Sampler[int]):
    """Indices of which each ``batch_size`` in a row are of like length; the batches come in a seeded random order.

    The order is another one in each epoch, and the same whether the training was interrupted before it or not.
    """

    def __init__(self, examples: Sequence[Example], batch_size: int, seed: int) -> None:
        self._lengths = [length_of(each) for each in examples]
        self._batch_size = batch_size
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by the trainer before each epoch, the first one after a resume too."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        random = torch.Generator().manual_seed(self._seed + self._epoch)
        group: Any = get_length_grouped_indices  # untyped in transformers
        grouped: list[int] = group(self._lengths, self._batch_size, generator=random)
        whole = len(grouped) // self._batch_size
        for batch in torch.randperm(whole, generator=random).tolist():
            yield from grouped[batch * self._batch_size : (batch + 1) * self._batch_size]
        yield from grouped[whole * self._batch_size :]
