"""Training batches of examples of like length: a short question is not padded to three passages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from okralong.pipelines.training.examples import AnyExample


class LengthBatches(Sampler[int]):
    """Indices of which each ``batch_size`` in a row are of like length; the batches come in a seeded random order.

    Examples with the same instructions go together, so that a batch may read those once; what fills no batch of its
    own comes last. The order is another one in each epoch, and the same whether the training was interrupted before it
    or not.
    """

    def __init__(self, examples: Sequence[AnyExample], batch_size: int, seed: int) -> None:
        groups: dict[str, list[int]] = {}
        for index, each in enumerate(examples):
            groups.setdefault(each.instructions, []).append(index)
        self._groups = list(groups.values())
        self._lengths = [each.length for each in examples]
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
        size = self._batch_size
        batches: list[list[int]] = []
        left: list[int] = []
        for group in self._groups:
            order = self._grouped(group, random)
            whole = len(order) // size * size
            batches += [order[at : at + size] for at in range(0, whole, size)]
            left += order[whole:]
        for number in torch.randperm(len(batches), generator=random).tolist():
            yield from batches[number]
        yield from left

    def _grouped(self, group: Sequence[int], random: torch.Generator) -> list[int]:
        by_length: Any = get_length_grouped_indices  # untyped in transformers
        order: list[int] = by_length([self._lengths[index] for index in group], self._batch_size, generator=random)
        return [group[place] for place in order]
