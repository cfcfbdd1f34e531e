"""How likely a causal language model finds each of several texts, token by token, after one prefix that they share.

The prefix is read once; its key-value cache is then repeated for as many texts as fit a pass. Runs without Ray.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import settle

Ids = list[int]

PASS_TOKENS: Final = 8192
"""Tokens that one pass holds, the repeated prefix included; ours. SmolLM2-135M keeps 23 kB for each in bfloat16 and
Llama-3.2-1B 32 kB, so a pass takes some 250 MB."""

HEAD_ROWS: Final = 256
"""Positions whose logits exist at a time; ours. A vocabulary of 128k makes 130 MB of them in float32."""

_APART: Final[dict[str, Any]] = {"add_special_tokens": False, "verbose": False}


class LikelihoodModel:
    """A causal language model that measures texts. Make one with ``load``. Not safe for use by two threads at once."""

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
        """Load ``model``, a folder or a hub name. ``precision`` "auto" follows the processor; ``threads`` are torch's
        CPU threads for the whole process, None leaves them as they are.

        Only safetensors are read. Raises ConfigError when the model cannot be loaded.
        """
        target, dtype = settle(device, precision, threads)
        try:
            tokenizer = AutoTokenizer.from_pretrained(model)
            loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, use_safetensors=True)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"The scorer's model {model!r} cannot be loaded: {error}. Give a folder that holds safetensors, a hub "
                "name that this machine can reach, or embedded for the model that comes with okralong."
            ) from error
        return cls(loaded.to(device=target), tokenizer)

    def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """Natural log-likelihood of each token of each text after ``prefix``, in the order of ``texts``.

        Prefix and texts are split into tokens apart from each other. A text without tokens gives an empty list. Where
        prefix and longest text do not fit the model's window together, the beginning of the prefix is left out; of a
        text that alone is too long, the end.
        """
        rows = [self._ids(text)[: self._window - 1] for text in texts]
        longest = max(map(len, rows), default=0)
        if longest == 0:
            return [[] for _ in rows]
        read = (self._opening + self._ids(prefix))[-(self._window - longest) :]
        scored: list[list[float]] = [[] for _ in rows]
        with torch.inference_mode():
            cache = DynamicCache()
            last = self._hidden([read], cache)[:, -1:]
            for group in passes([len(row) for row in rows], len(read)):
                parts = self._score_pass(cache, last, [rows[number] for number in group])
                for number, logs in zip(group, parts, strict=True):
                    scored[number] = logs
        return scored

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where each token of each text ends, in characters; a character of several tokens ends with each of them."""
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
            # Padded on the right: no token sees what comes after it. The last token of a row predicts nothing here.
            states = torch.cat([states, self._hidden([(row + [0] * width)[: width - 1] for row in rows], cache)], dim=1)
        # One contiguous matrix of the real positions: with a slice of three dimensions, torch may copy the whole
        # vocabulary matrix before it multiplies.
        flat = torch.cat([states[number, : len(row)] for number, row in enumerate(rows)]).contiguous()
        wanted = torch.tensor([token for row in rows for token in row], device=flat.device)
        logs: list[float] = []
        for start in range(0, len(flat), HEAD_ROWS):
            part = slice(start, start + HEAD_ROWS)
            logs += self._log_likelihoods(flat[part], wanted[part])
        ends = list(accumulate(map(len, rows)))
        return [logs[start:end] for start, end in pairwise([0, *ends])]

    def _hidden(self, rows: list[Ids], cache: Any) -> Tensor:
        # The inner model alone: its head would multiply every position with the whole vocabulary.
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
    """Numbers of the texts, those without tokens left out, in groups of like length that fill at most ``limit`` tokens
    each, prefix and padding included. A text that alone is too long makes a group of its own.
    """
    order = sorted((number for number, length in enumerate(lengths) if length), key=lambda number: lengths[number])
    groups: list[list[int]] = []
    for number in order:
        # Sorted by length: the one that comes is as wide as the group becomes.
        if groups and (len(groups[-1]) + 1) * (prefix + lengths[number]) <= limit:
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
