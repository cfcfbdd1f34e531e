"""The packaged sentence encoder for the bench: loaded only when a text is new, and what is said of it without that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.evaluation.evidence.vector_cache import CachedEncoder, Vectors
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.indexing.job import Encoder
from okralong.pipelines.models.weights import EMBEDDED, resolve_embedding_model

LIMIT: Final = EmbeddingConfig().max_seq_length
"""Tokens of a text, the encoder's special ones included, that the packaged encoder sees; it has 512 positions."""

_BATCH: Final = 1024
"""Texts counted at a time: each takes some kilobytes. Ours."""


def cached_encoder(work: Path, name: str = EMBEDDED) -> CachedEncoder:
    """The packaged encoder, or that of a model folder, with what it embedded before below ``work/vectors``.

    Raises ConfigError when the package is missing or altered, or there is no such folder.
    """
    model = resolve_embedding_model(name)
    return CachedEncoder(Folder.of(work / "vectors"), model, partial(_load, model.path))


def index_encoder(cached: CachedEncoder) -> Encoder:
    """The same for building an archive."""
    return Encoder(cached.encode, cached.model, _precision, partial(over_limit, cached.model.path))


def over_limit(folder: str, texts: list[str], limit: int = LIMIT) -> list[bool]:
    """Which of ``texts`` have more than ``limit`` tokens, by the tokenizer in a model's folder."""
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    batches = (texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH))
    return [len(found.ids) > limit for batch in batches for found in tokenizer.encode_batch_fast(batch)]


def _load(path: str) -> Callable[[list[str]], Vectors]:
    from okralong.pipelines.indexing.embedding import SentenceEmbedder, available_threads  # brings torch: seconds

    return SentenceEmbedder(path, LIMIT, threads=available_threads()).encode


def _precision() -> str:
    from okralong.pipelines.models.weights import device, dtype_for  # brings torch: seconds

    return str(dtype_for(device())).removeprefix("torch.")
