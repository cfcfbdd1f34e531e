"""Which local language model measures likelihoods, for policies that select evidence by them, and how it is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.models.weights import EMBEDDED, available_cores, converted_model

if TYPE_CHECKING:
    from okralong.pipelines.models.likelihood import LikelihoodModel


class ScorerConfig(Settings):
    """The ``scorer`` part of a run's config.

    ``model`` is "embedded", a model folder or a hub name; each of ``replicas`` takes ``gpus_per_replica`` GPUs.
    """

    model: str = Field(default=EMBEDDED, min_length=1)
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0


def load_scorer(config: ScorerConfig) -> LikelihoodModel:
    """The model that ``config`` names, ready to use in this process. Raises ConfigError when it cannot be loaded."""
    # Imported here: torch and transformers take seconds, and most runs have no scorer.
    from okralong.pipelines.models.likelihood import LikelihoodModel

    model = str(converted_model()) if config.model == EMBEDDED else str(Path(config.model).expanduser())
    # Ray gives an actor one thread unless told otherwise.
    return LikelihoodModel.load(model, threads=available_cores())
