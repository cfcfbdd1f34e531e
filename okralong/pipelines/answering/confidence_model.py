"""The model of confidence: logistic regressions over the signals of an answer (``answering/signals.py``).

``okralong calibrate`` fits it on answers whose gold answers are known. Not in the paper.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from okralong.pipelines.answering.signal_names import SIGNALS
from okralong.pipelines.core.config import Settings, read_config, shipped_config
from okralong.pipelines.core.types import Answer, ConfigError

SHIPPED: Final = "shipped"
NONE: Final = "none"
FILE: Final = "confidence.json"
"""The shipped model, in configs/."""

PROBABILITIES: Final = frozenset(
    {
        *("answerable", "answerable_second", "answerable_mean", "answerable_cited", "span", "support", "evidence"),
        *("look_up_product", "span_probability"),
    }
)
"""Signals that enter the model as log-odds."""
_EDGE: Final = 0.002
"""Probabilities are kept this far from 0 and 1. project default"""
JUDGES: Final = "answerable"
"""The signal that every answer has whose passages the cross-encoder read."""
GENERATED: Final = ("generated", "full_text")
"""The ways in which a generator answers."""


class Head(Settings):
    """A logistic regression over signals: of answers or of refusals, with the cross-encoder's readings or without.

    A signal is turned into log-odds if it is a probability, standardized by ``mean`` and ``scale``, and 0 if unknown.
    ``ways`` has what each way adds to the bias. ``slope`` and ``shift`` correct the
    log-odds, by data sets that were left out of the fit.
    """

    signals: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    bias: float
    weights: tuple[float, ...]
    ways: dict[str, float]
    slope: float = 1.0
    shift: float = 0.0

    def log_odds(self, way: str, signals: Mapping[str, float]) -> float:
        """Return the log-odds that an answer is right."""
        total = self.bias + self.ways.get(way, 0.0)
        for name, mean, scale, weight in zip(self.signals, self.mean, self.scale, self.weights, strict=True):
            if name in signals:
                total += weight * _bounded((entered(name, signals[name]) - mean) / scale)
        return self.slope * total + self.shift


def entered(name: str, value: float) -> float:
    """Return a signal as it enters the model."""
    if name not in PROBABILITIES:
        return value
    sure = min(max(value, _EDGE), 1 - _EDGE)
    return math.log(sure / (1 - sure))


FARTHEST: Final = 3.0
"""Signals count as at most this many standard deviations from their mean. project default"""


def _bounded(value: float) -> float:
    return min(max(value, -FARTHEST), FARTHEST)


class ConfidenceModel(Settings):
    """A model of confidence, as ``okralong calibrate`` writes it.

    Attributes:
        heads: The regressions: "answered" and "unanswerable", and with "/unread" those without readings.
        fitted: The number of answers that it was fitted on, by status and way: "answered/span".
        generators: The generators whose answers were among them, without digests.
        answers: The SHA-256 of these answers.
        sources: Their number by data set.
    """

    version: Annotated[int, Field(ge=1, le=1)] = 1
    heads: dict[str, Head]
    fitted: dict[str, int]
    generators: tuple[str, ...]
    answers: str
    sources: dict[str, int]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the model."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()

    def estimate(self, answer: Answer) -> float | None:
        """Return the probability that an answer is right, or None if the model was fitted on no such answers."""
        return self.estimate_of(answer.status, answer.way, answer.replied_by, answer.signals)

    def score(self, answer: Answer) -> float | None:
        """Return what orders answers of any way and generator; it is no probability where ``estimate`` has none."""
        return self.score_of(answer.status, answer.way, answer.signals)

    def estimate_of(
        self, status: str, way: str, replied_by: Sequence[str], signals: Mapping[str, float]
    ) -> float | None:
        """Return the probability for what ``Answer`` says in these fields."""
        named = {name.partition("@")[0] for name in replied_by}
        if way in GENERATED and not (named and named <= set(self.generators)):
            return None
        return self.score_of(status, way, signals) if self.fitted.get(f"{status}/{way}") else None

    def score_of(self, status: str, way: str, signals: Mapping[str, float]) -> float | None:
        """Return the score for what ``Answer`` says in these fields."""
        head = self.heads.get(status if JUDGES in signals else f"{status}/unread")
        return None if head is None else 1 / (1 + math.exp(-head.log_odds(way, signals)))


def load_confidence(name: str) -> ConfidenceModel | None:
    """Return the model that a config names: "shipped", "none" or a file. Raises ConfigError if it cannot be read."""
    if name == NONE:
        return None
    if name == SHIPPED:
        return _parsed(f"configs/{FILE}", shipped_config(FILE))
    return _parsed(*read_config(Path(name).expanduser()))


@lru_cache(maxsize=4)
def _parsed(where: str, text: str) -> ConfidenceModel:
    try:
        model = ConfidenceModel.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"{where} is no model of confidence: {error}. Make one with okralong calibrate.") from None
    unknown = {name for head in model.heads.values() for name in head.signals} - SIGNALS.keys()
    if unknown:
        raise ConfigError(
            f"{where} was fitted on signals that this okralong does not record: {', '.join(sorted(unknown))}. Fit it "
            "again with okralong calibrate."
        )
    return model
