"""The bare model: tokens cut, sorted and padded beforehand, nothing but forward passes, in the best batch size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

import torch
from sentence_transformers import SentenceTransformer

BATCHES: Final = (1, 4, 8, 16, 32)
TRIED_ON: Final = 24
"""Texts that each batch size is tried on, evenly drawn from the sorted ones."""

Batches = list[dict[str, torch.Tensor]]


class Bare:
    """The transformer of a sentence-transformers folder, without pooling. ``batch`` is the fastest size found."""

    def __init__(self, path: str, precision: torch.dtype, limit: int) -> None:
        whole = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": precision})
        self._tokenizer: Any = whole.tokenizer
        self._limit = limit
        self.model: Any = whole[0].model
        self.batch = 0

    def prepare(self, texts: Sequence[str], batch: int = 0) -> Batches:
        """The batches of all texts, of ``batch`` each, 0: in the batch size that runs some of them fastest."""
        ids = self._tokenizer(list(texts), truncation=True, max_length=self._limit)["input_ids"]
        ids.sort(key=len)
        some = ids[:: max(1, len(ids) // TRIED_ON)]
        self.run(self._batches(some[:4], 4))
        self.batch = batch or min(BATCHES, key=lambda size: self._processor_s(self._batches(some, size)))
        return self._batches(ids, self.batch)

    def run(self, batches: Batches) -> None:
        """The forward passes alone."""
        with torch.inference_mode():
            for batch in batches:
                self.model(**batch)

    def _processor_s(self, batches: Batches) -> float:
        started = time.process_time()
        self.run(batches)
        return time.process_time() - started

    def _batches(self, ids: list[list[int]], size: int) -> Batches:
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        return [dict(self._tokenizer.pad({"input_ids": part}, return_tensors="pt")) for part in parts]
