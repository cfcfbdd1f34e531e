"""A growing batch of token sequences with its key-value cache, and the likelihood of several continuations at once.

Rows of different length are padded on the left, and positions and masks are given outright, so that what a row gets
does not depend on its neighbours. All continuations of all rows are scored in one pass: they stand one behind the
other and a mask lets each see only the prefix and itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from okralong.pipelines.answering.analyzers.opening import Opening

Ids = list[int]


class Prefix:
    """What a batch of rows has been read of so far.

    After ``extend``: ``seen`` (rows, columns) is true where a cached column is a token and not padding, ``lengths``
    (rows,) counts tokens, and ``last`` (rows, hidden) is the hidden state of each row's last token. With an
    ``opening`` its tokens have been read by all ``rows`` already.
    """

    def __init__(self, model: Any, rows: int, opening: Opening | None = None) -> None:
        read = len(opening.ids) if opening else 0
        self.model = model
        self.cache = opening.cache_for(rows) if opening else DynamicCache()
        self.seen = torch.ones((rows, read), dtype=torch.bool, device=model.device)
        self.lengths = torch.full((rows,), read, dtype=torch.long, device=model.device)
        self.last = torch.zeros((0, 0))

    def extend(self, rows: list[Ids]) -> None:
        """Read more tokens of every row; at least one of each."""
        width = max(len(row) for row in rows)
        device = self.model.device
        tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows], device=device)
        real = torch.tensor([[False] * (width - len(row)) + [True] * len(row) for row in rows], device=device)
        positions = (self.lengths[:, None] + real.cumsum(1) - 1).clamp(min=0)
        causal = torch.ones((width, width), dtype=torch.bool, device=device).tril()
        hidden = self.forward(tokens, positions, causal[None] & real[:, None, :])
        self.seen = torch.cat([self.seen, real], dim=1)
        self.lengths = self.lengths + real.sum(1)
        self.last = hidden[:, -1]

    def forward(self, tokens: Tensor, positions: Tensor, among: Tensor) -> Tensor:
        """Hidden states (rows, new, hidden) of new tokens behind the cached ones, which all of them see.

        ``among`` (rows, new, new) says which new tokens each new token sees. The cache grows by the new columns.
        """
        rows, new = tokens.shape
        before = self.seen[:, None, :].expand(rows, new, self.seen.shape[1])
        visible = torch.cat([before, among.expand(rows, new, new)], dim=2)
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


def score_continuations(prefix: Prefix, continuations: list[Ids]) -> Tensor:
    """Natural-log likelihood of each continuation after each row, shape (rows, continuations), float32.

    The prefix is left as it was.
    """
    rows, device = prefix.lengths.shape[0], prefix.model.device
    inner = [ids[:-1] for ids in continuations]
    packed = [token for ids in inner for token in ids]
    states = prefix.last[:, None]
    if packed:
        owner = torch.tensor([number for number, ids in enumerate(inner) for _ in ids], device=device)
        depth = torch.tensor([step for ids in inner for step in range(len(ids))], device=device)
        among = (owner[:, None] == owner[None]) & (depth[None] <= depth[:, None])
        tokens = torch.tensor([packed], device=device).expand(rows, -1)
        hidden = prefix.forward(tokens, prefix.lengths[:, None] + depth[None], among[None])
        prefix.cache.crop(-len(packed))
        states = torch.cat([states, hidden], dim=1)
    # One contiguous matrix: with a slice of three dimensions torch may copy the whole vocabulary matrix first.
    flat = states.reshape(-1, states.shape[-1]).contiguous()
    logits = prefix.model.get_output_embeddings()(flat).float()
    logs = torch.log_softmax(logits, dim=-1).view(rows, states.shape[1], -1)
    return torch.stack([_likelihood(logs, at, ids) for at, ids in zip(_starts(inner), continuations, strict=True)], 1)


def _starts(inner: list[Ids]) -> list[int]:
    """Column, behind the prefix's last token in column 0, where the hidden states of each continuation begin."""
    starts, at = [], 1
    for ids in inner:
        starts.append(at)
        at += len(ids)
    return starts


def _likelihood(logs: Tensor, at: int, ids: Ids) -> Tensor:
    columns = [0, *range(at, at + len(ids) - 1)]
    return logs[:, columns, ids].sum(1)
