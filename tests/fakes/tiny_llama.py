"""A causal language model of a few kilobytes with random weights and the embedded generator's vocabulary."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from okralong.pipelines.models.weights import gguf_tokenizer, repacked_gguf


@cache
def _tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(gguf_tokenizer(repacked_gguf()))


def write_tiny_llama(folder: Path, window: int, seed: int = 5, layers: int = 2, spread: float = 0.3) -> Path:
    """Write model and tokenizer into ``folder``, which is returned; the model reads at most ``window`` tokens.

    The larger the ``spread`` of its weights, the more clearly its probabilities differ.
    """
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=window,
        initializer_range=spread,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
