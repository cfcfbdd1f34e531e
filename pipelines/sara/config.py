"""The ``sara`` part of an answer config: which compressor, and how the generator that reads its vectors is served."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.models.weights import SHIPPED
from okralong.pipelines.sara.found import compressor_folder


class SaraConfig(Settings):
    """SARA's models in a run.

    ``compressor`` is "shipped" or a folder that ``okralong train-sara`` wrote, with the generator's adapter in it where
    it was tuned. The generator runs in ``precision`` in each of ``replicas``, which takes ``gpus_per_replica`` GPUs;
    ``max_batch`` prompts are answered in one go, and a batch waits ``batch_wait_s`` seconds to fill.
    """

    compressor: Annotated[str, Field(min_length=1)] = SHIPPED
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    max_batch: Annotated[int, Field(ge=1, le=256)] = 8
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.05
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0

    def folder(self) -> Path:
        """The compressor's folder. Raises ConfigError when there is none."""
        return compressor_folder(self.compressor)
