"""Embed texts with a cache on disk, so that repeated sweeps embed no text twice, whatever archive it is in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.indexing.job import Encoder
from okralong.pipelines.models.weights import EMBEDDED, ResolvedModel, available_cores, resolve_embedding_model

Vectors = npt.NDArray[np.float32]

EACH: Final = EmbeddingConfig(of="each")
"""A vector for every chunk, as in the papers and their baselines.

By default, a user's archive embeds each text only once, at the smallest chunk size, which has slightly higher recall
(docs/retrieval.md)."""

BATCH: Final = 1024
"""Number of texts embedded between two writes to disk. An interrupted run loses about a minute of work."""


@dataclass
class CachedEncoder:
    """An encoder with a cache. ``load`` returns the real encoder, and is called only if there are new texts.

    The folder has Parquet files of (key, vector), in a subfolder per model. It can be deleted at any time.
    """

    folder: Folder
    model: ResolvedModel
    load: Callable[[], Callable[[list[str]], Vectors]]
    embedded: int = 0
    _known: dict[bytes, Vectors] = field(default_factory=dict)
    _real: Callable[[list[str]], Vectors] | None = None
    _opened: bool = False

    def encode(self, texts: list[str]) -> Vectors:
        """Return unit vectors of ``texts``, shape (n, d). Raises ValueError if there are no texts."""
        if not texts:
            raise ValueError("An encoder needs at least one text.")
        self._open()
        keys = [self._key(text) for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        # Texts of similar length share a batch.
        waiting = sorted(new.items(), key=lambda entry: len(entry[1]))
        for start in range(0, len(waiting), BATCH):
            self._embed(dict(waiting[start : start + BATCH]))
        return np.stack([self._known[key] for key in keys])

    def _embed(self, new: dict[bytes, str]) -> None:
        if self._real is None:
            self._real = self.load()
        vectors = self._real(list(new.values()))
        self._known.update(zip(new, vectors, strict=True))
        self.embedded += len(new)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
        name = f"part-{hashlib.sha256(b''.join(new)).hexdigest()[:16]}.parquet"
        self.folder.write_table(name, pa.table({"key": pa.array(list(new), pa.binary(16)), "vector": column}))

    def _open(self) -> None:
        if self._opened:
            return
        for name in self.folder.names(".parquet"):
            part = pq.read_table(pa.BufferReader(self.folder.read_bytes(name)))
            matrix = part["vector"].combine_chunks().flatten().to_numpy().reshape(len(part), -1)
            self._known.update(zip(part["key"].to_pylist(), matrix, strict=True))
        self._opened = True

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.model.name}\0{self.model.sha256}\0{text}".encode()).digest()[:16]


LIMIT: Final = EmbeddingConfig().max_seq_length
"""Tokens of a text, including special tokens, that the packaged encoder reads. It has 512 positions."""

PRECISION: Final = "float32"
"""Number format of the encoder, so that what trainings learn and benches find does not depend on the processor."""

_BATCH: Final = 1024
"""Number of texts tokenized at a time. Each takes a few kilobytes."""


def cached_encoder(work: Path, name: str = EMBEDDED) -> CachedEncoder:
    """Return the packaged encoder, or that in a model folder, with a cache below ``work/vectors``.

    Raises ConfigError if the package is missing or altered, or the folder does not exist.
    """
    model = resolve_embedding_model(name)
    return CachedEncoder(Folder.of(work / "vectors"), model, partial(_load, model.path))


def index_encoder(cached: CachedEncoder) -> Encoder:
    """Return the same encoder for building an archive."""
    return Encoder(cached.encode, cached.model, lambda: PRECISION, partial(over_limit, cached.model.path))


def plain_encoder(name: str = EMBEDDED) -> Encoder:
    """Return the packaged encoder, or that in a model folder, without a cache. Raises as ``cached_encoder``."""
    model = resolve_embedding_model(name)
    return Encoder(_load(model.path), model, lambda: PRECISION, partial(over_limit, model.path))


def over_limit(model: str, texts: list[str], limit: int = LIMIT) -> list[bool]:
    """Return whether each of ``texts`` has more than ``limit`` tokens, by the tokenizer of a folder or hub name."""
    from transformers import AutoTokenizer  # imports torch, which takes seconds

    tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    batches = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
    return [len(found.ids) > limit for batch in batches for found in tokenizer.encode_batch_fast(batch)]


def _load(path: str) -> Callable[[list[str]], Vectors]:
    from okralong.pipelines.indexing.embedding import SentenceEmbedder  # imports torch, which takes seconds

    return SentenceEmbedder(path, LIMIT, PRECISION, threads=available_cores()).encode
