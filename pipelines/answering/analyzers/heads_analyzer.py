"""An analyzer of a small encoder and three heads: milliseconds a question. Runs without Ray."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from okralong.pipelines.answering.analysis import FIELDS, AnalysisInput, make_analysis
from okralong.pipelines.answering.analyzers.batches import by_length
from okralong.pipelines.answering.analyzers.calibration import Temperatures, read_temperatures
from okralong.pipelines.answering.analyzers.encoder import TunableEncoder
from okralong.pipelines.answering.analyzers.features import features
from okralong.pipelines.answering.analyzers.heads import ADAPTER, Heads, load_heads
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.weights import resolve_embedding_model


class HeadsAnalyzer:
    """Make one with ``load``. Not safe for use by two threads at once."""

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
        """The heads in ``folder`` and the encoder that they were trained on.

        ``label`` is how they are called in ``Analysis.analyzer``; else the folder's name.
        Raises ConfigError when either cannot be loaded, or the encoder's weights are others.
        """
        target, _ = settle(device, "float32", threads)
        heads = load_heads(Path(folder))
        model = resolve_embedding_model(heads.shape.encoder)
        if model.sha256 and heads.shape.sha256 and model.sha256 != heads.shape.sha256:
            raise ConfigError(
                f"The heads in {folder} were trained on other weights of {heads.shape.encoder!r} (sha256 "
                f"{heads.shape.sha256}) than those at hand ({model.sha256}). Train them again with `okralong train`."
            )
        adapter = Path(folder) / ADAPTER if heads.shape.adapted else None
        encoder = TunableEncoder.load(model.path, heads.shape.reads, adapter, target)
        name = f"heads:{Path(label or folder).name}"
        return cls(encoder, heads.to(target), name, max_batch, read_temperatures(Path(folder)))

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """One analysis for each input, in their order. Questions of like length share a pass."""
        return by_length(batch, lambda asked: len(asked.question), self._max_batch, self._analyze_part)

    def _analyze_part(self, asked: list[AnalysisInput]) -> list[Analysis]:
        numbers = torch.from_numpy(np.stack([features(item) for item in asked]))
        with torch.inference_mode():
            vectors = self._encoder.vectors(*self._encoder.read(asked))
            logits = self._heads(vectors, numbers.to(vectors.device))
            cooled = [each.double() / t for each, t in zip(logits, self._temperatures, strict=True)]
            rows = [torch.softmax(each, dim=1).tolist() for each in cooled]
        named = [
            [dict(zip(labels, row, strict=True)) for row in field]
            for field, (_, labels) in zip(rows, FIELDS, strict=True)
        ]
        types, patterns, evidence = named
        return [make_analysis(*each, self.name) for each in zip(types, patterns, evidence, strict=True)]
