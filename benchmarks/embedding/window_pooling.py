"""One forward pass for each window of a document; a chunk's vector is the mean of the token states in its span.

Chunks of several sizes do not nest, so a chunk is pooled by its characters and not by whole windows: over all tokens
that begin in it, in whichever windows they stand. Known as late chunking (Günther et al. 2024, arXiv 2409.04701).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from okralong.pipelines.indexing.embedding import CPU_TOKENS

SPECIAL: Final = 2
"""Tokens that the encoder wants around each window: its first and its last."""

Span = tuple[int, int]
"""Characters, the end not included."""


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens ``start`` to ``end`` of a document go through the encoder together; the states of those from ``first`` to
    ``last`` are kept, those of the others come from the windows beside it. Ends are not included.
    """

    start: int
    end: int
    first: int
    last: int


def windows(tokens: int, most: int, overlap: int = 0) -> list[Window]:
    """Windows of at most ``most`` tokens over ``tokens``, each sharing ``overlap`` of them with the next. Each token is
    kept once, from the window in which it has more around it. Raises ValueError unless 0 <= overlap < most.
    """
    if not 0 <= overlap < most:
        raise ValueError(f"windows of {most} tokens cannot share {overlap}")
    starts = range(0, max(1, tokens - overlap), most - overlap) if tokens else ()
    found = []
    for start in starts:
        end = min(start + most, tokens)
        first = start + overlap // 2 if start else 0
        last = end if end == tokens else end - overlap + overlap // 2
        found.append(Window(start, end, first, last))
    return found


def pool_spans(states: NDArray[np.float32], begins: NDArray[np.int64], spans: Sequence[Span]) -> NDArray[np.float32]:
    """For each span the mean state of the tokens that begin in it, at unit length: (spans, dimension).

    ``states`` are (tokens, dimension), ``begins`` the rising characters at which the tokens begin. A span without a
    token, which is white space, gets zeros and is near to nothing.
    """
    sums = np.concatenate([np.zeros((1, states.shape[1])), np.cumsum(states, axis=0, dtype=np.float64)])
    edges = np.searchsorted(begins, np.asarray(spans, dtype=np.int64).reshape(-1, 2))
    pooled = sums[edges[:, 1]] - sums[edges[:, 0]]
    lengths = np.linalg.norm(pooled, axis=1, keepdims=True)
    found = edges[:, 1:] > edges[:, :1]
    units: NDArray[np.float32] = np.divide(pooled, lengths, out=np.zeros_like(pooled), where=found).astype(np.float32)
    return units


class WindowEncoder:
    """A mean-pooling encoder, read from a sentence-transformers folder in float32, that pools chunks from windows.

    ``most`` tokens go into a window, the encoder's own two included.
    """

    def __init__(self, path: str, most: int, overlap: int = 0) -> None:
        whole = SentenceTransformer(path, device="cpu", model_kwargs={"dtype": torch.float32})
        self._tokenizer: Any = whole.tokenizer
        self._model: Any = whole[0].model
        self._most = most
        self._overlap = overlap

    def embed(self, text: str, spans: Sequence[Span]) -> NDArray[np.float32]:
        """Unit vectors of the spans of a document, of whatever sizes: (spans, dimension)."""
        cut = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        begins = np.array([begin for begin, _ in cut["offset_mapping"]], dtype=np.int64)
        return pool_spans(self._states(cut["input_ids"]), begins, spans)

    def _states(self, ids: list[int]) -> NDArray[np.float32]:
        todo = windows(len(ids), self._most - SPECIAL, self._overlap)
        states = np.zeros((len(ids), self._model.config.hidden_size), dtype=np.float32)
        batch = max(1, CPU_TOKENS // self._most)
        with torch.inference_mode():
            for at in range(0, len(todo), batch):
                some = todo[at : at + batch]
                rows = [self._framed(ids[window.start : window.end]) for window in some]
                padded = self._tokenizer.pad({"input_ids": rows}, return_tensors="pt")
                found = self._model(**padded).last_hidden_state.numpy()
                for window, of_window in zip(some, found, strict=True):
                    shift = 1 - window.start  # the encoder's own first token
                    states[window.first : window.last] = of_window[window.first + shift : window.last + shift]
        return states

    def _framed(self, ids: list[int]) -> list[int]:
        return [self._tokenizer.cls_token_id, *ids, self._tokenizer.sep_token_id]
