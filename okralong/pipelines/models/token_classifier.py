"""A token classifier estimates for each word of a text the probability that a compression keeps it.

It is LLMLingua-2's model (Pan et al. 2024, section 4), a bidirectional encoder with a linear head over each token that
sees the text but no question. The encoder is the embedded sentence encoder, whose last blocks `okralong train` trains
with the head.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.core.types import ConfigError, WordKept
from okralong.pipelines.models.cross_encoder import learned_of, read_learned, write_learned
from okralong.pipelines.models.weights import SAFE, loading, resolve_embedding_model, settle

WEIGHTS: Final = "token_classifier.safetensors"
DESCRIPTION: Final = "token_classifier.json"

MARKS: Final = ".?!"
"""At the end of a word these are separate words: the authors, too, split words at tokens that are always kept (their
``prompt_compressor.py``, with ``force_tokens`` as in their ``evaluation/scripts/compress.sh``)."""

_RUN: Final = re.compile(r"\S+")

SPECIAL: Final = 2
"""Special tokens around a stretch: one at each end."""


@dataclass(frozen=True, slots=True)
class TokenClassifierShape:
    """Description of a trained classifier.

    ``encoder`` is "embedded", a folder or a hub name, ``sha256`` the hash of its weights. Blocks before ``first_block``
    are unchanged. Texts are read in stretches of at most ``max_tokens`` tokens, as in training.
    """

    encoder: str
    sha256: str | None
    first_block: int
    max_tokens: int


class TokenClassifierModel(nn.Module):
    """The encoder with a linear head over each token."""

    def __init__(self, encoder: Any, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        head = nn.Linear(int(encoder.config.hidden_size), 1)
        self.heads = nn.ModuleDict({"keep": nn.Sequential(nn.Dropout(dropout), head)})

    def forward(self, tokens: dict[str, Tensor]) -> Tensor:
        """Return the logit of "kept" for each token, (n, tokens), in float32."""
        logits: Tensor = self.heads["keep"](self.encoder(**tokens).last_hidden_state)
        return logits[..., 0].float()

    def learned(self, first_block: int) -> dict[str, Tensor]:
        """Return the trainable parameters: the encoder's blocks from ``first_block`` on, and the head."""
        return learned_of(self, first_block)


def save_token_classifier(folder: Path, model: TokenClassifierModel, shape: TokenClassifierShape) -> None:
    """Write the description, and the learned weights in float16."""
    folder.mkdir(parents=True, exist_ok=True)
    write_learned(folder / WEIGHTS, model.learned(shape.first_block))
    (folder / DESCRIPTION).write_text(json.dumps(asdict(shape), indent=2) + "\n", encoding="utf-8")


