"""A sentence encoder that can be tuned: what the heads read, with gradients where they are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.answering.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.features import PASSAGES
from okralong.pipelines.answering.analyzers.heads import Reads

QUESTION_TOKENS: Final = 128
"""Tokens of a question that are read; ours. The longest of 32,000 questions at hand has 117 words."""

PAIR_TOKENS: Final = 256
"""Tokens of a question and a passage together, special ones included: a chunk of 150 fits with its question. Ours."""


Read = tuple[dict[str, Tensor], list[int]]
"""Tokens by the names that the model wants them under, and how many rows of them belong to each input."""


class TunableEncoder:
    """Mean-pooled, normalised vectors of a BERT-like encoder. ``model`` may be wrapped by PEFT."""

    def __init__(self, model: Any, tokenizer: Any, reads: Reads) -> None:
        self.model = model
        self.reads = reads
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, path: str, reads: Reads, adapter: Path | None = None, device: str = "cpu") -> TunableEncoder:
        """Load a local folder or hub name, in float32; a LoRA ``adapter`` is merged into it."""
        model: Any = AutoModel.from_pretrained(path, dtype=torch.float32, use_safetensors=True)
        if adapter is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(adapter), use_safetensors=True).merge_and_unload()
        return cls(model.to(device).eval(), AutoTokenizer.from_pretrained(path), reads)

    @property
    def width(self) -> int:
        """The length of a vector."""
        return int(self.model.config.hidden_size) * (1 if self.reads == "question" else 2)

    def read(self, asked: Sequence[AnalysisInput]) -> Read:
        """The tokens of what is embedded, padded, and how many texts belong to each input."""
        if self.reads == "question":
            return self._tokens([item.question for item in asked], None, QUESTION_TOKENS), [1] * len(asked)
        counts = [max(1, min(len(item.passages), PASSAGES)) for item in asked]
        questions = [item.question for item, count in zip(asked, counts, strict=True) for _ in range(count)]
        passages = [text for item in asked for text in (item.passages[:PASSAGES] or ("",))]
        return self._tokens(questions, passages, PAIR_TOKENS), counts

    def vectors(self, tokens: Mapping[str, Tensor], counts: Sequence[int]) -> Tensor:
        """Vectors, shape (n, ``width``). Of pairs: their mean, and the largest value at each place."""
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        pooled = torch.nn.functional.normalize((states * mask).sum(dim=1) / mask.sum(dim=1), dim=1)
        if self.reads == "question":
            return pooled
        groups = torch.split(pooled, list(counts))
        return torch.stack([torch.cat([group.mean(dim=0), group.amax(dim=0)]) for group in groups])

    def _tokens(self, texts: list[str], seconds: list[str] | None, limit: int) -> dict[str, Tensor]:
        read = self._tokenizer(texts, seconds, padding=True, truncation=True, max_length=limit, return_tensors="pt")
        return {name: values.to(self.model.device) for name, values in read.items()}
