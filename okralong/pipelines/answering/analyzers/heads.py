"""An analyzer with three heads over a small encoder's vector and some features. It takes milliseconds per question.

Its folder has ``heads.json`` (a description of the inputs), ``heads.safetensors``, the temperatures, and ``adapter/``
if the encoder was tuned with LoRA.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from okralong.pipelines.answering.analyzers.analysis import (
    FIELDS,
    AnalysisInput,
    Temperatures,
    analysis_for,
    by_length,
    read_temperatures,
)
from okralong.pipelines.answering.analyzers.features import COUNT, features
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.models.weights import SAFE, loading, merged, resolve_embedding_model, settle

DESCRIPTION: Final = "heads.json"
WEIGHTS: Final = "heads.safetensors"
ADAPTER: Final = "adapter"


class HeadsAnalyzer:
    """The analyzer; create it with ``load``. Not thread-safe."""

    def __init__(
        self, encoder: TunableEncoder, heads: Heads, name: str, max_batch: int, temperatures: Temperatures
    ) -> None:
        self.name = name
        self._encoder = encoder
        self._heads = heads
        self._max_batch = max_batch
        self._temperatures = temperatures

    @classmethod
    def load(
        cls,
        folder: str | Path,
        max_batch: int = 16,
        device: str = "auto",
        label: str | None = None,
        threads: int | None = None,
    ) -> HeadsAnalyzer:
        """Load the heads in ``folder`` and the encoder that they were trained on.

        ``label`` is the name in ``Analysis.analyzer``, by default the folder's name.

        Raises:
            ConfigError: The heads or the encoder cannot be loaded, or the encoder's weights differ from those in
                training.
        """
        target, _ = settle(device, "float32", threads)
        heads = load_heads(Path(folder))
        model = resolve_embedding_model(heads.shape.encoder)
        if model.sha256 and heads.shape.sha256 and model.sha256 != heads.shape.sha256:
            raise ConfigError(
                f"The heads in {folder} were trained on other weights of {heads.shape.encoder!r} (sha256 "
                f"{heads.shape.sha256}) than those available ({model.sha256}). Train them again with `okralong train`."
            )
        adapter = Path(folder) / ADAPTER if heads.shape.adapted else None
        encoder = TunableEncoder.load(model.path, adapter, target)
        name = f"heads:{Path(label or folder).name}"
        return cls(encoder, heads.to(target), name, max_batch, read_temperatures(Path(folder)))

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """Return one analysis for each input, in their order. Questions of similar length share a pass."""
        return by_length(batch, lambda asked: len(asked.question), self._max_batch, self._analyze_part)

    def _analyze_part(self, asked: list[AnalysisInput]) -> list[Analysis]:
        numbers = torch.from_numpy(np.stack([features(item) for item in asked]))
        with torch.inference_mode():
            vectors = self._encoder.vectors(self._encoder.read(asked))
            logits = self._heads(vectors, numbers.to(vectors.device))
            cooled = [each.double() / t for each, t in zip(logits, self._temperatures, strict=True)]
            rows = [torch.softmax(each, dim=1).tolist() for each in cooled]
        named = [
            [dict(zip(labels, row, strict=True)) for row in field]
            for field, (_, labels) in zip(rows, FIELDS, strict=True)
        ]
        return [analysis_for(item, self.name, *each) for item, *each in zip(asked, *named, strict=True)]


@dataclass(frozen=True, slots=True)
class HeadsShape:
    """The inputs and the size of the heads.

    Attributes:
        encoder: "embedded", a model folder or a hub name.
        sha256: Hash of the encoder's weights.
        vector: Length of the embedding.
        hidden: Width of the hidden layer of each head.
    """

    encoder: str
    sha256: str | None
    vector: int
    hidden: int
    adapted: bool


class Heads(nn.Module):
    """Three heads, which map vectors (n, ``vector``) and features (n, ``COUNT``) to the logits of the three fields."""

    def __init__(self, shape: HeadsShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.fields = nn.ModuleList(
            nn.Sequential(
                nn.Linear(shape.vector + COUNT, shape.hidden),
                nn.GELU(),
                nn.Dropout(dropout),
                nn.Linear(shape.hidden, len(labels)),
            )
            for _, labels in FIELDS
        )

    def forward(self, vectors: Tensor, features: Tensor) -> list[Tensor]:
        """Return the logits of each field, shape (n, labels of the field)."""
        read = torch.cat([vectors, features], dim=1)
        return [field(read) for field in self.fields]


def save_heads(folder: Path, heads: Heads) -> None:
    """Write the description and the weights. The caller writes the encoder's adapter."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.detach().cpu().contiguous() for name, value in heads.state_dict().items()}, folder / WEIGHTS)
    (folder / DESCRIPTION).write_text(json.dumps(asdict(heads.shape), indent=2) + "\n", encoding="utf-8")


def load_heads(folder: Path) -> Heads:
    """Load what ``save_heads`` wrote. Raises ConfigError if the folder has no heads."""
    try:
        said: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        # Earlier heads say what their encoder read: the question alone, or paired with each passage.
        if said.pop("reads", "question") != "question":
            raise ValueError("their encoder reads passages, which is no longer supported; train them again")
        heads = Heads(HeadsShape(**said))
        heads.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ConfigError(
            f"{folder} holds no heads that this okralong can read: {error}. Name a folder that `okralong train` wrote "
            "under analyzer.adapter, or set analyzer.kind to rules."
        ) from error
    return heads.eval()


# The sentence encoder, which training can tune.

QUESTION_TOKENS: Final = 128  # project default: the longest of 32,000 questions had 117 words
"""Most tokens of a question that are read."""


class TunableEncoder:
    """A BERT-like encoder whose vectors are mean-pooled and normalized. ``model`` may be wrapped by PEFT."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, path: str, adapter: Path | None = None, device: str = "cpu") -> TunableEncoder:
        """Load a local folder or hub name, in float32, and merge the LoRA ``adapter`` (if any) into it.

        Raises ConfigError if that is impossible.
        """
        with loading(f"The encoder {path} with adapter {adapter}", "Give folders that hold safetensors, or hub names."):
            model: Any = AutoModel.from_pretrained(path, dtype=torch.float32, **SAFE)
            if adapter is not None:
                model = merged(model, adapter)
            return cls(model.to(device).eval(), AutoTokenizer.from_pretrained(path, trust_remote_code=False))

    @property
    def width(self) -> int:
        """Length of a vector."""
        return int(self.model.config.hidden_size)

    def read(self, asked: Sequence[AnalysisInput]) -> dict[str, Tensor]:
        """Return the padded tokens of the questions, by the names of the model's inputs."""
        texts = [item.question for item in asked]
        read = self._tokenizer(texts, padding=True, truncation=True, max_length=QUESTION_TOKENS, return_tensors="pt")
        return {name: values.to(self.model.device) for name, values in read.items()}

    def vectors(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """Return a vector per question, shape (n, ``width``)."""
        states = self.model(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
        return torch.nn.functional.normalize((states * mask).sum(dim=1) / mask.sum(dim=1), dim=1)
