"""Figures of an analyzer, held against counts made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.lab.training.learners.calibration import (
    confusion_table,
    field_figures,
    figure_table,
    probabilities,
)
from okralong.lab.training.recipe import UNKNOWN, Example, example
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput, make_analysis

ASKED = AnalysisInput("Who?", ())
EXAMPLES = [
    example(ASKED, "extractive", "exact", True),
    example(ASKED, "extractive", "semantic", False),
    example(ASKED, "arithmetic", None, None),
    example(ASKED, "multi-bridge", "same", True),
]
DOCUMENTS = [("a",), ("a", "b"), ("c",), ("d",)]


def said() -> list[np.ndarray]:
    types = np.array([[0.9, 0.1, 0, 0, 0], [0.2, 0.8, 0, 0, 0], [0, 0, 1.0, 0, 0], [0, 0, 0, 0.4, 0.6]])
    patterns = np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    return [types, patterns, np.array([[0.7, 0.3]] * 4)]


def test_labels_by_name_and_unknown_ones() -> None:
    assert EXAMPLES[1] == Example(ASKED, (0, 1, 1))
    assert EXAMPLES[2].labels == (2, UNKNOWN, UNKNOWN)


def test_accuracy_macro_f1_and_confusion() -> None:
    kind, pattern, evidence = field_figures(EXAMPLES, DOCUMENTS, said())
    assert (kind.rows, kind.accuracy.value) == (4, 0.75)
    # extractive 2/3, abstractive 0, arithmetic 1, multi-bridge 1; multi-source never occurs
    assert kind.macro_f1.value == pytest.approx((2 / 3 + 0 + 1 + 1) / 4)
    assert kind.confusion[0] == (1, 1, 0, 0, 0)
    assert (pattern.rows, pattern.accuracy.value) == (3, pytest.approx(2 / 3))
    assert (evidence.rows, evidence.accuracy.value) == (3, pytest.approx(2 / 3))
    assert evidence.calibration_error == pytest.approx(abs(2 / 3 - 0.7))
    assert kind.accuracy.low is not None
    assert kind.accuracy.low < 0.75
    assert kind.accuracy.high == 1.0


def test_analyses_become_arrays_in_the_order_of_the_labels() -> None:
    analysis = make_analysis(
        {"extractive": 1, "abstractive": 3, "arithmetic": 0, "multi-source": 0, "multi-bridge": 0},
        {"exact": 1, "semantic": 0, "same": 1},
        {"yes": 3, "no": 1},
        "someone",
    )
    found = probabilities([analysis])
    np.testing.assert_allclose(found[0], [[0.25, 0.75, 0, 0, 0]])
    np.testing.assert_allclose(found[1], [[0.5, 0.0, 0.5]])
    np.testing.assert_allclose(found[2], [[0.75, 0.25]])


def test_tables_hold_the_figures() -> None:
    figures = field_figures(EXAMPLES, DOCUMENTS, said(), sure=False)
    page = figure_table({"mine": figures})
    assert "| mine | question-type | 4 | 0.750 [" in page
    assert page.count("| - |") == 3
    assert "| extractive | 1 | 1 | 0 | 0 | 0 |" in confusion_table(
        figures[0], ["extractive", "abstractive", "arithmetic", "multi-source", "multi-bridge"]
    )
