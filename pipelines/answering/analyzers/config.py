"""Which analyzer speaks, and how it is served."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.errors import ConfigError
from okralong.pipelines.models.embedded import EMBEDDED, causal_model
from okralong.pipelines.models.precision import available_cores
from okralong.pipelines.settings import Settings

if TYPE_CHECKING:
    from okralong.pipelines.answering.analyzers.base import Analyzer


class AnalyzerConfig(Settings):
    """The ``analyzer`` part of a run's config.

    ``kind`` is "rules", "heads" (a small encoder with trained heads), "label_scorer" (a causal language model) or "llm"
    (the run's own generator, at its price). For a label scorer ``model`` is "embedded", a model folder or a hub name,
    and ``adapter`` the folder or hub name of a LoRA adapter; for heads ``adapter`` is the folder that `okralong train`
    wrote. Up to ``max_batch`` questions that arrive within ``batch_wait_s`` seconds are analysed together; each of
    ``replicas`` takes ``gpus_per_replica`` GPUs.
    """

    kind: Literal["rules", "heads", "label_scorer", "llm"] = "rules"
    model: str = Field(default=EMBEDDED, min_length=1)
    adapter: str | None = None
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.01
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0

    @model_validator(mode="after")
    def _adapter_has_model(self) -> Self:
        if self.kind in ("rules", "llm") and self.adapter is not None:
            raise ValueError(f"{self.kind} takes no adapter; set kind: heads or label_scorer, or leave adapter out")
        if self.kind == "heads" and self.adapter is None:
            raise ValueError("heads are trained ones: give adapter, the folder that `okralong train` wrote")
        return self


def load_analyzer(config: AnalyzerConfig) -> Analyzer:
    """The analyzer that ``config`` names, ready to use in this process.

    Raises ConfigError when its model or adapter cannot be loaded, and for "llm", which speaks through the run's client.
    """
    if config.kind == "llm":
        raise ConfigError("The analyzer llm is the run's own generator: it can be used by okralong answer alone.")
    if config.kind == "rules":
        from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules

        return KeywordRules()
    # Imported here: torch and transformers take seconds, and the rules need neither.
    if config.kind == "heads":
        from okralong.pipelines.answering.analyzers.heads_analyzer import HeadsAnalyzer

        return HeadsAnalyzer.load(str(config.adapter), config.max_batch, threads=available_cores())
    from okralong.pipelines.answering.analyzers.label_scorer import LabelScorer

    model = causal_model(config.model)
    adapter = None if config.adapter is None else str(Path(config.adapter).expanduser())
    # Ray gives an actor one thread unless told otherwise.
    return LabelScorer.load(model, adapter, max_batch=config.max_batch, label=config.model, threads=available_cores())