def words_in(text: str) -> list[tuple[int, int]]:
    """Return the ``[start, end)`` of each word in characters: runs without blanks, and the ``MARKS`` at their ends."""
    found: list[tuple[int, int]] = []
    for run in _RUN.finditer(text):
        start, end = run.span()
        bare = start + len(run[0].rstrip(MARKS))
        found += [(start, bare), (bare, end)] if start < bare < end else [(start, end)]
    return found


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text as token ids without special tokens, with the word number of each (see ``words_in``)."""

    ids: list[int]
    word: list[int]

    @classmethod
    def of(cls, tokenizer: Any, text: str, words: Sequence[tuple[int, int]]) -> Pieces:
        """Tokenize ``text`` with the given ``words``."""
        cut = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        begins = [start for start, _ in cut["offset_mapping"]]
        found = np.searchsorted([start for start, _ in words], begins, side="right") - 1
        return cls([int(token) for token in cut["input_ids"]], [int(each) for each in found])

    def stretches(self, most: int) -> Iterator[range]:
        """Yield token ranges of at most ``most`` tokens that end at word ends, unless a single word is longer."""
        start, count = 0, len(self.ids)
        while start < count:
            end = min(start + most, count)
            whole = end
            while end < count and whole > start and self.word[whole] == self.word[whole - 1]:
                whole -= 1
            end = whole if whole > start else end
            yield range(start, end)
            start = end


class TokenClassifier:
    """A loaded token classifier, from ``load``. Not thread-safe."""

    def __init__(self, model: TokenClassifierModel, tokenizer: Any, shape: TokenClassifierShape) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._most = shape.max_tokens - SPECIAL

    @classmethod
    def load(
        cls, folder: Path, precision: str = "auto", device: str = "auto", threads: int | None = None
    ) -> TokenClassifier:
        """Load a classifier of `okralong train` from its folder.

        ``precision`` "auto" depends on the device; ``threads`` sets torch's CPU threads of the whole process, None
        keeps them.

        Raises:
            ConfigError: It cannot be loaded, or was trained on other weights of its encoder.
        """
        shape = read_shape(folder)
        target, dtype = settle(device, precision, threads)
        base = resolve_embedding_model(shape.encoder)
        if base.sha256 and shape.sha256 and base.sha256 != shape.sha256:
            raise ConfigError(
                f"The token classifier in {folder} was trained on other weights of {shape.encoder!r} (sha256 "
                f"{shape.sha256}) than those available ({base.sha256}). Train it again with `okralong train`."
            )
        with loading(f"The encoder {base.path} of the token classifier {folder}", "Give a folder with safetensors."):
            encoder: Any = AutoModel.from_pretrained(base.path, dtype=torch.float32, **SAFE)
            tokenizer = AutoTokenizer.from_pretrained(base.path, trust_remote_code=False)
        model = TokenClassifierModel(encoder)
        read_learned(folder / WEIGHTS, model, model.learned(shape.first_block).keys())
        model.to(target).to(dtype)
        return cls(model.eval(), tokenizer, shape)

    def keep(self, texts: Sequence[str], max_batch: int = 32) -> list[list[WordKept]]:
        """Return the words of each text with the probability that each is kept.

        That is the mean over its tokens (Pan et al. 2024, section 4.2). A word without tokens in the vocabulary (a
        control character) gets 0.
        """
        words = [words_in(text) for text in texts]
        pieces = [Pieces.of(self._tokenizer, text, each) for text, each in zip(texts, words, strict=True)]
        stretches = [(n, part) for n, each in enumerate(pieces) for part in each.stretches(self._most)]
        stretches.sort(key=lambda stretch: len(stretch[1]))
        said = [np.zeros(len(each.ids)) for each in pieces]
        for at in range(0, len(stretches), max_batch):
            batch = stretches[at : at + max_batch]
            rows = [[pieces[n].ids[place] for place in part] for n, part in batch]
            for (n, part), row in zip(batch, self._pass(rows), strict=True):
                said[n][part.start : part.stop] = row
        return [_by_word(*each) for each in zip(words, pieces, said, strict=True)]

    def _pass(self, rows: list[list[int]]) -> list[list[float]]:
        tokens = padded(self._tokenizer, rows)
        with torch.inference_mode():
            device = next(self._model.parameters()).device
            kept = torch.sigmoid(self._model({name: values.to(device) for name, values in tokens.items()})).tolist()
        return [found[1 : 1 + len(row)] for found, row in zip(kept, rows, strict=True)]


def padded(tokenizer: Any, rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Return token ids as a batch, each row between special tokens and padded to the longest."""
    width = max(map(len, rows), default=0) + SPECIAL
    ids = torch.full((len(rows), width), int(tokenizer.pad_token_id))
    mask = torch.zeros((len(rows), width), dtype=torch.long)
    for number, row in enumerate(rows):
        whole = [int(tokenizer.cls_token_id), *row, int(tokenizer.sep_token_id)]
        ids[number, : len(whole)] = torch.tensor(whole)
        mask[number, : len(whole)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def _by_word(words: Sequence[tuple[int, int]], pieces: Pieces, said: Any) -> list[WordKept]:
    sums = np.bincount(pieces.word, weights=said, minlength=len(words)) if pieces.word else np.zeros(len(words))
    counts = np.bincount(pieces.word, minlength=len(words)) if pieces.word else np.zeros(len(words))
    means = sums / np.maximum(counts, 1)
    return [WordKept(start, end, float(mean)) for (start, end), mean in zip(words, means, strict=True)]


def read_shape(folder: Path) -> TokenClassifierShape:
    """Read the description. Raises ConfigError if it is missing or from another okralong."""
    try:
        return TokenClassifierShape(**json.loads((folder / DESCRIPTION).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{folder} holds no token classifier that this okralong can read: {error}. Name a folder that `okralong "
            "train` wrote under token_classifier.model, or shipped."
        ) from error
