"""The same question answered by writing: what scoring labels saves is measured against this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzer_label_scorer import REPLY_TOKENS, prompt_ids, reply_ids
from okralong.pipelines.models.loading import settle

LABELS: Final = {"question-type": "multi-bridge", "info-type": "semantic", "containing": "yes"}
"""A reply of the usual length: so many tokens are written, whatever an untrained model would rather say."""


class WritingModel:
    """A causal language model that writes the reply's tokens one after the other."""

    def __init__(self, model: str, threads: int | None = None) -> None:
        device, dtype = settle("auto", "auto", threads)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model, padding_side="left")
        loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=dtype, use_safetensors=True)
        self._model = loaded.to(device).eval()
        self._length = len(reply_ids(self._tokenizer, LABELS))
        self._limit = int(loaded.config.max_position_embeddings) - REPLY_TOKENS

    def write(self, batch: Sequence[AnalysisInput]) -> list[str]:
        """The replies, each of as many tokens as a reply in the contract has."""
        prompts = [prompt_ids(self._tokenizer, asked, self._limit) for asked in batch]
        width = max(map(len, prompts))
        pad = int(self._tokenizer.eos_token_id)
        ids = torch.tensor([[pad] * (width - len(each)) + each for each in prompts], device=self._model.device)
        mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts], device=ids.device)
        with torch.inference_mode():
            out = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                min_new_tokens=self._length,
                max_new_tokens=self._length,
                do_sample=False,
                pad_token_id=pad,
            )
        replies: list[str] = self._tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
        return replies
