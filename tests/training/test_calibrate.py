"""Temperatures make confidence and accuracy agree, and change no label."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.lab.training.learners.calibration import at_temperature, best_temperature, calibration_error


def overconfident(rows: int = 4000) -> tuple[np.ndarray, list[int]]:
    """Labels drawn from probabilities, and the same probabilities made twice as sure."""
    draw = np.random.default_rng(1)
    logits = draw.normal(size=(rows, 3))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = [int(draw.choice(3, p=row)) for row in true]
    return at_temperature(true, 0.5), labels


def test_the_temperature_that_was_hidden_is_found() -> None:
    said, labels = overconfident()
    found = best_temperature(said, labels)
    assert found == pytest.approx(2.0, rel=0.1)
    cooled = at_temperature(said, found)
    assert calibration_error(cooled, labels) < 0.03 < calibration_error(said, labels)
    assert (cooled.argmax(axis=1) == said.argmax(axis=1)).all()
    np.testing.assert_allclose(cooled.sum(axis=1), 1.0)


def test_without_labels_nothing_changes() -> None:
    assert best_temperature(np.zeros((0, 3)), []) == 1.0


def test_the_error_of_known_confidences() -> None:
    said = np.array([[0.95, 0.05]] * 10 + [[0.65, 0.35]] * 10)
    labels = [0] * 9 + [1] + [0] * 5 + [1] * 5
    assert calibration_error(said, labels) == pytest.approx(0.5 * 0.05 + 0.5 * 0.15)
