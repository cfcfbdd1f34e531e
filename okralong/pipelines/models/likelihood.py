"""Token log-likelihoods of several texts after a shared prefix, by a causal language model.

The prefix is processed once; its key-value cache is then repeated for as many texts as fit into a pass.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from okralong.pipelines.models.weights import SAFE, loading, settle

Ids = list[int]

PASS_TOKENS: Final = 8192
"""Tokens of one pass, including the repeated prefix: some 250 MB, since SmolLM2-135M keeps 23 kB per token in bfloat16
and Llama-3.2-1B 32 kB. # project default"""

HEAD_ROWS: Final = 256
"""Positions with logits at a time: 130 MB in float32 for a vocabulary of 128k. # project default"""

_APART: Final[dict[str, Any]] = {"add_special_tokens": False, "verbose": False}


class LikelihoodModel:
    """A causal language model that scores texts, from ``load``. Not thread-safe."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._window = int(model.config.max_position_embeddings)
        opening = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        self._opening: Ids = [int(opening)]

    @classmethod
    def load(
        cls, model: str, precision: str = "auto", device: str = "auto", threads: int | None = None
    ) -> LikelihoodModel:
        """Load ``model``, a folder or hub name with safetensors.

        ``precision`` "auto" depends on the device; ``threads`` sets torch's CPU threads of the whole process, None
        keeps them.

        Raises:
            ConfigError: The model cannot be loaded.
        """
        target, dtype = settle(device, precision, threads)
        with loading(
            f"The scorer's model {model!r}",
            "Give a folder that holds safetensors, a hub name that this machine can reach, or embedded for the model "
            "that comes with okralong.",
        ):
            tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, **SAFE)
        return cls(loaded.to(device=target), tokenizer)

    def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the natural log-likelihood of each token of each text after ``prefix``, in the order of ``texts``.

        Prefix and texts are tokenized separately; a text without tokens gives an empty list. If the prefix and the
        longest text exceed the model's window, the beginning of the prefix is dropped; a text that exceeds it alone
        loses its end.
        """
        rows = [self._ids(text)[: self._window - 1] for text in texts]
        longest = max(map(len, rows), default=0)
        if longest == 0:
            return [[] for _ in rows]
        read = (self._opening + self._ids(prefix))[-(self._window - longest) :]
        scored: list[list[float]] = [[] for _ in rows]
        with torch.inference_mode():
            cache = DynamicCache()
            last = self.hidden_states([read], cache)[:, -1:]
            for group in passes([len(row) for row in rows], len(read)):
                parts = self._score_pass(cache, last, [rows[number] for number in group])
                for number, logs in zip(group, parts, strict=True):
                    scored[number] = logs
        return scored

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the end of each token of each text in characters; all tokens of a character end with it."""
        return [
            [int(end) for _, end in self._tokenizer(text, **_APART, return_offsets_mapping=True)["offset_mapping"]]
            for text in texts
        ]

    def _score_pass(self, prefix: Any, last: Tensor, rows: list[Ids]) -> list[list[float]]:
        width = max(map(len, rows))
        states = last.expand(len(rows), -1, -1)
        if width > 1:
            cache = copy.deepcopy(prefix)
            cache.batch_repeat_interleave(len(rows))
            # Padding on the right is invisible to the tokens before it. A row's last token predicts nothing.
            states = torch.cat(
                [states, self.hidden_states([(row + [0] * width)[: width - 1] for row in rows], cache)], dim=1
            )
        # One contiguous matrix of the real positions: for a three-dimensional slice, torch may copy the whole
        # vocabulary matrix before it multiplies.
        flat = torch.cat([states[number, : len(row)] for number, row in enumerate(rows)]).contiguous()
        wanted = torch.tensor([token for row in rows for token in row], device=flat.device)
        logs: list[float] = []
        for start in range(0, len(flat), HEAD_ROWS):
            part = slice(start, start + HEAD_ROWS)
            logs += self._log_likelihoods(flat[part], wanted[part])
        ends = list(accumulate(map(len, rows)))
        return [logs[start:end] for start, end in pairwise([0, *ends])]

    def hidden_states(self, rows: list[Ids], cache: Any) -> Tensor:
        """Return the last hidden states of some rows of tokens, of shape (rows, tokens, width)."""
        # Without the head, which would multiply every position with the whole vocabulary.
        tokens = torch.tensor(rows, device=self._model.device)
        hidden: Tensor = self._model.base_model(tokens, past_key_values=cache, use_cache=True).last_hidden_state
        return hidden

    def _log_likelihoods(self, states: Tensor, tokens: Tensor) -> list[float]:
        logits = self._model.get_output_embeddings()(states).float()
        logs: list[float] = (torch.gather(logits, 1, tokens[:, None])[:, 0] - torch.logsumexp(logits, dim=1)).tolist()
        return logs

    def _ids(self, text: str) -> Ids:
        return [int(token) for token in self._tokenizer(text, **_APART)["input_ids"]]


def passes(lengths: Sequence[int], prefix: int, limit: int = PASS_TOKENS) -> list[list[int]]:
    """Group the indices of texts with tokens by similar length, at most ``limit`` tokens per group.

    The limit includes the prefix and padding. A text that exceeds it alone forms its own group.
    """
    order = sorted((number for number, length in enumerate(lengths) if length), key=lambda number: lengths[number])
    groups: list[list[int]] = []
    for number in order:
        # Sorted by length, so the new text determines the width of its group.
        if groups and (len(groups[-1]) + 1) * (prefix + lengths[number]) <= limit:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
