"""A cross-encoder of okralong's kind with random weights, which reads in a fraction of the shipped one's time."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

LAYERS, WIDTH = 1, 32
SHIFT = 1.0
"""Of the logit of "the answer is there", which is near 0 for random weights: so it says 0.7 of every passage."""


@cache
def tiny_cross_encoder() -> str:
    """Its folder, one for this process, which goes with it."""
    folder = Path(tempfile.mkdtemp(prefix="okralong-cross-encoder-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return str(write_tiny_cross_encoder(folder))


def write_tiny_cross_encoder(folder: Path) -> Path:
    """Write its encoder, with the tokenizer of the shipped one, into ``folder / encoder`` and the rest beside it."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    from okralong.pipelines.models.cross_encoder import CrossEncoderModel, CrossEncoderShape, save_cross_encoder
    from okralong.pipelines.models.weights import resolve_embedding_model

    tokenizer = AutoTokenizer.from_pretrained(resolve_embedding_model("embedded").path)
    tokenizer.save_pretrained(folder / "encoder")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        config = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            num_hidden_layers=LAYERS,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=512,
        )
        encoder = BertModel(config)
        encoder.save_pretrained(folder / "encoder")
        model = CrossEncoderModel(encoder)
    known = resolve_embedding_model(str(folder / "encoder")).sha256
    save_cross_encoder(folder, model, CrossEncoderShape(str(folder / "encoder"), known, 0, 512, shift=SHIFT))
    return folder
