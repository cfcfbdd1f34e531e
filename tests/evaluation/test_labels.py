"""Gold labels for the analyzer."""

from __future__ import annotations

import pytest

from okralong.lab.datasets.gold import evidence_label, gold_analysis, pattern_label


def test_the_side_that_holds_more_is_preferred() -> None:
    assert pattern_label(0.5, 0.2) == "exact"
    assert pattern_label(0.2, 0.5) == "semantic"
    assert pattern_label(0.5, 0.5) == "same"
    assert pattern_label(0.0, 0.0) == "same"


def test_evidence_is_at_hand_when_all_of_it_is() -> None:
    assert [evidence_label(share) for share in (0.0, 0.99, 1.0)] == [False, False, True]


def test_a_gold_analysis_is_sure() -> None:
    found = gold_analysis("multi-bridge", "semantic", False)
    assert (found.type, found.pattern, found.evidence, found.analyzer) == ("multi-bridge", "semantic", False, "gold")
    assert found.type_probabilities["multi-bridge"] == 1.0
    assert found.pattern_probabilities["semantic"] == 1.0
    assert found.evidence_probability == 0.0
    assert gold_analysis("extractive", "same", True).evidence_probability == 1.0
    with pytest.raises(ValueError, match="not one of the question types"):
        gold_analysis("", "same", True)
