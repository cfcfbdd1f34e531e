"""Temperatures: what each field's logits are divided by, so that what is said with 0.8 is right in 8 of 10 cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from okralong.pipelines.reporting.statistics import Floats

_GRID: Final = np.geomspace(0.25, 8.0, 161)
"""Temperatures tried; steps of 2 %. Ours."""

BINS: Final = 10
"""Bins of equal width of the expected calibration error (Guo et al. 2017, section 3)."""


def best_temperature(probabilities: Floats, labels: Sequence[int]) -> float:
    """The temperature with the least loss on ``labels``, for probabilities (n, k) made at temperature 1; 1 for none."""
    if not len(labels):
        return 1.0
    logits = np.log(np.clip(probabilities, 1e-12, None))
    rows = np.arange(len(labels))

    def loss(temperature: float) -> float:
        return float(-np.log(np.clip(_softmax(logits / temperature)[rows, list(labels)], 1e-12, None)).mean())

    return float(min(_GRID, key=loss))


def at_temperature(probabilities: Floats, temperature: float) -> Floats:
    """The same probabilities at another temperature."""
    return _softmax(np.log(np.clip(probabilities, 1e-12, None)) / temperature)


def calibration_error(probabilities: Floats, labels: Sequence[int]) -> float:
    """Expected calibration error of the most probable label: mean gap of confidence and accuracy, by bins; 0 to 1."""
    confidence = probabilities.max(axis=1)
    hit = probabilities.argmax(axis=1) == np.array(labels)
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [(bins == b).mean() * abs(hit[bins == b].mean() - confidence[bins == b].mean()) for b in np.unique(bins)]
    return float(sum(gaps))


def _softmax(logits: Floats) -> Floats:
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    normal: Floats = shifted / shifted.sum(axis=1, keepdims=True)
    return normal
