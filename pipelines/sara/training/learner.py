"""What learns in a stage of SARA: the compressor below a frozen language model, or an adapter above frozen vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from okralong.pipelines.answering.analyzer_label_scorer import Opening
from okralong.pipelines.models.weights import text_ids
from okralong.pipelines.sara.artifact import LORA
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.generator import IGNORED, Row, chat_pieces, padded, row_of
from okralong.pipelines.sara.training.examples import MixedExample, prompt_of
from okralong.pipelines.training.adapter import save_adapter
from okralong.pipelines.training.learner import Learner

LEAST_SHARED: Final = 8
"""Tokens that a batch must share to be worth a pass of their own; ours."""


class SaraLearner(Learner):
    """A ``Learner`` over ``MixedExample``: the loss is on the reply's tokens.

    ``model`` is a causal language model, or a PEFT model around one, whose adapter then learns instead of the
    compressor. ``base`` is what a config calls it; of a reply the first ``reply_tokens`` tokens are learned. ``right``
    is (n, 2): of each reply the tokens foretold, and all of them.
    """

    def __init__(
        self, model: Any, tokenizer: Any, compressor: Compressor, base: str, reply_tokens: int, in_order: bool = False
    ) -> None:
        super().__init__()
        self.model, self.compressor, self.in_order = model, compressor, in_order
        self.adapted = hasattr(model, "peft_config")
        compressor.requires_grad_(not self.adapted)
        self._tokenizer, self._base, self._reply_tokens = tokenizer, base, reply_tokens

    def collate(self, examples: Sequence[MixedExample]) -> dict[str, Any]:
        """See ``Learner``. ``labels`` are there for the trainer alone."""
        return {"labels": torch.zeros(len(examples), dtype=torch.long), "examples": list(examples)}

    def forward(self, labels: Tensor, examples: Sequence[MixedExample]) -> dict[str, Tensor]:
        """See ``Learner``; the loss is the mean over the reply tokens of the batch."""
        losses, right, row = self.token_losses(examples)
        counts = torch.zeros((len(examples), 2), dtype=torch.long, device=losses.device)
        counts[:, 0].index_add_(0, row, right.long())
        counts[:, 1].index_add_(0, row, torch.ones_like(row))
        return {"loss": losses.mean(), "right": counts}

    def token_losses(self, examples: Sequence[MixedExample]) -> tuple[Tensor, Tensor, Tensor]:
        """Of each reply token the negative log-likelihood, whether it was the likeliest, and the number of its row."""
        causal = self._causal()
        rows = self.rows(examples)
        shared = _shared(rows)
        embedding: nn.Embedding = causal.get_input_embeddings()
        batch = padded([_without(row, shared) for row in rows], embedding, "right")
        said, mask = batch.inputs(), batch.attention_mask
        if shared:
            # What all rows begin with is read once; with gradients only where they lead to something that learns.
            with nullcontext() if self.adapted and torch.is_grad_enabled() else torch.no_grad():
                opening = Opening.read(causal, list(rows[0].ids[:shared]))
            said["past_key_values"] = opening.cache_for(len(rows))
            said["attention_mask"] = torch.cat([mask.new_ones((len(rows), shared)), mask], dim=1)
            said["position_ids"] = batch.position_ids + shared
        states: Tensor = causal.model(**said, use_cache=bool(shared)).last_hidden_state
        row, at = (batch.labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
        # A contiguous 2-D tensor: sliced states would make the head copy its whole matrix.
        logits = causal.lm_head(states[row, at].contiguous()).float()
        wanted = batch.labels[row, at + 1]
        return nn.functional.cross_entropy(logits, wanted, reduction="none"), logits.argmax(dim=1) == wanted, row

    def rows(self, examples: Sequence[MixedExample]) -> list[Row]:
        """The examples as a model reads them; gradients flow back through the compressor where that learns."""
        device = next(self.compressor.parameters()).device
        given = np.concatenate([each.embeddings for each in examples])
        vectors = list(self.compressor(torch.from_numpy(given).to(device))) if len(given) else []
        found, start = [], 0
        for each in examples:
            own = vectors[start : start + len(each.embeddings)]
            start += len(each.embeddings)
            pieces = chat_pieces(self._tokenizer, prompt_of(each, own))
            reply = text_ids(self._tokenizer, each.reply)
            if len(reply) < self._reply_tokens:
                reply.append(int(self._tokenizer.eos_token_id))
            found.append(row_of(self._tokenizer, pieces, reply[: self._reply_tokens]))
        return found

    @torch.inference_mode()
    def write(self, examples: Sequence[MixedExample]) -> list[str]:
        """A reply to each prompt, of the likeliest tokens, at most ``reply_tokens``."""
        causal, end = self._causal(), self._tokenizer.eos_token_id
        rows = [replace(row, ids=row.ids[: row.usage], targets=0) for row in self.rows(examples)]
        batch = padded(rows, causal.get_input_embeddings(), "left")
        written = causal.generate(
            inputs_embeds=batch.inputs_embeds,
            attention_mask=batch.attention_mask,
            max_new_tokens=self._reply_tokens,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=end,
        )
        texts: list[str] = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return texts

    def _causal(self) -> Any:
        return self.model.get_base_model() if self.adapted else self.model

    def measures(self, right: Tensor) -> Mapping[str, float]:
        """See ``Learner``: the share of reply tokens foretold."""
        foretold, tokens = right.sum(dim=0).tolist()
        return {"token_accuracy": foretold / tokens}

    def save(self, folder: Path) -> None:
        """See ``Learner``: the compressor's two files, and the adapter's below ``lora`` where one learned."""
        self.compressor.save(folder)
        if self.adapted:
            save_adapter(self.model, self._base, folder / LORA)


def _shared(rows: Sequence[Row]) -> int:
    """With how many tokens all rows begin, up to the first vector; 0 where it is not worth a pass of its own."""
    most = min(min(row.places, default=row.usage) for row in rows)
    # The first target is foretold at the token before it, which must stay in the rows.
    most = min(most, *(row.usage - 1 for row in rows))
    size = next((at for at in range(most) if len({row.ids[at] for row in rows}) > 1), most)
    return size if size >= LEAST_SHARED and len(rows) > 1 else 0


def _without(row: Row, size: int) -> Row:
    return replace(row, ids=row.ids[size:], places=tuple(place - size for place in row.places))
