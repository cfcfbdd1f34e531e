"""Which analyzer speaks, and how it is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from okralong.pipelines.answering.analyzers.corrupted import Corrupted
from okralong.pipelines.answering.analyzers.given_labels import GivenLabels, labels_digest
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.weights import (
    EMBEDDED,
    SHIPPED,
    adapter_digest,
    available_cores,
    causal_model,
    shipped_adapter,
)

if TYPE_CHECKING:
    from okralong.pipelines.answering.analyzers.base import Analyzer


Kind = Literal["heads", "label_scorer", "rules", "llm", "labels"]


PLAIN: Final = ("rules", "llm", "labels")
"""Kinds without an adapter."""


class CorruptConfig(Settings):
    """A share of labels that are made wrong on purpose, by seed (see ``corrupted.py``)."""

    share: Annotated[float, Field(ge=0, le=1)]
    seed: int = 7


class AnalyzerConfig(Settings):
    """The ``analyzer`` part of a run's config.

    ``kind`` is "heads" (a small encoder with trained heads), "label_scorer" (a causal language model), "rules" (keyword
    rules), "llm" (the run's own generator, at its price) or "labels" (those of the file ``labels``; see
    ``given_labels.py``). ``corrupt`` makes a share of what it says wrong, for ablations. ``adapter`` is "shipped", or
    the folder that `okralong train` wrote; for a label scorer also a hub name, or null for the model as it is. For a
    label scorer ``model`` is "embedded", a model folder or a hub name. Up to ``max_batch`` questions that arrive
    within ``batch_wait_s`` seconds are analysed together; each of ``replicas`` takes ``gpus_per_replica`` GPUs.
    """

    kind: Kind = "heads"
    model: str = Field(default=EMBEDDED, min_length=1)
    adapter: Annotated[str, Field(min_length=1)] | None = SHIPPED
    max_batch: Annotated[int, Field(ge=1, le=1024)] = 16
    batch_wait_s: Annotated[float, Field(ge=0, le=10)] = 0.01
    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    gpus_per_replica: Annotated[float, Field(ge=0, le=8)] = 0.0
    labels: Annotated[str, Field(min_length=1)] | None = None
    corrupt: CorruptConfig | None = None

    @model_validator(mode="after")
    def _labels_fit(self) -> Self:
        if (self.kind == "labels") != (self.labels is not None):
            raise ValueError("kind: labels and labels: FILE belong together; give both or neither")
        if self.kind == "llm" and self.corrupt is not None:
            raise ValueError(
                "corrupt spoils what an analyzer here says, and kind: llm is the generator; choose another"
            )
        return self

    @model_validator(mode="after")
    def _adapter_fits(self) -> Self:
        if self.kind in PLAIN and self.adapter not in (None, SHIPPED):
            raise ValueError(f"{self.kind} takes no adapter; set kind: heads or label_scorer, or leave adapter out")
        if self.kind == "heads" and self.adapter is None:
            raise ValueError("heads are trained ones: give adapter, shipped or a folder that `okralong train` wrote")
        if self.kind == "label_scorer" and self.adapter == SHIPPED and self.model != EMBEDDED:
            raise ValueError(
                f"the shipped adapter is for the embedded model, not for {self.model!r}; set adapter: null to use the "
                "model as it is, or give the adapter that `okralong train` wrote for it"
            )
        return self

    def adapter_folder(self) -> Path | None:
        """Where the adapter is; a hub name stays as it is. None for a kind or model without one.

        Raises ConfigError when the shipped one is missing.
        """
        if self.kind in PLAIN or self.adapter is None:
            return None
        if self.adapter == SHIPPED:
            return shipped_adapter(f"analyzer/{self.kind}")
        return Path(self.adapter).expanduser()

    def identity(self) -> dict[str, Any]:
        """What decides an analysis: kind, model, adapter and labels by their content, and what is corrupted.

        Raises ConfigError when the labels file is missing.
        """
        folder = self.adapter_folder()
        adapter = None if folder is None else adapter_digest(folder) or str(self.adapter)
        known: dict[str, Any] = {"kind": self.kind, "model": self.model, "adapter": adapter}
        if self.labels is not None:  # without either the identity is that of before there were any
            known["labels"] = labels_digest(self.labels)
        if self.corrupt is not None:
            known["corrupt"] = self.corrupt.model_dump()
        return known


def analyzer_keys(said: str) -> dict[str, str]:
    """What `okralong answer --analyzer` means as keys of a run's config: a kind, or the folder of a trained analyzer.

    Raises ConfigError when it is neither.
    """
    if said in get_args(Kind):
        return {"analyzer.kind": said}
    # Absolute: the analyzer's replicas have working directories of their own.
    folder = Path(said).expanduser().resolve()
    if (folder / "heads.json").is_file():
        return {"analyzer.kind": "heads", "analyzer.adapter": str(folder)}
    if (folder / "adapter_config.json").is_file():
        base = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8")).get("base_model_name_or_path")
        return {"analyzer.kind": "label_scorer", "analyzer.adapter": str(folder), "analyzer.model": base or EMBEDDED}
    raise ConfigError(
        f"--analyzer {said} is neither a kind ({', '.join(get_args(Kind))}) nor a folder that `okralong train` wrote "
        "(which holds heads.json or adapter_config.json)."
    )


def load_analyzer(config: AnalyzerConfig) -> Analyzer:
    """The analyzer that ``config`` names, ready to use in this process.

    Raises ConfigError when its model or adapter cannot be loaded, and for "llm", which speaks through the run's client.
    """
    if config.kind == "llm":
        raise ConfigError("The analyzer llm is the run's own generator: it can be used by okralong answer alone.")
    if config.corrupt is not None:
        inner = load_analyzer(config.model_copy(update={"corrupt": None}))
        return Corrupted(inner, config.corrupt.share, config.corrupt.seed)
    if config.kind == "labels" and config.labels is not None:
        return GivenLabels.load(config.labels)
    if config.kind == "rules":
        from okralong.pipelines.answering.analyzers.keyword_rules import KeywordRules

        return KeywordRules()
    # Imported here: torch and transformers take seconds, and the rules need neither.
    if config.kind == "heads":
        from okralong.pipelines.answering.analyzers.heads_analyzer import HeadsAnalyzer

        return HeadsAnalyzer.load(
            str(config.adapter_folder()), config.max_batch, label=config.adapter, threads=available_cores()
        )
    from okralong.pipelines.answering.analyzers.label_scorer import LabelScorer

    model = causal_model(config.model)
    folder = config.adapter_folder()
    name = config.model if config.adapter is None else f"{config.model}+{Path(config.adapter).name}"
    # Ray gives an actor one thread unless told otherwise.
    return LabelScorer.load(
        model, str(folder) if folder else None, max_batch=config.max_batch, label=name, threads=available_cores()
    )
