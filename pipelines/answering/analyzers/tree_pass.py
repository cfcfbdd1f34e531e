"""A growing batch of token sequences with its key-value cache, and the likelihood of several continuations at once.

Rows of different length are padded on the left, and positions and masks are given outright, so that what a row gets
does not depend on its neighbours. New tokens of all rows and all continuations of all rows go through the model in one
pass: the continuations stand one behind the other, and a mask lets each see only its row and itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from okralong.pipelines.answering.analyzers.opening import Opening
from okralong.pipelines.answering.analyzers.scaffold import Ids


class Prefix:
    """What a batch of rows has been read of so far.

    ``seen`` (rows, columns) is true where a cached column is a token and not padding, ``lengths`` (rows,) counts
    tokens. With an ``opening`` its tokens have been read by all ``rows`` already.
    """

    def __init__(self, model: Any, rows: int, opening: Opening | None = None) -> None:
        read = len(opening.ids) if opening else 0
        self.model = model
        self.cache = opening.cache_for(rows) if opening else DynamicCache()
        self.seen = torch.ones((rows, read), dtype=torch.bool, device=model.device)
        self.lengths = torch.full((rows,), read, dtype=torch.long, device=model.device)

    def extend(self, rows: list[Ids], continuations: list[Ids]) -> Tensor:
        """Read more tokens of every row, at least one of each, and score what may follow.

        Returns the natural-log likelihood of each continuation after each row, shape (rows, continuations), float32.
        The continuations are not kept.
        """
        device, width = self.model.device, max(len(row) for row in rows)
        real = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows], device=device)
        # The last token of a continuation is predicted, never read.
        inner = [ids[:-1] for ids in continuations]
        packed = [token for ids in inner for token in ids]
        tokens = torch.tensor([[0] * (width - len(row)) + row + packed for row in rows], device=device)
        own = (self.lengths[:, None] + real.cumsum(1) - 1).clamp(min=0)
        self.lengths = self.lengths + real.sum(1)
        owner = torch.tensor([number for number, ids in enumerate(inner) for _ in ids], dtype=torch.long, device=device)
        depth = torch.tensor([step for ids in inner for step in range(len(ids))], dtype=torch.long, device=device)
        positions = torch.cat([own, self.lengths[:, None] + depth[None]], dim=1)
        hidden = self._forward(tokens, positions, _among(real, owner, depth))
        if packed:
            self.cache.crop(-len(packed))
        self.seen = torch.cat([self.seen, real], dim=1)
        return self._likelihoods(hidden[:, width - 1 :], inner, continuations)

    def _forward(self, tokens: Tensor, positions: Tensor, among: Tensor) -> Tensor:
        """Hidden states (rows, new, hidden) of new tokens behind the cached ones, which all of them see.

        ``among`` (rows, new, new) says which new tokens each new token sees. The cache grows by the new columns.
        """
        rows, new = tokens.shape
        before = self.seen[:, None, :].expand(rows, new, self.seen.shape[1])
        visible = torch.cat([before, among], dim=2)
        dtype = self.model.dtype
        # Additive and finite: a padding column that sees nothing then gets some average instead of NaN.
        mask = torch.zeros(visible.shape, dtype=dtype, device=tokens.device)
        mask.masked_fill_(~visible, torch.finfo(dtype).min)
        # The inner model alone: its head would multiply every column with the whole vocabulary.
        output = self.model.base_model(
            input_ids=tokens,
            attention_mask=mask[:, None],
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def _likelihoods(self, states: Tensor, inner: list[Ids], continuations: list[Ids]) -> Tensor:
        """From the states of each row's last token, in column 0, and of the continuations' inner tokens behind it."""
        # One contiguous matrix: with a slice of three dimensions torch may copy the whole vocabulary matrix first.
        flat = states.reshape(-1, states.shape[-1]).contiguous()
        logits = self.model.get_output_embeddings()(flat).float()
        logs = torch.log_softmax(logits, dim=-1).view(states.shape[0], states.shape[1], -1)
        found, at = [], 1
        for ids, read in zip(continuations, inner, strict=True):
            columns = [0, *range(at, at + len(read))]
            found.append(logs[:, columns, ids].sum(1))
            at += len(read)
        return torch.stack(found, dim=1)


def _among(real: Tensor, owner: Tensor, depth: Tensor) -> Tensor:
    """Which new tokens see which: a row's own tokens those before them, a continuation's its row and itself."""
    rows, width = real.shape
    size = width + owner.numel()
    among = torch.zeros((rows, size, size), dtype=torch.bool, device=real.device)
    among[:, :width, :width] = (
        torch.ones((width, width), dtype=torch.bool, device=real.device).tril() & real[:, None, :]
    )
    among[:, width:, :width] = real[:, None, :]
    among[:, width:, width:] = (owner[:, None] == owner[None]) & (depth[None] <= depth[:, None])
    return among
