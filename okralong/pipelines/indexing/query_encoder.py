"""The encoder of an archive's questions, loaded without sentence-transformers if its model is simple enough.

Importing sentence-transformers brings scikit-learn, scipy and pandas and takes three seconds, longer than all models of
a question take to load. Most sentence encoders are a transformer, mean pooling and normalization, which is what this
module runs. Its vectors equal those of ``SentenceEmbedder``, which handles all other models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.models.weights import (
    SAFE,
    available_cores,
    loading,
    resolve_embedding_model,
    settle,
    usable_positions,
)

Vectors = npt.NDArray[np.float32]

MODULES: Final = ("Transformer", "Pooling", "Normalize")
"""The modules of a simple encoder, by their types in ``modules.json``."""
PRECISION: Final = "float32"
"""Default for questions; with any other, results could differ from the library's."""


class QueryEncoder(Protocol):
    """The encoder interface that a run needs."""

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        ...

    def encode_queries(self, texts: list[str]) -> Vectors:
        """Return unit vectors of queries, shape (n, dimension), float32, in the given order."""
        ...


def load_query_encoder(manifest: Mapping[str, Any], batch_size: int) -> QueryEncoder:
    """Load the encoder that embedded the chunks of the archive with this manifest.

    Raises:
        ConfigError: The model cannot be loaded, or its weights differ.
    """
    wanted = settings_of_vectors(manifest)
    model = resolve_embedding_model(wanted.model)
    encoder = PlainEncoder.load(Path(model.path), wanted) or _any_encoder(model.path, wanted, batch_size)
    made_with = manifest["embedding"]
    if (model.sha256, encoder.dimension) != (made_with["sha256"], made_with["dimension"]):
        raise ConfigError(
            f"The archive's vectors were made with other weights (sha256 {made_with['sha256']}, dimension "
            f"{made_with['dimension']}) than those that {wanted.model!r} names now. Index the archive again."
        )
    return encoder


def settings_of_vectors(manifest: Mapping[str, Any]) -> EmbeddingConfig:
    """Return the settings with which an archive's chunks were embedded; earlier releases gave E5 no prefixes."""
    told = manifest["config"]["embedding"]
    prefixes = {name: told.get(name) for name in ("query_prefix", "passage_prefix")}
    return EmbeddingConfig(**told).model_copy(update=prefixes)


def _any_encoder(path: str, wanted: EmbeddingConfig, batch_size: int) -> QueryEncoder:
    # Imported here, see the module's docstring.
    from okralong.pipelines.indexing.embedding import SentenceEmbedder

    return SentenceEmbedder(
        path,
        wanted.max_seq_length,
        wanted.query_precision,
        batch_size,
        threads=available_cores(),  # Ray gives an actor one thread unless told otherwise
        query_prefix=wanted.query_prefix,
    )


class PlainEncoder:
    """A transformer with mean pooling over its tokens and normalization."""

    def __init__(self, model: Any, tokenizer: Any, device: str, limit: int, prefix: str) -> None:
        """Wrap a loaded model; ``limit`` is its longest query in tokens, including ``prefix``."""
        self._model, self._tokenizer, self._device = model, tokenizer, device
        self._limit, self._prefix = limit, prefix
        self.dimension = int(model.config.hidden_size)

    @classmethod
    def load(cls, folder: Path, wanted: EmbeddingConfig) -> PlainEncoder | None:
        """Load a folder in sentence-transformers' layout, or return None if it is not such a model."""
        if wanted.query_precision != PRECISION or not _is_plain(folder):
            return None
        device, dtype = settle("auto", wanted.query_precision, available_cores())
        with loading(f"The encoder {folder}", "Give a folder that was saved with save_pretrained."):
            model: Any = AutoModel.from_pretrained(folder, dtype=dtype, **SAFE)
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model = model.to(device).eval()
        positions = usable_positions(model.config, wanted.max_seq_length)
        prompts = _read(folder / "config_sentence_transformers.json").get("prompts") or {}
        prefix = prompts.get("query") or "" if wanted.query_prefix is None else wanted.query_prefix
        return cls(model, tokenizer, device, min(wanted.max_seq_length, positions), prefix)

    def encode_queries(self, texts: list[str]) -> Vectors:
        """See ``QueryEncoder``."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        read = [self._prefix + text for text in texts]
        given = self._tokenizer(read, padding=True, truncation=True, max_length=self._limit, return_tensors="pt")
        given = {name: tensor.to(self._device) for name, tensor in given.items()}
        with torch.inference_mode():
            states = self._model(**given).last_hidden_state
            mask = given["attention_mask"].unsqueeze(-1).to(states.dtype)
            means = (states * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
            means = torch.nn.functional.normalize(means, p=2, dim=1)
            unit = torch.nn.functional.normalize(means.to(torch.float32), dim=1)
        vectors: Vectors = unit.cpu().numpy()
        return vectors


def _is_plain(folder: Path) -> bool:
    """Return whether a folder's model is a transformer, mean pooling and normalization with ordinary tokenization."""
    if not (folder / "modules.json").is_file() or not (folder / "model.safetensors").is_file():
        return False
    modules: Any = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    if tuple(module["type"].rsplit(".", 1)[-1] for module in modules) != MODULES or modules[0]["path"]:
        return False
    pooling = _read(folder / modules[1]["path"] / "config.json")
    modes = {name for name, on in pooling.items() if name.startswith("pooling_mode_") and on}
    reads = _read(folder / "sentence_bert_config.json")
    return (
        modes == {"pooling_mode_mean_tokens"}
        and pooling.get("include_prompt", True) is True
        and not reads.get("do_lower_case")
        and not reads.keys() - {"max_seq_length", "do_lower_case"}
    )


def _read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
